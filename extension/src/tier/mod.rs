//! Tiered relations: statements on the unified view are routed to the hot table, to the cold table, or to both.
//!
//! [`target`] points INSERT, UPDATE and DELETE at the hot table while the statement is analysed, so that defaults,
//! identity and generated columns are PostgreSQL's own. [`route`] decides in the planner which tiers the statement
//! concerns, and [`split`] makes one statement of the parts where it concerns both. Reads need no rewriting to be
//! right: [`bounds`] proves that a tier has no row for them, and [`reads`] keeps cold rows where they are.

pub mod bounds;
mod errors;
mod locks;
mod new_row;
mod partial;
mod partitions;
mod quals;
mod reads;
mod route;
mod split;
mod target;
mod values;
mod view;

use pgrx::pg_sys;

pub use reads::reads_cold_tier;
pub use view::Tiered;

/// Whether a planned query is part of a statement on a tiered relation.
pub fn is_part(query: *mut pg_sys::Query) -> bool {
    route::names_tiered_view(query)
}

/// Installs the hooks. Runs once, at load.
pub fn init() {
    target::init();
    route::init();
    errors::init();
}
