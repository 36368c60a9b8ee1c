//! Maps DuckDB's errors and names the part that is at fault: the statement, the catalog, the object store, the memory
//! limit or the spill directory.

use std::time::Instant;

use coldfront_common::frame::{Failure, Lake, Storage};
use coldfront_common::sqlstate;

use super::failure;
use super::rules::{self, STATEMENT, STORE};
use crate::duckdb::{Error, Kind};
use crate::gateway::problem::{Problem, ProblemKind};
use crate::gateway::{Registration, client};
use crate::instance::settings::Limits;

/// Where a statement ran.
pub struct Surroundings<'a> {
    pub lake: &'a Lake,
    pub registration: Option<&'a Registration>,
    pub limits: &'a Limits,
    /// When the request began; trouble of the catalog before that is not its cause.
    pub since: Instant,
}

impl Surroundings<'_> {
    /// A text of DuckDB in one line, without the address of our own gateway.
    pub fn plain(&self, text: &str) -> String {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.registration.map_or(text.clone(), |registration| text.replace(&registration.endpoint, ""))
    }
}

/// Maps an error.
pub fn from_duckdb(error: &Error, at: &Surroundings<'_>) -> Failure {
    let text = error.message.as_str();
    if error.is_interrupt() {
        return failure(sqlstate::QUERY_CANCELED, "the statement was cancelled");
    }
    if let Some(failure) = own_state(error) {
        return failure;
    }
    if is_disk_full(error, at) {
        return disk_full(text, at);
    }
    if error.kind == Kind::OutOfMemory {
        return out_of_memory(text, at);
    }
    if let Some(failure) = of_catalog(error, at) {
        return failure;
    }
    if is_of_store(error) {
        return of_store(error, at);
    }
    if matches!(error.kind, Kind::Fatal | Kind::Internal) {
        let state = rules::find(STATEMENT, error.kind, text).unwrap_or(sqlstate::INTERNAL);
        return Failure { detail: Some(text.to_owned()), ..failure(state, "the engine met an internal error") };
    }
    of_statement(error)
}

/// An error raised on purpose by `error('22012: division by zero')` keeps its SQLSTATE.
fn own_state(error: &Error) -> Option<Failure> {
    let (state, rest) = error.message.split_at_checked(5)?;
    let message = rest.strip_prefix(": ")?;
    let is_state = state.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    (error.kind == Kind::InvalidInput && is_state).then(|| failure(state, body(message).0))
}

fn of_statement(error: &Error) -> Failure {
    let state = rules::find(STATEMENT, error.kind, &error.message).unwrap_or(sqlstate::INTERNAL);
    let (message, rest) = body(&error.message);
    Failure { detail: rest.map(str::to_owned), ..failure(state, message) }
}

/// Separates the first paragraph from DuckDB's explanations; the excerpt of the statement is left out, because it is
/// text that the user did not write.
fn body(text: &str) -> (&str, Option<&str>) {
    let text = text.split("\n\nLINE ").next().unwrap_or(text).trim();
    match text.split_once('\n') {
        // DuckDB's guesses name objects that the user never made.
        Some((first, rest)) if rest.trim().is_empty() || rest.trim().starts_with("Did you mean") => {
            (first.trim(), None)
        }
        Some((first, rest)) => (first.trim(), Some(rest.trim())),
        None => (text, None),
    }
}

fn is_disk_full(error: &Error, at: &Surroundings<'_>) -> bool {
    let text = &error.message;
    let spill = at.limits.spill_dir.display().to_string();
    text.contains("max_temp_directory_size")
        || text.contains("the spill directory")
        || (text.contains("No space left on device") && text.contains(&spill))
        || (error.kind == Kind::Io && text.contains(&spill) && text.contains("rite"))
}

fn disk_full(text: &str, at: &Surroundings<'_>) -> Failure {
    let directory = at.limits.spill_dir.display();
    let message = match text.contains("No space left on device")
        || text.contains("the disk that holds the spill directory")
    {
        true => format!("the disk that holds the engine's spill directory {directory} is full"),
        false => {
            format!("the engine's spill directory {directory} reached its limit of {} MiB", at.limits.spill_limit_mb)
        }
    };
    let hint = "Free disk space, raise the engine's spill limit (spill_limit_mb), or select fewer rows at a time.";
    Failure { detail: Some(body(text).0.to_owned()), hint: Some(hint.into()), ..failure(sqlstate::DISK_FULL, message) }
}

