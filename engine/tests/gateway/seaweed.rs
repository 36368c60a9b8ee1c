//! SeaweedFS as a real catalog and object store, started here, from where `make deps` puts it or `COLDFRONT_WEED` names.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use coldfront_common::frame::{CatalogAuth, Lake};
use serde_json::json;

pub const KEY: &str = "GATEWAYTESTKEY";
pub const SECRET: &str = "gateway-test-secret";
/// May read and list, not write; same secret.
pub const READER_KEY: &str = "GATEWAYTESTREADER";
pub const WAREHOUSE: &str = "lake";

/// A `weed server` with one table bucket; killed and removed when dropped.
pub struct SeaweedFs {
    process: Child,
    directory: tempfile::TempDir,
    pub catalog_port: u16,
    pub s3_port: u16,
}

impl SeaweedFs {
    pub fn start() -> Self {
        let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.local/bin/weed");
        let weed = env::var_os("COLDFRONT_WEED").map_or(fetched, PathBuf::from);
        assert!(weed.exists(), "{} is missing: run `make deps`, or set COLDFRONT_WEED", weed.display());
        let directory = tempfile::tempdir().unwrap();
        let identities = json!({"identities": [{"name": "admin", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
            {"name": "reader", "credentials": [{"accessKey": READER_KEY, "secretKey": SECRET}], "actions": ["Read", "List"]}]});
        fs::write(directory.path().join("s3.json"), identities.to_string()).unwrap();
        let ports = free_ports::<9>();
        let [master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc, catalog_port] = ports;
        let log = File::create(directory.path().join("weed.log")).unwrap();
        let process = Command::new(&weed)
            .args(["-logtostderr=true", "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"])
            .args(["-s3", "-s3.iam=false", "-s3.port.lance=0", "-volume.max=10", "-volume.preStopSeconds=0"])
            .args(["-dir=.", "-s3.config=s3.json", "-filer.localSocket=filer.sock", "-s3.localSocket=s3.sock"])
            .args([format!("-master.port={master}"), format!("-master.port.grpc={master_grpc}")])
            .args([format!("-volume.port={volume}"), format!("-volume.port.grpc={volume_grpc}")])
            .args([format!("-filer.port={filer}"), format!("-filer.port.grpc={filer_grpc}")])
            .args([format!("-s3.port={s3}"), format!("-s3.port.grpc={s3_grpc}")])
            .arg(format!("-s3.port.iceberg={catalog_port}"))
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("weed starts");
        let started = Self { process, directory, catalog_port, s3_port: s3 };
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
            let log = || fs::read_to_string(self.directory.path().join("weed.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "SeaweedFS did not come up:\n{}", log());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Creates the bucket and tells which there are.
    fn shell(&self, weed: &Path, master: &str) -> String {
        let mut shell = Command::new(weed)
            .args(["shell", &format!("-master={master}")])
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
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

    pub fn lake(&self, secret: &str, warehouse: &str) -> Lake {
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
    }
}

/// Ports that are free while all of them are held together.
fn free_ports<const N: usize>() -> [u16; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    held.map(|listener| listener.local_addr().unwrap().port())
}
