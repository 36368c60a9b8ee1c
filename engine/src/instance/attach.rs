//! The SQL that gives an instance its lake: secrets, and the attachments `ice` and `ice_drop_purge`.
//!
//! The texts hold credentials: they go to DuckDB and nowhere else.

use coldfront_common::frame::{Lake, Storage};
use coldfront_common::ident::CATALOG_ALIAS;
use coldfront_common::quote::{ident, literal};

/// Attachment whose DROP TABLE also removes the table's files.
pub const PURGE_ALIAS: &str = "ice_drop_purge";

/// Where the catalog is reached, and with which bearer token.
pub struct Endpoint<'a> {
    pub uri: &'a str,
    pub token: &'a str,
}

/// Extensions that the lake needs beyond the usual ones.
pub fn extra_extensions(lake: &Lake) -> &'static [&'static str] {
    match &lake.storage {
        Some(Storage::Azure { .. }) => &["azure"],
        Some(Storage::Vended { kind }) if kind == "azure" => &["azure"],
        _ => &[],
    }
}

/// Creates the secret for the object store, if the lake has one.
pub fn storage_secret(lake: &Lake) -> Option<String> {
    match lake.storage.as_ref()? {
        Storage::S3 { key, secret, endpoint, region, url_style, use_ssl } => {
            let mut options = vec![
                "TYPE s3".to_owned(),
                format!("KEY_ID {}", literal(key)),
                format!("SECRET {}", literal(secret)),
                format!("REGION {}", literal(region)),
                format!("URL_STYLE {}", literal(url_style)),
                format!("USE_SSL {use_ssl}"),
            ];
            if let Some(endpoint) = endpoint {
                options.push(format!("ENDPOINT {}", literal(without_scheme(endpoint))));
            }
            Some(format!("CREATE OR REPLACE SECRET coldfront_storage ({})", options.join(", ")))
        }
        Storage::Azure { connection_string } => Some(format!(
            "CREATE OR REPLACE SECRET coldfront_storage (TYPE azure, CONNECTION_STRING {})",
            literal(connection_string)
        )),
        Storage::Vended { .. } => None,
    }
}

/// Creates the secret for the catalog.
pub fn catalog_secret(endpoint: &Endpoint<'_>) -> String {
    format!("CREATE OR REPLACE SECRET coldfront_catalog (TYPE iceberg, TOKEN {})", literal(endpoint.token))
}

/// Attaches the catalog under `alias`.
pub fn attach(lake: &Lake, endpoint: &Endpoint<'_>, alias: &str) -> String {
    let delegation = match &lake.storage {
        Some(Storage::Vended { .. }) => "vended_credentials",
        _ => "none",
    };
    let purge = if alias == PURGE_ALIAS { ", PURGE_REQUESTED true" } else { "" };
    format!(
        "ATTACH {} AS {} (TYPE iceberg, ENDPOINT {}, SECRET coldfront_catalog, ACCESS_DELEGATION_MODE '{delegation}'{purge})",
        literal(&lake.warehouse),
        ident(alias),
        literal(endpoint.uri),
    )
}

/// True if `sql` seems to use `alias` as the first part of a name. It errs on the side of yes.
pub fn mentions(sql: &str, alias: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    lower.match_indices(alias).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + alias.len()..].trim_start_matches('"').trim_start();
        !before.is_some_and(is_word) && !after.starts_with(is_word)
    })
}

/// True if `sql` seems to use the lake at all.
pub fn mentions_lake(sql: &str) -> bool {
    mentions(sql, CATALOG_ALIAS) || mentions(sql, PURGE_ALIAS)
}

fn without_scheme(endpoint: &str) -> &str {
    let bare = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    bare.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alias_is_found_as_a_name_and_not_inside_words() {
        for sql in [
            r#"SELECT * FROM "ice"."a"."b""#,
            "select 1 from ICE.x.y",
            r#"DELETE FROM "ice" . "a" . "b""#,
            "FROM ice . a.b",
        ] {
            assert!(mentions(sql, "ice"), "{sql}");
        }
        for sql in ["SELECT 'price'", "SELECT device.a FROM t", "SELECT ice_cream", r#"FROM "ice_drop_purge"."a"."b""#]
        {
            assert!(!mentions(sql, "ice"), "{sql}");
        }
        assert!(mentions(r#"DROP TABLE "ice_drop_purge"."a"."b""#, PURGE_ALIAS));
    }

    #[test]
    fn values_are_quoted_and_schemes_removed() {
        let lake = Lake {
            warehouse: "wh'1".into(),
            storage: Some(Storage::S3 {
                key: "k".into(),
                secret: "s'x".into(),
                endpoint: Some("http://127.0.0.1:9000/".into()),
                region: "r".into(),
                url_style: "path".into(),
                use_ssl: false,
            }),
            ..Lake::default()
        };
        let secret = storage_secret(&lake).unwrap();
        assert!(secret.contains("SECRET 's''x'") && secret.contains("ENDPOINT '127.0.0.1:9000'"), "{secret}");
        let attach = attach(&lake, &Endpoint { uri: "http://127.0.0.1:1", token: "t" }, PURGE_ALIAS);
        assert!(
            attach.starts_with(r#"ATTACH 'wh''1' AS "ice_drop_purge" ("#) && attach.contains("PURGE_REQUESTED true")
        );
    }
}