fn out_of_memory(text: &str, at: &Surroundings<'_>) -> Failure {
    let message = format!("the engine's memory limit of {} MiB was reached", at.limits.memory_limit_mb);
    let hint = "Raise the engine's memory limit (memory_limit_mb), or select fewer rows at a time.";
    Failure {
        detail: Some(body(text).0.to_owned()),
        hint: Some(hint.into()),
        ..failure(sqlstate::OUT_OF_MEMORY, message)
    }
}

/// True if the text is about a request to the gateway.
fn is_of_catalog(error: &Error, registration: &Registration) -> bool {
    let text = &error.message;
    text.contains(&registration.endpoint) || text.contains("endpoint returned response code")
}

fn of_catalog(error: &Error, at: &Surroundings<'_>) -> Option<Failure> {
    let registration = at.registration?;
    // The warehouse shows to be missing only when something is looked up in it.
    if error.kind == Kind::Catalog && error.message.contains("because schema") {
        let _ = client::check_warehouse(registration);
        let problem = registration.problem_since(at.since).filter(|p| p.kind == ProblemKind::NoWarehouse);
        return problem.map(|problem| of_problem(&problem, None));
    }
    if !is_of_catalog(error, registration) {
        return None;
    }
    let detail = at.plain(body(&error.message).0);
    match registration.problem_since(at.since) {
        Some(problem) => Some(of_problem(&problem, Some(detail))),
        None => Some(of_refusal(error, detail)),
    }
}

fn of_problem(problem: &Problem, detail: Option<String>) -> Failure {
    let (state, hint) = match problem.kind {
        ProblemKind::Unreachable => (
            sqlstate::UNABLE_TO_CONNECT,
            "Check coldfront.lakekeeper_endpoint and that the catalog runs; the next statement tries again.",
        ),
        ProblemKind::Unauthorized => (
            sqlstate::INVALID_AUTHORIZATION,
            "Check the credentials given to coldfront.set_catalog_secret or coldfront.set_catalog_token.",
        ),
        ProblemKind::Forbidden => {
            (sqlstate::INSUFFICIENT_PRIVILEGE, "Give the catalog credentials the right to do this.")
        }
        ProblemKind::NoWarehouse => (sqlstate::UNDEFINED_OBJECT, "Check coldfront.warehouse, or create the warehouse."),
        ProblemKind::Failing(_) => {
            (sqlstate::IO_ERROR, "The catalog's own log tells more; the statement may be retried.")
        }
    };
    Failure { detail, hint: Some(hint.into()), ..failure(state, &problem.message) }
}

/// The catalog is well and said no.
fn of_refusal(error: &Error, detail: String) -> Failure {
    let state = match error.message.as_str() {
        text if text.contains("AlreadyExists") && text.contains("/namespaces' ") => rules::state::DUPLICATE_SCHEMA,
        text if text.contains("AlreadyExists") => sqlstate::DUPLICATE_TABLE,
        text if text.contains("Conflict_409") => sqlstate::SERIALIZATION_FAILURE,
        text if text.contains("NoSuchNamespace") => rules::state::UNDEFINED_SCHEMA,
        text if text.contains("NotFound_404") => sqlstate::UNDEFINED_TABLE,
        text if text.contains("Unauthorized_401") => sqlstate::INVALID_AUTHORIZATION,
        text if text.contains("Forbidden_403") => sqlstate::INSUFFICIENT_PRIVILEGE,
        text if text.contains("BadRequest_400") => sqlstate::INVALID_PARAMETER,
        _ => sqlstate::IO_ERROR,
    };
    let said = said_by_catalog(&error.message).unwrap_or_else(|| detail.clone());
    Failure { detail: Some(detail), ..failure(state, format!("the Iceberg catalog refused the request: {said}")) }
}

