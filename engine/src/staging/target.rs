//! Finds the tables that a statement writes, in its text.
//!
//! A scanner, not a parser: it skips literals and comments and looks for the words that name a target. A target it
//! misses costs an orphaned object, never a wrong removal: see `Attribution::committed`.

use coldfront_common::ident::{CATALOG_ALIAS, TableRef};

#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// Unquoted word, in upper case for comparison, and as written.
    Word(String, String),
    Quoted(String),
    Dot,
    Other,
}

/// Targets of INSERT, UPDATE, DELETE, MERGE, COPY, TRUNCATE, CREATE TABLE and ALTER TABLE in the attached lake.
pub fn written_tables(sql: &str) -> Vec<TableRef> {
    let tokens = scan(sql);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if let Some(table) = name_start(&tokens[at..]).and_then(|start| table_at(&tokens[at + start..]))
            && !found.contains(&table)
        {
            found.push(table);
        }
    }
    found
}

/// Number of tokens before the name, if `tokens` begins a clause that names a target.
fn name_start(tokens: &[Token]) -> Option<usize> {
    const CLAUSES: &[&[&str]] = &[
        &["INSERT", "INTO"],
        &["INSERT", "OR", "REPLACE", "INTO"],
        &["INSERT", "OR", "IGNORE", "INTO"],
        &["UPDATE"],
        &["DELETE", "FROM"],
        &["MERGE", "INTO"],
        &["COPY"],
        &["TRUNCATE"],
        &["TRUNCATE", "TABLE"],
        &["CREATE", "TABLE"],
        &["CREATE", "TABLE", "IF", "NOT", "EXISTS"],
        &["CREATE", "OR", "REPLACE", "TABLE"],
        &["ALTER", "TABLE"],
        &["ALTER", "TABLE", "IF", "EXISTS"],
    ];
    let matches = |clause: &&&[&str]| {
        clause.len() < tokens.len()
            && clause.iter().zip(tokens).all(|(word, token)| matches!(token, Token::Word(upper, _) if upper == word))
    };
    CLAUSES.iter().filter(matches).map(|clause| clause.len()).max()
}

fn table_at(tokens: &[Token]) -> Option<TableRef> {
    match tokens {
        [alias, Token::Dot, namespace, Token::Dot, name, ..]
            if text(alias).is_some_and(|a| a.eq_ignore_ascii_case(CATALOG_ALIAS)) =>
        {
            Some(TableRef::new(text(namespace)?, text(name)?))
        }
        _ => None,
    }
}

fn text(token: &Token) -> Option<&str> {
    match token {
        Token::Word(_, written) => Some(written),
        Token::Quoted(text) => Some(text),
        _ => None,
    }
}

fn scan(sql: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        let (token, length) = match c {
            '\'' => (Some(Token::Other), quoted(rest, '\'').1),
            '"' => {
                let (text, length) = quoted(rest, '"');
                (Some(Token::Quoted(text)), length)
            }
            '$' if dollar_quoted(rest).is_some() => (Some(Token::Other), dollar_quoted(rest).unwrap_or(1)),
            '-' if rest.starts_with("--") => (None, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (None, rest.find("*/").map_or(rest.len(), |at| at + 2)),
            '.' => (Some(Token::Dot), 1),
            c if c.is_alphanumeric() || c == '_' => {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(rest.len());
                let word = &rest[..length];
                (Some(Token::Word(word.to_uppercase(), word.to_owned())), length)
            }
            c if c.is_whitespace() => (None, c.len_utf8()),
            c => (Some(Token::Other), c.len_utf8()),
        };
        tokens.extend(token);
        rest = &rest[length..];
    }
    tokens
}

/// Reads a quoted text with doubled quotes inside; returns it and its length with the quotes.
fn quoted(text: &str, quote: char) -> (String, usize) {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            out.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            out.push(quote);
        } else {
            return (out, at + 1);
        }
    }
    (out, text.len())
}

/// Length of a text that begins with `$tag$`, if it does.
fn dollar_quoted(text: &str) -> Option<usize> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[..end];
    let is_tag = tag[1..end - 1].chars().all(|c| c.is_alphanumeric() || c == '_');
    is_tag.then(|| text[end..].find(tag).map_or(text.len(), |at| end + at + tag.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sql: &str) -> Vec<String> {
        written_tables(sql).into_iter().map(|t| format!("{}/{}", t.namespace, t.name)).collect()
    }

    #[test]
    fn targets_are_found_and_sources_are_not() {
        for (sql, expected) in [
            (r#"INSERT INTO "ice"."a"."b" (x) SELECT * FROM "ice"."a"."c""#, vec!["a/b"]),
            ("insert into ice.a.b select 1", vec!["a/b"]),
            (r#"WITH q AS (SELECT 1) UPDATE "ice"."a b"."c""d" AS t SET x = 1"#, vec![r#"a b/c"d"#]),
            (r#"DELETE FROM "ice" . "a"."b" USING "ice"."a"."s""#, vec!["a/b"]),
            (r#"/* UPDATE "ice"."x"."y" */ MERGE INTO "ice"."a"."b" USING t"#, vec!["a/b"]),
            (r#"CREATE TABLE IF NOT EXISTS "ice"."a"."b" (i int)"#, vec!["a/b"]),
            (r#"SELECT 'INSERT INTO "ice"."a"."b"' FROM "ice"."a"."b""#, vec![]),
            (r#"SELECT $x$ UPDATE ice.a.b $x$, $1"#, vec![]),
            (r#"SELECT * FROM "ice"."a"."b" -- DELETE FROM ice.a.b"#, vec![]),
            (r#"INSERT INTO local SELECT * FROM "ice"."a"."b""#, vec![]),
            ("DELETE FROM ice.a.b; UPDATE ice.c.d SET x = 1; DELETE FROM ice.a.b", vec!["a/b", "c/d"]),
            ("SELECT \"unclosed", vec![]),
            ("COPY ice.a.b FROM 'x.csv'", vec!["a/b"]),
            ("UPDATE", vec![]),
        ] {
            assert_eq!(names(sql), expected, "{sql}");
        }
    }
}
