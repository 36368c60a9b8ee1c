//! What a request's path means: whose lake, which part of the Iceberg REST protocol. It may not decode what is passed on.

use axum::http::Method;

use crate::gateway::percent::{decode, decode_namespace};

/// Splits `/<id>/v1/…` into the id and the rest from `/v1` on, still encoded.
pub fn split(path_and_query: &str) -> Option<(&str, &str)> {
    let (id, _) = path_and_query.strip_prefix('/')?.split_once('/')?;
    let rest = &path_and_query[1 + id.len()..];
    rest.starts_with("/v1/").then_some((id, rest))
}

/// A part of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Config,
    Tokens,
    /// Also the creation of a namespace.
    Namespaces,
    Namespace,
    /// Also the creation of a table.
    Tables,
    Table,
    CommitTable {
        namespace: Vec<String>,
        table: String,
    },
    CommitTransaction,
    /// Metrics, credentials, scan planning, …: something below one table.
    BelowTable,
    Views,
    Other,
}

impl Route {
    /// Of a path from `/v1` on, without the query.
    pub fn of(method: &Method, path: &str) -> Self {
        let segments: Vec<&str> = path.strip_prefix("/v1/").unwrap_or(path).split('/').collect();
        if let ["config"] = segments[..] {
            return Self::Config;
        }
        if let ["oauth", "tokens"] = segments[..] {
            return Self::Tokens;
        }
        if let [.., "transactions", "commit"] = segments[..]
            && *method == Method::POST
            && !segments.contains(&"namespaces")
        {
            return Self::CommitTransaction;
        }
        // A prefix may have several segments, so the path is read from where it becomes known.
        let Some(at) = segments.iter().position(|s| *s == "namespaces") else { return Self::Other };
        match segments[at + 1..] {
            [] => Self::Namespaces,
            [_] | [_, "properties"] => Self::Namespace,
            [_, "tables"] | [_, "register"] => Self::Tables,
            [namespace, "tables", table] if *method == Method::POST => {
                Self::CommitTable { namespace: decode_namespace(namespace), table: decode(table) }
            }
            [_, "tables", _] => Self::Table,
            [_, "tables", _, ..] => Self::BelowTable,
            [_, "views", ..] => Self::Views,
            _ => Self::Other,
        }
    }

    /// Name for the metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::Tokens => "tokens",
            Self::Namespaces => "namespaces",
            Self::Namespace => "namespace",
            Self::Tables => "tables",
            Self::Table => "table",
            Self::CommitTable { .. } => "commit_table",
            Self::CommitTransaction => "commit_transaction",
            Self::BelowTable => "below_table",
            Self::Views => "views",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_split_off_and_nothing_decoded() {
        assert_eq!(split("/l1/v1/p/namespaces/a%1Fb?x=%20"), Some(("l1", "/v1/p/namespaces/a%1Fb?x=%20")));
        for bad in ["", "/", "/l1", "/l1/", "/l1/v2/x", "/v1/config", "l1/v1/x"] {
            assert_eq!(split(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn routes_are_told_apart() {
        let get = |path| Route::of(&Method::GET, path).label();
        let post = |path| Route::of(&Method::POST, path).label();
        assert_eq!(get("/v1/config"), "config");
        assert_eq!(post("/v1/oauth/tokens"), "tokens");
        assert_eq!(get("/v1/namespaces"), "namespaces");
        assert_eq!(get("/v1/a/b/namespaces/n/tables/t"), "table");
        assert_eq!(post("/v1/p/namespaces/n/tables/t/metrics"), "below_table");
        assert_eq!(post("/v1/p/transactions/commit"), "commit_transaction");
        assert_eq!(post("/v1/p/namespaces/transactions/commit"), "other");
        assert_eq!(post("/v1/p/namespaces/n/tables"), "tables");
        assert_eq!(get("/v1/p/namespaces/namespaces/tables/namespaces"), "table");
        assert_eq!(post("/v1/p/tables/rename"), "other");
    }

    #[test]
    fn a_table_commit_names_its_table() {
        assert_eq!(
            Route::of(&Method::POST, "/v1/p/namespaces/a.b%1F%C3%BC%2F/tables/x%20%22%27"),
            Route::CommitTable { namespace: vec!["a.b".into(), "ü/".into()], table: "x \"'".into() }
        );
    }
}
