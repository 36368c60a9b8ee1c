//! What the requests mean, one file per verb. This layer neither parses HTTP nor opens connections.
//!
//! Most of the protocol is passed on as it is (`forward`). Verbs that need more have their own file; a cached head, the
//! rebasing of stale appends and a catalog of our own belong here too.

mod change;
mod commit;
mod config;
mod deliver;
mod forward;
mod head;
mod refuse_token;
mod resolve;
mod rewrite;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response};

use super::api::target::Route;
use super::registry::Entry;

/// A request whose sender is known.
pub struct Asked {
    pub method: Method,
    /// From `/v1` on, still encoded.
    pub path_and_query: String,
    /// What may go to the catalog.
    pub headers: HeaderMap,
    pub body: Body,
    /// Length of the body, if the client told it.
    pub length_bytes: Option<u64>,
}

/// Answers one request.
pub async fn answer(entry: Arc<Entry>, route: Route, asked: Asked) -> Response<Body> {
    match route {
        Route::Config => rewrite::forward(&entry, &route, asked, config::REWRITE).await,
        Route::Tokens => refuse_token::post(),
        Route::CommitTable { namespace, table } => commit::table(entry, namespace, table, asked).await,
        Route::CommitTransaction => commit::transaction(entry, asked).await,
        Route::Table if asked.method == Method::GET => rewrite::forward(&entry, &route, asked, head::REWRITE).await,
        // A table that is created or registered is shown like one that is loaded.
        Route::Tables if asked.method == Method::POST => rewrite::forward(&entry, &route, asked, head::REWRITE).await,
        Route::Namespaces
        | Route::Namespace
        | Route::Tables
        | Route::Table
        | Route::BelowTable
        | Route::Views
        | Route::Other => forward::forward(&entry, &route, asked).await,
    }
}
