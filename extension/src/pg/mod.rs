//! The fence around PostgreSQL's C interface: small wrappers, each with the invariant that makes it sound.

pub mod catalog;
pub mod collation;
pub mod compat;
pub mod executor;
pub mod interrupts;
pub mod inval;
pub mod io;
pub mod locks;
pub mod node;
pub mod privilege;
pub mod xact;
