//! The engine as a process, spoken to through its socket. No catalog and no object store: tables live in the memory of
//! the DuckDB instance, which all sessions of one database share.

mod cancel;
mod inputs;
mod life;
mod streams;
mod support;
mod transactions;
