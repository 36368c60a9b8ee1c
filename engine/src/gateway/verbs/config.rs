//! `GET /v1/config`: passed on, without the settings that would lead the client past the gateway.

use serde_json::Value;

use super::rewrite::Rewrite;

/// Where the catalog is and how to get in: the client has our answers to both.
const LEADING_PAST_US: [&str; 4] = ["uri", "oauth2-server-uri", "token", "credential"];

pub const REWRITE: Rewrite = Rewrite { what: "configuration", max_bytes: 1024 * 1024, change: without_way_past };

/// The configuration without [`LEADING_PAST_US`]; None if there is nothing to change.
fn without_way_past(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut config: Value = serde_json::from_slice(bytes).ok()?;
    let mut changed = false;
    for part in ["defaults", "overrides"] {
        if let Some(settings) = config.get_mut(part).and_then(Value::as_object_mut) {
            for name in LEADING_PAST_US {
                changed |= settings.remove(name).is_some();
            }
        }
    }
    changed.then(|| config.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_past_the_gateway_are_removed() {
        let config =
            br#"{"defaults":{"oauth2-server-uri":"http://c/t","x":"1"},"overrides":{"uri":"http://c","prefix":"p"}}"#;
        let changed: Value = serde_json::from_slice(&without_way_past(config).unwrap()).unwrap();
        assert_eq!(changed, serde_json::json!({"defaults": {"x": "1"}, "overrides": {"prefix": "p"}}));
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        for config in
            [&br#"{"defaults":{},"overrides":{"prefix":"uri"}}"#[..], b"[]", b"{", b"", br#"{"overrides":null}"#]
        {
            assert_eq!(without_way_past(config), None);
        }
    }
}
