//! Utility statements on cold relations: one hook, a list of handlers, and the guard against dropping.
//!
//! Everything here starts with look-ups that need no SQL, so a statement that touches no cold relation costs nothing.

mod columns;
mod copy;
mod copy_rows;
mod guard;
mod hook;
mod registry;
mod rename;
mod savepoint;

/// Installs the hooks. Runs once, at load.
pub fn init() {
    hook::init();
    guard::init();
}