/// The catalog's own words in an error of DuckDB, which quotes the answer's body in one of several ways.
fn said_by_catalog(text: &str) -> Option<String> {
    if let Some(at) = text.find("{\"error\"") {
        let mut answers = serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde_json::Value>();
        if let Some(Ok(answer)) = answers.next() {
            return answer["error"]["message"].as_str().map(str::to_owned);
        }
    }
    let (_, rest) = text.split_once("message")?;
    let line = rest.trim_start_matches([':', ' ', '"']).lines().next()?;
    Some(line.trim_end_matches('"').to_owned())
}

/// True if the text is about a request to the object store.
fn is_of_store(error: &Error) -> bool {
    const SIGNS: &[&str] = &["HTTP ", "http://", "https://", "s3://", "abfss://", "az://", "azure://", "gs://"];
    matches!(error.kind, Kind::Io | Kind::Http | Kind::Permission | Kind::Other | Kind::Connection)
        && SIGNS.iter().any(|sign| error.message.contains(sign))
}

fn of_store(error: &Error, at: &Surroundings<'_>) -> Failure {
    let store = store_name(at.lake);
    let text = &error.message;
    let state = rules::find(STORE, error.kind, text).unwrap_or(sqlstate::IO_ERROR);
    let (message, hint) = match state {
        sqlstate::UNABLE_TO_CONNECT => (
            format!("{store} does not answer"),
            "Check the endpoint given to coldfront.set_storage_secret and that the store runs; the next statement tries again.",
        ),
        sqlstate::INVALID_AUTHORIZATION => (
            format!("{store} rejected the credentials"),
            "Check the credentials given to coldfront.set_storage_secret.",
        ),
        sqlstate::INSUFFICIENT_PRIVILEGE => (
            format!("{store} does not allow this with the configured credentials"),
            "Give the storage credentials the right to read and write the warehouse.",
        ),
        sqlstate::UNDEFINED_OBJECT => {
            (format!("{store} has no such bucket"), "Create the bucket, or check coldfront.warehouse.")
        }
        _ if text.contains("404") => {
            (format!("{store} lacks an object that the table refers to"), "Something outside of ColdFront removed it.")
        }
        _ => (format!("{store} failed"), "The statement may be retried."),
    };
    let detail =
        text.split("\n\nLINE ").next().unwrap_or(text).split("\n\nAuthentication Failure").next().unwrap_or(text);
    let detail = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    Failure { detail: Some(detail), hint: Some(hint.into()), ..failure(state, message) }
}

