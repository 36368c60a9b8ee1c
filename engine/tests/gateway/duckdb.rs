//! DuckDB against a real catalog and object store, through the gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Int64Array;
use coldfront_engine::duckdb::{Connection, Database};
use coldfront_engine::gateway::{Gateway, Registration, client};

use crate::seaweed::{KEY, SECRET, SeaweedFs, WAREHOUSE};

/// A DuckDB instance of its own, as another node of the cluster would have.
fn open(catalog: &SeaweedFs, lake: &Registration) -> Arc<Database> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.local/duckdb/extensions");
    let extensions = std::env::var_os("COLDFRONT_DUCKDB_EXTENSIONS").map_or(installed, PathBuf::from);
    let database = Database::open(&[
        ("extension_directory", extensions.display().to_string()),
        ("autoinstall_known_extensions", "false".to_owned()),
        ("threads", "2".to_owned()),
    ])
    .unwrap();
    let (endpoint, token, port) = (&lake.endpoint, &lake.token, catalog.s3_port);
    let mut connection = database.connect().unwrap();
    for sql in [
        "LOAD avro; LOAD httpfs; LOAD iceberg; LOAD icu; LOAD json; SET GLOBAL TimeZone = 'UTC'".to_owned(),
        format!(
            "CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', ENDPOINT '127.0.0.1:{port}',
                REGION 'us-east-1', URL_STYLE 'path', USE_SSL false)"
        ),
        format!(
            "ATTACH '{WAREHOUSE}' AS ice (TYPE iceberg, ENDPOINT '{endpoint}', TOKEN '{token}',
                ACCESS_DELEGATION_MODE 'none')"
        ),
    ] {
        connection.execute(&sql).unwrap();
    }
    database
}

fn run(connection: &mut Connection, sql: &str) -> u64 {
    connection.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The first column of a query.
fn numbers(connection: &mut Connection, sql: &str) -> Vec<i64> {
    let mut rows = connection.stream(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut numbers = Vec::new();
    while let Some(batch) = rows.next_chunk().unwrap() {
        numbers.extend(batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values());
    }
    numbers
}

#[test]
fn a_transaction_sees_and_writes_the_head_of_each_table_it_comes_to() {
    let catalog = SeaweedFs::start();
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(SECRET, WAREHOUSE)).unwrap();
    let (here, there) = (open(&catalog, &lake), open(&catalog, &lake));
    let (mut ours, mut neighbour, mut other) =
        (here.connect().unwrap(), here.connect().unwrap(), there.connect().unwrap());
    run(&mut ours, "CREATE SCHEMA ice.n");
    for table in ["a", "b"] {
        run(&mut ours, &format!("CREATE TABLE ice.n.{table} (i BIGINT)"));
        run(&mut ours, &format!("INSERT INTO ice.n.{table} VALUES (1), (2)"));
    }

    run(&mut ours, "BEGIN");
    run(&mut ours, "INSERT INTO ice.n.a VALUES (3)");
    run(&mut neighbour, "INSERT INTO ice.n.b VALUES (10)");
    run(&mut other, "INSERT INTO ice.n.b VALUES (11)");
    assert_eq!(numbers(&mut ours, "SELECT i FROM ice.n.b ORDER BY i"), [1, 2, 10, 11]);
    assert_eq!(run(&mut ours, "UPDATE ice.n.b SET i = i + 100 WHERE i >= 10"), 2);
    assert_eq!(run(&mut ours, "DELETE FROM ice.n.b WHERE i = 1"), 1);
    run(&mut ours, "INSERT INTO ice.n.b VALUES (12)");
    assert_eq!(numbers(&mut ours, "SELECT i FROM ice.n.b ORDER BY i"), [2, 12, 110, 111]);
    run(&mut ours, "COMMIT");
    for connection in [&mut ours, &mut neighbour, &mut other] {
        assert_eq!(numbers(connection, "SELECT i FROM ice.n.b ORDER BY i"), [2, 12, 110, 111]);
        assert_eq!(numbers(connection, "SELECT i FROM ice.n.a ORDER BY i"), [1, 2, 3]);
    }

    // The catalog got a history as it should be.
    let table = client::load_table(&lake, &["n"], "b").unwrap();
    let mut expected_parent = None;
    for (number, snapshot) in (1..).zip(&table.snapshots) {
        assert_eq!((snapshot.sequence_number, snapshot.parent), (number, expected_parent), "{table:?}");
        expected_parent = Some(snapshot.id);
    }
    assert_eq!((table.current_snapshot_id, table.last_sequence_number), (expected_parent, 6));

    // What was read once stays as it was read.
    run(&mut ours, "BEGIN");
    assert_eq!(numbers(&mut ours, "SELECT count(*) FROM ice.n.a"), [3]);
    run(&mut other, "INSERT INTO ice.n.a VALUES (4)");
    assert_eq!(numbers(&mut ours, "SELECT count(*) FROM ice.n.a"), [3]);
    run(&mut ours, "COMMIT");
    assert_eq!(numbers(&mut ours, "SELECT count(*) FROM ice.n.a"), [4]);

    let first = table.snapshots[0].id;
    assert_eq!(numbers(&mut ours, &format!("SELECT i FROM ice.n.b AT (VERSION => {first}) ORDER BY i")), [1, 2]);
}
