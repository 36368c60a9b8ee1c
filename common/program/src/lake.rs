//! Where the lake is and how to get in, as the database knows it.

use coldfront_common::frame::{CatalogAuth, Lake, Storage};
use sqlx::PgConnection;

use crate::database::{DatabaseError, During};

/// Why nobody knows.
#[derive(Debug, thiserror::Error)]
pub enum LakeSettingsError {
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// The settings of the extension and the credentials it keeps.
pub async fn read(connection: &mut PgConnection) -> Result<Lake, LakeSettingsError> {
    // The settings are the extension's, so it has to be loaded into the session before they can be shown.
    let doing = "reading the lake's settings and credentials, which takes a superuser, or a role with \
                 pg_read_all_settings and SELECT on coldfront.storage_secret";
    let (warehouse, catalog_uri): (Option<String>, Option<String>) = sqlx::query_as(
        "SELECT current_setting('coldfront.warehouse', true), current_setting('coldfront.lakekeeper_endpoint', true)",
    )
    .fetch_one(&mut *connection)
    .await
    .during(doing)?;
    let (Some(warehouse), Some(catalog_uri)) = (warehouse, catalog_uri.filter(|uri| !uri.is_empty())) else {
        return Err(LakeSettingsError::Missing(
            "no lake is configured: set coldfront.warehouse and coldfront.lakekeeper_endpoint, \
             with coldfront in shared_preload_libraries"
                .to_owned(),
        ));
    };
    let secrets: Vec<(String, String)> = sqlx::query_as("SELECT purpose, payload::text FROM coldfront.storage_secret")
        .fetch_all(connection)
        .await
        .during(doing)?;
    let mut lake = Lake { warehouse, catalog_uri, ..Lake::default() };
    for (purpose, payload) in secrets {
        // The parser's message could hold a part of the credential.
        let unreadable = |_| {
            LakeSettingsError::Missing(format!("the {purpose} credential in coldfront.storage_secret cannot be read"))
        };
        match purpose.as_str() {
            "storage" => lake.storage = Some(serde_json::from_str::<Storage>(&payload).map_err(unreadable)?),
            "catalog" => lake.catalog_auth = serde_json::from_str::<CatalogAuth>(&payload).map_err(unreadable)?,
            _ => {}
        }
    }
    Ok(lake)
}
