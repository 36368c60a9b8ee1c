//! Sessions: the socket, the threads behind it, and what each request does.
//!
//! It speaks `coldfront_common::frame` and uses DuckDB through `crate::instance`. It knows nothing of HTTP.

mod cancel;
mod inbox;
mod input;
pub mod listen;
mod peer;
mod reader;
mod request;
mod scopes;
mod session;
mod stream;
mod streams;
mod verbs;
mod worker;

pub use input::Input;
pub use request::Request;
pub use session::SessionInputs;
