//! The one place that quotes names and values for SQL text.
//!
//! Everything that goes into engine SQL passes through here. DuckDB and
//! PostgreSQL agree on both forms used: identifiers in double quotes with `""`
//! for a quote, plain string literals with `''` for a quote and no escapes.

/// Quotes `name` as an identifier: `a"b` becomes `"a""b"`.
pub fn ident(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('"');
    for c in name.chars() {
        if c == '"' {
            out.push('"');
        }
        out.push(c);
    }
    out.push('"');
    out
}

/// Quotes `value` as a string literal that has no escape sequences: `O'B\` becomes `'O''B\'`.
///
/// A NUL cannot stand in a literal; PostgreSQL text never holds one.
pub fn literal(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('\'');
    for c in value.chars() {
        if c == '\'' {
            out.push('\'');
        }
        out.push(c);
    }
    out.push('\'');
    out
}

/// Renders `bytes` as a DuckDB BLOB literal in which every byte is escaped: `'\x00\xFF'::BLOB`.
pub fn blob(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 + 8);
    out.push('\'');
    for b in bytes {
        out.push_str(&format!("\\x{b:02X}"));
    }
    out.push_str("'::BLOB");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_keep_every_character() {
        for (name, quoted) in [
            ("plain", "\"plain\""),
            ("Case", "\"Case\""),
            ("a.b", "\"a.b\""),
            ("a\"b", "\"a\"\"b\""),
            ("sel'ect", "\"sel'ect\""),
            ("pivot", "\"pivot\""),
            ("", "\"\""),
        ] {
            assert_eq!(ident(name), quoted);
        }
    }

    #[test]
    fn literals_keep_every_character() {
        for (value, quoted) in [
            ("", "''"),
            ("O'Brien", "'O''Brien'"),
            ("back\\slash", "'back\\slash'"),
            ("$q$; DROP TABLE x; --", "'$q$; DROP TABLE x; --'"),
            ("'); --", "'''); --'"),
        ] {
            assert_eq!(literal(value), quoted);
        }
    }

    #[test]
    fn blobs_are_escaped_byte_by_byte() {
        assert_eq!(blob(b"\x00'a"), "'\\x00\\x27\\x61'::BLOB");
        assert_eq!(blob(b""), "''::BLOB");
    }
}
