//! PARTITIONED BY terms: what the engine would accept at CREATE and refuse only at the first INSERT is refused here.
//!
//! A term is `column` or `transform(column)` or `transform(n, column)`; names may be quoted.

use crate::{sqlstate, types::ColumnType};

/// Why a term was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidTerm {
    pub sqlstate: &'static str,
    pub message: String,
    /// What the user can do instead.
    pub hint: &'static str,
}

type Result<T> = std::result::Result<T, InvalidTerm>;

/// A parsed term.
#[derive(Debug, PartialEq, Eq)]
struct Term {
    transform: Option<String>,
    argument: Option<u32>,
    column: String,
}

/// Checks the terms against the columns and returns the clause, empty for no terms.
pub fn clause(terms: &[String], columns: &[(String, ColumnType)]) -> Result<String> {
    for text in terms {
        let term = parse(text).ok_or_else(|| malformed(text))?;
        let Some((_, ty)) = columns.iter().find(|(name, _)| *name == term.column) else {
            return Err(refused(
                "42703",
                format!("partition term \"{text}\" names column \"{}\", which the table does not have", term.column),
                "Write the column as it is declared, in double quotes where its case matters.",
            ));
        };
        check(text, &term, *ty)?;
    }
    Ok(if terms.is_empty() { String::new() } else { format!(" PARTITIONED BY ({})", terms.join(", ")) })
}

fn check(text: &str, term: &Term, ty: ColumnType) -> Result<()> {
    let transform = term.transform.as_deref().unwrap_or("");
    let allowed = match transform {
        "" => !matches!(ty, ColumnType::Float4Array | ColumnType::Float4 | ColumnType::Float8),
        "year" | "month" | "day" => ty.takes_time_transform(),
        "hour" => ty.takes_hour_transform(),
        "bucket" => matches!(
            ty,
            ColumnType::Int2
                | ColumnType::Int4
                | ColumnType::Int8
                | ColumnType::Text
                | ColumnType::Date
                | ColumnType::Timestamp
                | ColumnType::Timestamptz
                | ColumnType::Uuid
                | ColumnType::Numeric { .. }
                | ColumnType::Bytea
        ),
        "truncate" => {
            matches!(
                ty,
                ColumnType::Int2 | ColumnType::Int4 | ColumnType::Int8 | ColumnType::Text | ColumnType::Numeric { .. }
            )
        }
        _ => {
            return Err(refused(
                sqlstate::INVALID_PARAMETER,
                format!("partition term \"{text}\" uses the unknown transform \"{transform}\""),
                "Transforms are year, month, day, hour, bucket(n, column) and truncate(n, column).",
            ));
        }
    };
    let needs_argument = matches!(transform, "bucket" | "truncate");
    if needs_argument != term.argument.is_some() || term.argument == Some(0) {
        return Err(malformed(text));
    }
    if !allowed {
        return Err(refused(
            sqlstate::INVALID_PARAMETER,
            format!("partition term \"{text}\" does not apply to the type of column \"{}\"", term.column),
            "Time transforms need a timestamp or date column (hour: a timestamp).",
        ));
    }
    Ok(())
}

fn refused(sqlstate: &'static str, message: String, hint: &'static str) -> InvalidTerm {
    InvalidTerm { sqlstate, message, hint }
}

fn malformed(text: &str) -> InvalidTerm {
    refused(
        sqlstate::INVALID_PARAMETER,
        format!("\"{text}\" is not a partition term"),
        "Write column, month(column) or bucket(16, column).",
    )
}

fn parse(text: &str) -> Option<Term> {
    let text = text.trim();
    if let Some(column) = name(text) {
        return Some(Term { transform: None, argument: None, column });
    }
    let (transform, rest) = text.split_once('(')?;
    let inner = rest.trim_end().strip_suffix(')')?.trim();
    let transform = transform.trim().to_ascii_lowercase();
    if let Some(column) = name(inner) {
        return Some(Term { transform: Some(transform), argument: None, column });
    }
    let (argument, column) = inner.split_once(',')?;
    let argument = argument.trim().parse().ok()?;
    Some(Term { transform: Some(transform), argument: Some(argument), column: name(column.trim())? })
}

/// A quoted or plain identifier that takes the whole text. A plain one is folded to lower case, as PostgreSQL does.
fn name(text: &str) -> Option<String> {
    if let Some(inner) = text.strip_prefix('"') {
        let inner = inner.strip_suffix('"')?;
        let unescaped = inner.replace("\"\"", "\u{0}");
        return (!inner.is_empty() && !unescaped.contains('"')).then(|| unescaped.replace('\u{0}', "\""));
    }
    let plain = !text.is_empty()
        && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$')
        && !text.starts_with(|c: char| c.is_ascii_digit());
    plain.then(|| text.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<(String, ColumnType)> {
        vec![
            ("ts".into(), ColumnType::Timestamptz),
            ("d".into(), ColumnType::Date),
            ("id".into(), ColumnType::Int8),
            ("We,ird \"x".into(), ColumnType::Text),
            ("f".into(), ColumnType::Float8),
        ]
    }

    #[test]
    fn good_terms_pass_as_written() {
        for term in
            ["month(ts)", "ts", "hour(TS)", "day(d)", "bucket(16, id)", "truncate(3, \"We,ird \"\"x\")", " year ( d ) "]
        {
            assert_eq!(clause(&[term.to_owned()], &columns()).unwrap(), format!(" PARTITIONED BY ({term})"));
        }
        assert_eq!(clause(&[], &columns()).unwrap(), "");
    }

    #[test]
    fn bad_terms_are_refused() {
        for term in [
            "hour(d)",
            "identity(id)",
            "month(id)",
            "bucket(id)",
            "bucket(0, id)",
            "bucket(4, f)",
            "void(ts)",
            "nosuch",
            "month(ts",
            "",
            "a b",
            "truncate(2, ts)",
        ] {
            assert!(clause(&[term.to_owned()], &columns()).is_err(), "{term}");
        }
    }
}
