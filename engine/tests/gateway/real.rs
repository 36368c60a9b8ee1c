//! The gateway in front of a real catalog: SeaweedFS, started here, from where `make deps` puts it or `COLDFRONT_WEED` names.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use coldfront_common::frame::{CatalogAuth, Lake};
use coldfront_engine::gateway::observe::CommitOutcome;
use coldfront_engine::gateway::{Gateway, Registration, client};
use serde_json::json;

use crate::http::Client;

const KEY: &str = "GATEWAYTESTKEY";
const SECRET: &str = "gateway-test-secret";
const WAREHOUSE: &str = "lake";

/// A `weed server` with one table bucket; killed and removed when dropped.
struct SeaweedFs {
    process: Child,
    directory: PathBuf,
    catalog_port: u16,
}

impl SeaweedFs {
    fn start() -> Self {
        let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.local/bin/weed");
        let weed = env::var_os("COLDFRONT_WEED").map_or(fetched, PathBuf::from);
        assert!(weed.exists(), "{} is missing: run `make deps`, or set COLDFRONT_WEED", weed.display());
        let directory = env::temp_dir().join(format!("coldfront-gateway-test-{}", process::id()));
        fs::create_dir_all(&directory).unwrap();
        let identities = json!({"identities": [{"name": "admin", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]});
        fs::write(directory.join("s3.json"), identities.to_string()).unwrap();
        let ports = free_ports::<9>();
        let [master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc, catalog_port] = ports;
        let log = File::create(directory.join("weed.log")).unwrap();
        let process = Command::new(&weed)
            .args(["-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"])
            .args(["-s3", "-s3.iam=false", "-s3.port.lance=0", "-volume.max=10", "-volume.preStopSeconds=0"])
            .args(["-dir=.", "-s3.config=s3.json", "-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"])
            .args([format!("-master.port={master}"), format!("-master.port.grpc={master_grpc}")])
            .args([format!("-volume.port={volume}"), format!("-volume.port.grpc={volume_grpc}")])
            .args([format!("-filer.port={filer}"), format!("-filer.port.grpc={filer_grpc}")])
            .args([format!("-s3.port={s3}"), format!("-s3.port.grpc={s3_grpc}")])
            .arg(format!("-s3.port.iceberg={catalog_port}"))
            .current_dir(&directory)
            .env("HOME", &directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("weed starts");
        let started = Self { process, directory, catalog_port };
        started.create_bucket(&weed, &format!("127.0.0.1:{master}.{master_grpc}"));
        started
    }

    fn create_bucket(&self, weed: &Path, master: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let catalog_is_up = TcpStream::connect((Ipv4Addr::LOCALHOST, self.catalog_port)).is_ok();
            if catalog_is_up && self.shell(weed, master).contains(WAREHOUSE) {
                return;
            }
            let log = || fs::read_to_string(self.directory.join("weed.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "SeaweedFS did not come up:\n{}", log());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Creates the bucket and tells which there are.
    fn shell(&self, weed: &Path, master: &str) -> String {
        let mut shell = Command::new(weed)
            .args(["shell", &format!("-master={master}")])
            .current_dir(&self.directory)
            .env("HOME", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let script = format!(
            "s3tables.bucket -create -name {WAREHOUSE} -account admin\ns3tables.bucket -list -account admin\nexit\n"
        );
        shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        let said = shell.wait_with_output().unwrap().stdout;
        // The echo of the commands names the bucket, too: only lines of the listing count.
        String::from_utf8_lossy(&said).lines().filter(|l| !l.contains("-name")).collect()
    }

    fn lake(&self, secret: &str, warehouse: &str) -> Lake {
        Lake {
            warehouse: warehouse.to_owned(),
            catalog_uri: format!("http://127.0.0.1:{}", self.catalog_port),
            catalog_auth: CatalogAuth::OAuth2 {
                client_id: KEY.to_owned(),
                client_secret: secret.to_owned(),
                token_url: None,
                scope: None,
            },
            storage: None,
        }
    }
}

impl Drop for SeaweedFs {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Ports that are free while all of them are held together.
fn free_ports<const N: usize>() -> [u16; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}

fn create_table(lake: &Registration) {
    let client = Client::of(lake);
    let answer = client.post("/v1/lake/namespaces", &json!({"namespace": ["n"], "properties": {}}).to_string());
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let table = json!({"name": "t", "schema": {"type": "struct", "schema-id": 0, "fields":
        [{"id": 1, "name": "a", "required": false, "type": "long"}]}});
    let answer = client.post("/v1/lake/namespaces/n/tables", &table.to_string());
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

fn commit(uuid: &str, value: &str) -> String {
    json!({"identifier": {"namespace": ["n"], "name": "t"},
        "requirements": [{"type": "assert-table-uuid", "uuid": uuid}],
        "updates": [{"action": "set-properties", "updates": {"colour": value}}]})
    .to_string()
}

#[test]
fn a_table_lives_and_dies_behind_the_gateway() {
    let catalog = SeaweedFs::start();
    let gateway = Gateway::start().unwrap();
    let lake = gateway.register(&catalog.lake(SECRET, WAREHOUSE)).unwrap();
    client::check_warehouse(&lake).unwrap();
    create_table(&lake);
    let watch = lake.watch_commits();
    let table = client::load_table(&lake, &["n"], "t").unwrap();
    assert_eq!((table.current_snapshot_id, table.snapshots.len()), (None, 0));

    let path = "/v1/lake/namespaces/n/tables/t";
    let answer = Client::of(&lake).post(path, &commit(&table.table_uuid, "red"));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(client::load_table(&lake, &["n"], "t").unwrap().properties["colour"], "red");

    let stale = Client::of(&lake).post(path, &commit("00000000-0000-0000-0000-000000000000", "blue"));
    assert!((400..500).contains(&stale.status()), "{}", stale.text());
    let outcomes: Vec<_> = watch.events().into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, [CommitOutcome::Committed, CommitOutcome::Refused { status: stale.status() }]);

    client::drop_table(&lake, &["n"], "t", true).unwrap();
    let error = client::load_table(&lake, &["n"], "t").unwrap_err();
    assert!(matches!(error, client::ClientError::NotFound { .. }), "{error}");

    let at = format!("the Iceberg catalog at 127.0.0.1:{}", catalog.catalog_port);
    let stranger = gateway.register(&catalog.lake("wrong-secret", WAREHOUSE)).unwrap();
    let error = client::check_warehouse(&stranger).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{at} rejected the credentials")), "{error}");
    let nowhere = gateway.register(&catalog.lake(SECRET, "nosuch")).unwrap();
    let error = client::check_warehouse(&nowhere).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{at} has no warehouse \"nosuch\"")), "{error}");
}
