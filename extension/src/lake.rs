//! Where the lake is, as this backend sees it: settings plus the secrets kept in `coldfront.storage_secret`.
//!
//! The secrets are read as the bootstrap superuser inside one guarded call and go nowhere but to the engine.

use std::cell::Cell;

use coldfront_common::{
    frame::{CatalogAuth, Lake, Storage},
    sqlstate,
};
use pgrx::{Spi, pg_sys};

use crate::{
    error::{Error, Result},
    gucs,
    pg::{catalog, privilege},
};

thread_local! {
    /// Counts changes of `coldfront.storage_secret` seen by this backend.
    static GENERATION: Cell<u64> = const { Cell::new(1) };
    /// Generation and settings in use by the session with the engine.
    static IN_USE: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// OID of `coldfront.storage_secret`, once known.
    static SECRETS: Cell<u32> = const { Cell::new(0) };
}

/// Whether settings or secrets may have changed since [`settled`].
pub fn changed() -> bool {
    IN_USE.get() != (GENERATION.get(), fingerprint())
}

/// Remembers the present state as the one in use.
pub fn settled() {
    SECRETS.set(catalog::relation_oid("coldfront", "storage_secret"));
    IN_USE.set((GENERATION.get(), fingerprint()));
}

fn fingerprint() -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    gucs::warehouse().hash(&mut hasher);
    gucs::lakekeeper_endpoint().hash(&mut hasher);
    hasher.finish()
}

/// Reads settings and secrets.
pub fn current() -> Result<Lake> {
    let stored = privilege::as_bootstrap_superuser(read_secrets)?;
    Ok(Lake {
        warehouse: gucs::warehouse(),
        catalog_uri: gucs::lakekeeper_endpoint(),
        catalog_auth: stored.catalog.unwrap_or_default(),
        storage: stored.storage,
    })
}

/// Refuses to touch a lake that nobody configured.
pub fn require_configured() -> Result<()> {
    for (name, value) in
        [("coldfront.warehouse", gucs::warehouse()), ("coldfront.lakekeeper_endpoint", gucs::lakekeeper_endpoint())]
    {
        if value.is_empty() {
            return Err(Error::refused(
                sqlstate::UNDEFINED_OBJECT,
                format!("coldfront: no lake is configured: {name} is empty"),
                format!("Set {name} in postgresql.conf or with ALTER DATABASE … SET."),
            ));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Stored {
    storage: Option<Storage>,
    catalog: Option<CatalogAuth>,
}

fn read_secrets() -> Result<Stored> {
    let mut stored = Stored::default();
    let rows: std::result::Result<Vec<(String, String)>, pgrx::spi::Error> = Spi::connect(|client| {
        let table = client.select(include_str!("../sql/query/secrets.sql"), None, &[])?;
        let mut out = Vec::new();
        for row in table {
            if let (Some(purpose), Some(payload)) = (row.get::<String>(1)?, row.get::<String>(2)?) {
                out.push((purpose, payload));
            }
        }
        Ok(out)
    });
    for (purpose, payload) in rows.map_err(|e| unreadable(&e.to_string()))? {
        match purpose.as_str() {
            "storage" => stored.storage = Some(serde_json::from_str(&payload).map_err(|_| unreadable("storage"))?),
            _ => stored.catalog = Some(serde_json::from_str(&payload).map_err(|_| unreadable("catalog"))?),
        }
    }
    Ok(stored)
}

fn unreadable(what: &str) -> Error {
    Error::Refused {
        sqlstate: sqlstate::INTERNAL,
        message: "coldfront: the table coldfront.storage_secret could not be read".into(),
        detail: Some(what.to_owned()),
        hint: Some(
            "Set the secrets again with coldfront.set_storage_secret() and coldfront.set_catalog_secret().".into(),
        ),
    }
}

/// Registers the invalidation callback. Runs once, at load.
pub fn init() {
    crate::pg::inval::on_relation_change(|relation: pg_sys::Oid| {
        let relation = relation.to_u32();
        if relation == 0 || relation == SECRETS.get() {
            GENERATION.set(GENERATION.get().wrapping_add(1));
        }
    });
}