fn store_name(lake: &Lake) -> String {
    match &lake.storage {
        Some(Storage::S3 { endpoint: Some(endpoint), .. }) => {
            let bare = endpoint.split_once("://").map_or(endpoint.as_str(), |(_, rest)| rest);
            format!("the object store at {bare}")
        }
        Some(Storage::S3 { region, .. }) => format!("the object store (S3, region {region})"),
        Some(Storage::Azure { .. }) => "the object store (Azure)".to_owned(),
        Some(Storage::Vended { .. }) | None => "the object store".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Failure {
        let lake = Lake {
            storage: Some(Storage::S3 {
                key: "k".into(),
                secret: "s".into(),
                endpoint: Some("http://127.0.0.1:9000".into()),
                region: "r".into(),
                url_style: "path".into(),
                use_ssl: false,
            }),
            ..Lake::default()
        };
        let limits = Limits {
            extension_dir: "/x".into(),
            spill_dir: "/state/spill".into(),
            memory_limit_mb: 300,
            threads: 1,
            spill_limit_mb: 100,
        };
        let at = Surroundings { lake: &lake, registration: None, limits: &limits, since: Instant::now() };
        from_duckdb(&Error::from_text(text), &at)
    }

    #[test]
    fn texts_seen_from_duckdb_get_their_sqlstate() {
        for (text, state) in [
            ("Out of Range Error: Overflow in addition of INT32 (2147483647 + 1)!", "22003"),
            (
                "Conversion Error: Type INT32 with value 300 can't be cast because the value is out of range for the destination type INT8\n\nLINE 1: SELECT",
                "22003",
            ),
            ("Conversion Error: Could not convert string 'abc' to INT32\n\nLINE 1: …", "22P02"),
            ("Conversion Error: invalid date field format: \"x\", expected format is (YYYY-MM-DD)", "22007"),
            ("Conversion Error: date field value out of range: \"2024-13-01\"", "22008"),
            ("Conversion Error: Could not cast value 99999 to DECIMAL(4,0)", "22003"),
            ("Conversion Error: Cannot write infinity/-infinity for timestamp type", "22008"),
            ("Out of Range Error: cannot take square root of a negative number", "2201F"),
            ("Invalid Input Error: More than one row returned by a subquery used as an expression - …", "21000"),
            ("Invalid Input Error: 22012: division by zero", "22012"),
            ("Parser Error: syntax error at or near \"SELEC\"", "42601"),
            ("Binder Error: Referenced column \"nope\" was not found because the FROM clause is missing", "42703"),
            ("Catalog Error: Table with name x1 does not exist!\nDid you mean \"s1\"?", "42P01"),
            ("Catalog Error: Table with name \"er\" already exists", "42P07"),
            ("Catalog Error: Scalar Function with name foo does not exist!", "42883"),
            ("Catalog Error: Schema with name \"nope\" not found", "3F000"),
            ("TransactionContext Error: Current transaction is aborted (please ROLLBACK)", "25P02"),
            ("INTERRUPT Error: Interrupted!", "57014"),
            ("Out of Memory Error: failed to allocate data of size 16.0 MiB (292.3 MiB/300.0 MiB used)", "53200"),
            (
                "Out of Memory Error: failed to offload data block of size 256.0 KiB (99.8 MiB/100.0 MiB used).\nThis limit was set by the 'max_temp_directory_size' setting.",
                "53100",
            ),
            ("IO Error: Could not write file \"/state/spill/duckdb-1/x\": No space left on device", "53100"),
            (
                "IO Error: Could not connect to server error for HTTP GET to 'http://127.0.0.1:9000/lake/x.avro'",
                "08001",
            ),
            (
                "HTTP Error: Unable to connect to URL s3://lake/x.parquet: Forbidden (HTTP code 403)\n\nAccessDenied: Access Denied.",
                "42501",
            ),
            (
                "HTTP Error: HTTP GET error reading 'http://x' in region 'us-east-1' (HTTP 403 Forbidden)\n\nSignatureDoesNotMatch: The",
                "28000",
            ),
            ("FATAL Error: Failed: database has been invalidated because of a previous fatal error.", "58000"),
            ("INTERNAL Error: Attempted to access index 3", "XX000"),
        ] {
            assert_eq!(map(text).sqlstate, state, "{text}");
        }
    }

    #[test]
    fn the_words_of_the_catalog_are_found() {
        let body =
            "Request to 'x' returned 409, body: {\"error\":{\"message\":\"namespace t already exists\",\"code\":409}}";
        assert_eq!(said_by_catalog(body).unwrap(), "namespace t already exists");
        let quoted = "GetTableInformation endpoint returned response code X with message \"no such thing\"";
        assert_eq!(said_by_catalog(quoted).unwrap(), "no such thing");
        assert_eq!(said_by_catalog("(Conflict_409).\n message: it changed\n type: T").unwrap(), "it changed");
        assert_eq!(said_by_catalog("nothing"), None);
    }

    #[test]
    fn the_part_at_fault_is_named_and_the_statement_is_not_quoted() {
        let store =
            map("IO Error: Could not connect to server error for HTTP GET to 'http://127.0.0.1:9000/lake/x.avro'");
        assert_eq!(store.message, "the object store at 127.0.0.1:9000 does not answer");
        assert!(map("Out of Memory Error: failed to allocate data").message.contains("memory limit of 300 MiB"));
        let conversion =
            map("Conversion Error: Could not convert string 'abc' to INT32\n\nLINE 1: SELECT secret\n   ^");
        assert_eq!((conversion.message.as_str(), conversion.detail), ("Could not convert string 'abc' to INT32", None));
    }
}
