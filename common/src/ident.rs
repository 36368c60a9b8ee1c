//! Names of Iceberg tables as ColdFront spells them.
//!
//! A reference has three parts and is stored, claimed and sent in one spelling,
//! every part quoted: `"ice"."lake"."orders"`.

use serde::{Deserialize, Serialize};

use crate::quote;

/// The engine's name for the attached Iceberg catalog.
pub const CATALOG_ALIAS: &str = "ice";

/// An Iceberg table: namespace and name in the attached catalog.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableRef {
    pub namespace: String,
    pub name: String,
}

/// Why a text is not a table reference.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not a table reference: expected \"ice\".\"namespace\".\"table\" with every part in double quotes")]
pub struct InvalidTableRef {
    pub text: String,
}

impl TableRef {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Parses the canonical spelling, and nothing else.
    pub fn parse(text: &str) -> Result<Self, InvalidTableRef> {
        let invalid = || InvalidTableRef { text: text.to_owned() };
        let mut parts = Vec::new();
        let mut rest = text;
        loop {
            let (part, after) = quoted_part(rest).ok_or_else(invalid)?;
            parts.push(part);
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None if after.is_empty() => break,
                None => return Err(invalid()),
            }
        }
        match <[String; 3]>::try_from(parts) {
            Ok([alias, namespace, name]) if alias == CATALOG_ALIAS => Ok(Self { namespace, name }),
            _ => Err(invalid()),
        }
    }
}

impl std::fmt::Display for TableRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", quote::ident(CATALOG_ALIAS), quote::ident(&self.namespace), quote::ident(&self.name))
    }
}

/// Splits a leading `"…"` off `text`; returns the unquoted part and what follows.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut chars = text.strip_prefix('"')?.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c != '"' {
            part.push(c);
        } else if chars.next_if(|(_, next)| *next == '"').is_some() {
            part.push('"');
        } else {
            return (!part.is_empty()).then(|| (part, &text[1 + at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_round_trips() {
        for (ns, name) in [("public", "events"), ("Lake-EU", "a.b"), ("q\"uote", "\""), ("ü", "select")] {
            let table = TableRef::new(ns, name);
            assert_eq!(TableRef::parse(&table.to_string()), Ok(table));
        }
        assert_eq!(TableRef::new("lake", "orders").to_string(), "\"ice\".\"lake\".\"orders\"");
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in [
            "",
            "ice.lake.orders",
            "\"ice\".\"a\"",
            "\"x\".\"a\".\"b\"",
            "\"ice\".\"a\".\"b\"x",
            "\"ice\".\"\".\"b\"",
            "\"ice\".\"a\".\"b",
        ] {
            assert!(TableRef::parse(text).is_err(), "{text}");
        }
    }
}
