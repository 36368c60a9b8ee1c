//! Who may use the gateway and where their requests go: registration id to token and upstream.
//! It may not speak HTTP.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use subtle::ConstantTimeEq;
use tokio::sync::OnceCell;

use super::observe::Commits;
use super::problem::Problems;
use super::store::upstream::Upstream;
use crate::metrics;

/// Bytes of randomness in a token.
const TOKEN_BYTES: usize = 32;

/// One registered lake.
pub struct Entry {
    pub id: String,
    pub token: String,
    pub upstream: Upstream,
    pub commits: Commits,
    pub problems: Problems,
    /// Path prefix that the catalog asks for, once known; for the typed client.
    pub prefix: OnceCell<Option<String>>,
}

/// All registered lakes.
#[derive(Default)]
pub struct Registry {
    entries: RwLock<HashMap<String, Arc<Entry>>>,
    last_id: AtomicU64,
}

impl Registry {
    pub fn add(&self, upstream: Upstream) -> Result<Arc<Entry>, getrandom::Error> {
        let entry = Arc::new(Entry {
            id: format!("l{}", self.last_id.fetch_add(1, Ordering::Relaxed) + 1),
            token: random_token()?,
            problems: Problems::new(upstream.address().to_owned()),
            upstream,
            commits: Commits::default(),
            prefix: OnceCell::new(),
        });
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(entry.id.clone(), entry.clone());
        ::metrics::gauge!(metrics::GATEWAY_REGISTRATIONS).set(entries.len() as f64);
        Ok(entry)
    }

    pub fn remove(&self, id: &str) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(id);
        ::metrics::gauge!(metrics::GATEWAY_REGISTRATIONS).set(entries.len() as f64);
    }

    /// The entry named `id`, if `token` is its token. The comparison takes the same time whatever is wrong with it.
    pub fn authenticate(&self, id: &str, token: &[u8]) -> Option<Arc<Entry>> {
        let entry = self.entries.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        bool::from(entry.token.as_bytes().ct_eq(token)).then_some(entry)
    }
}

fn random_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}
