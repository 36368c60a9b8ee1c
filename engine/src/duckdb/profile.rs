//! What a finished statement tells about itself: how many files its scans read.

use std::ffi::CStr;

use libduckdb_sys as ffi;

use super::connection::RawConnection;

/// SQL that makes a connection collect what [`files_read`] needs, and nothing else.
pub const ENABLE_SQL: &str = "PRAGMA enable_profiling = 'no_output'; \
     PRAGMA custom_profiling_settings = '{\"EXTRA_INFO\": \"true\"}'";

/// How DuckDB names the number in a scan's description.
const LABEL: &str = "Total Files Read";

/// Files read by all scans of the last statement on `connection`, if its scans read files.
pub(super) fn files_read(connection: &RawConnection) -> Option<u64> {
    // SAFETY: the connection is open; the tree belongs to it and is valid until its next statement.
    let root = unsafe { ffi::duckdb_get_profiling_info(connection.handle) };
    (!root.is_null()).then(|| sum(root)).flatten()
}

/// Adds up a node of the tree and everything below it.
fn sum(node: ffi::duckdb_profiling_info) -> Option<u64> {
    let mut total = of_node(node);
    // SAFETY: a valid node; children are asked for below their count.
    let children = unsafe { ffi::duckdb_profiling_info_get_child_count(node) };
    for index in 0..children {
        // SAFETY: as above.
        let child = unsafe { ffi::duckdb_profiling_info_get_child(node, index) };
        if let Some(files) = sum(child) {
            total = Some(total.unwrap_or(0) + files);
        }
    }
    total
}

fn of_node(node: ffi::duckdb_profiling_info) -> Option<u64> {
    // SAFETY: a valid node and a NUL-terminated key; we own the value.
    let mut value = unsafe { ffi::duckdb_profiling_info_get_value(node, c"EXTRA_INFO".as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a live value; the text is ours to free.
    let text = unsafe { ffi::duckdb_get_varchar(value) };
    // SAFETY: destroyed once.
    unsafe { ffi::duckdb_destroy_value(&mut value) };
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, NUL-terminated.
    let files = parse(&unsafe { CStr::from_ptr(text) }.to_string_lossy());
    // SAFETY: allocated by DuckDB, freed once.
    unsafe { ffi::duckdb_free(text.cast()) };
    files
}

/// Reads the number out of a description such as `{…, Total Files Read=3, …}`.
fn parse(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(LABEL)?;
    let digits: String = rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duckdb::Database;

    #[test]
    fn descriptions_are_understood() {
        assert_eq!(parse("{'Function': 'ICEBERG_SCAN', 'Total Files Read': 12, 'x': 3}"), Some(12));
        assert_eq!(parse("Total Files Read: 3"), Some(3));
        assert_eq!(parse("Function: RANGE"), None);
    }

    #[test]
    fn the_files_of_a_stream_are_counted_at_its_end() {
        let root = tempfile::tempdir().unwrap();
        let database = Database::open(&[]).unwrap();
        let mut connection = database.connect().unwrap();
        for n in 0..3 {
            let path = root.path().join(format!("{n}.parquet"));
            connection.execute(&format!("COPY (SELECT range AS i FROM range(5000)) TO '{}'", path.display())).unwrap();
        }
        connection.execute(ENABLE_SQL).unwrap();
        let mut stream =
            connection.stream(&format!("FROM read_parquet('{}/*.parquet')", root.path().display())).unwrap();
        let mut rows = 0;
        while let Some(batch) = stream.next_chunk().unwrap() {
            rows += batch.num_rows();
        }
        assert_eq!((rows, stream.files_read()), (15_000, Some(3)));
        let mut stream = connection.stream("SELECT 1").unwrap();
        while stream.next_chunk().unwrap().is_some() {}
        assert_eq!(stream.files_read(), None);
    }
}
