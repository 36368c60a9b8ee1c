//! The open streams of a session. At most one per transaction is live; the others are parked.

use std::collections::HashMap;

use coldfront_common::frame::Scope;

use super::request::Request;
use super::scopes::Scopes;
use super::stream::{Stream, StreamError};
use crate::spill::Spill;
use coldfront_common::frame::End;
use std::sync::Arc;

/// Streams by number.
#[derive(Default)]
pub struct Streams {
    open: HashMap<u32, Stream>,
    /// The stream that was fetched last: the one worth reading ahead in.
    recent: Option<u32>,
}

impl Streams {
    pub fn contains(&self, number: u32) -> bool {
        self.open.contains_key(&number)
    }

    /// Adds a stream that occupies its transaction.
    pub fn add(&mut self, number: u32, stream: Stream, scopes: &mut Scopes) {
        if let Some(transaction) = scopes.existing(stream.scope) {
            transaction.live = Some(number);
        }
        self.open.insert(number, stream);
        self.recent = Some(number);
    }

    /// The next batch of a stream, or how it ended; `None` if there is no such stream.
    pub fn fetch(
        &mut self,
        number: u32,
        scopes: &mut Scopes,
        request: &Request,
    ) -> Option<Result<Result<Vec<u8>, End>, StreamError>> {
        let stream = self.open.get_mut(&number)?;
        self.recent = Some(number);
        let scope = stream.scope;
        let outcome = match scopes.existing(scope) {
            Some(transaction) if stream.is_live() => request.call(transaction.interrupter(), || stream.fetch()),
            _ => stream.fetch(),
        };
        if !stream.is_live() {
            vacate(scopes, scope, number, outcome.is_err() || stream.failed());
        }
        if !matches!(outcome, Ok(Ok(_))) {
            self.open.remove(&number);
        }
        Some(outcome)
    }

    /// Pulls one chunk of the recent stream if that is likely to be quick. False if there is nothing to do.
    pub fn read_ahead(&mut self, scopes: &mut Scopes, background: &Request) -> bool {
        let Some(number) = self.recent else { return false };
        let Some(stream) = self.open.get_mut(&number).filter(|stream| stream.wants_read_ahead()) else { return false };
        let scope = stream.scope;
        let Some(transaction) = scopes.existing(scope) else { return false };
        let pulled = request_call(background, transaction.interrupter(), stream);
        if !stream.is_live() {
            vacate(scopes, scope, number, stream.failed());
        }
        pulled
    }

    /// Makes the transaction of `scope` free for another statement.
    pub fn park(&mut self, scope: Scope, scopes: &mut Scopes, request: &Request, spill: &Arc<Spill>) {
        let Some(transaction) = scopes.existing(scope) else { return };
        let Some(number) = transaction.live.take() else { return };
        let Some(stream) = self.open.get_mut(&number) else { return };
        let _ = request.call::<_, StreamError>(transaction.interrupter(), || {
            stream.park(spill);
            Ok(())
        });
        if stream.failed() {
            transaction.probe();
        }
    }

    /// Closes a stream early.
    pub fn close(&mut self, number: u32, scopes: &mut Scopes) {
        if let Some(stream) = self.open.remove(&number) {
            let (scope, live) = (stream.scope, stream.is_live());
            drop(stream);
            if live {
                vacate(scopes, scope, number, false);
            }
        }
    }

    /// Closes every stream of a scope.
    pub fn close_scope(&mut self, scope: Scope, scopes: &mut Scopes) {
        let numbers: Vec<u32> = self.open.iter().filter(|(_, s)| s.scope == scope).map(|(n, _)| *n).collect();
        for number in numbers {
            self.close(number, scopes);
        }
    }

    /// Closes all streams.
    pub fn clear(&mut self) {
        self.open.clear();
        self.recent = None;
    }
}

/// Marks the transaction as free after its live stream ended.
fn vacate(scopes: &mut Scopes, scope: Scope, number: u32, failed: bool) {
    if let Some(transaction) = scopes.existing(scope) {
        if transaction.live == Some(number) {
            transaction.live = None;
        }
        if failed {
            transaction.probe();
        }
    }
}

fn request_call(background: &Request, target: crate::duckdb::Interrupter, stream: &mut Stream) -> bool {
    background
        .call::<_, StreamError>(target, || {
            stream.pull();
            Ok(())
        })
        .is_ok()
}
