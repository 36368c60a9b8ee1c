//! One SeaweedFS for all tests of this binary, and what is in it.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};

use coldfront_common::frame::{CatalogAuth, Lake, PROTOCOL_VERSION, Scope, Storage};
use coldfront_engine::staging::uploads;
use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore};

use crate::seaweed::{KEY, SECRET, SeaweedFs, WAREHOUSE};
use crate::support::{Client, Engine};

static WEED: LazyLock<Mutex<Option<SeaweedFs>>> = LazyLock::new(|| Mutex::new(None));

/// Whether the namespace `t` is there.
static SCHEMA: Mutex<bool> = Mutex::new(false);

/// Addresses of the store, which is started on first use and ends with the test process.
pub fn ports() -> (u16, u16) {
    let mut weed = WEED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let weed = weed.get_or_insert_with(SeaweedFs::start);
    (weed.catalog_port, weed.s3_port)
}

pub fn storage(key: &str, secret: &str, endpoint: String) -> Option<Storage> {
    Some(Storage::S3 {
        key: key.into(),
        secret: secret.into(),
        endpoint: Some(endpoint),
        region: "us-east-1".into(),
        url_style: "path".into(),
        use_ssl: false,
    })
}

pub fn login(secret: &str) -> CatalogAuth {
    CatalogAuth::OAuth2 { client_id: KEY.into(), client_secret: secret.into(), token_url: None, scope: None }
}

/// The lake as it should be reached.
pub fn lake() -> Lake {
    let (catalog, s3) = ports();
    Lake {
        warehouse: WAREHOUSE.into(),
        catalog_uri: format!("http://127.0.0.1:{catalog}"),
        catalog_auth: login(SECRET),
        storage: storage(KEY, SECRET, format!("http://127.0.0.1:{s3}")),
    }
}

/// A client of a lake.
pub fn client_at(engine: &Engine, lake: Lake) -> Client {
    let mut client = Client::connect(&engine.socket());
    client.hello_to("lake", PROTOCOL_VERSION, lake).unwrap();
    client
}

/// A client with an empty table `"ice"."t"."<name>"` of columns `n` and `s`.
pub fn client_with(engine: &Engine, name: &str, options: &str) -> Client {
    let mut client = client_at(engine, lake());
    // One after the other: SeaweedFS answers 500 to two who create a namespace at the same moment.
    let mut created = SCHEMA.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !std::mem::replace(&mut *created, true) {
        client.exec(Scope::Write, "CREATE SCHEMA IF NOT EXISTS \"ice\".\"t\"").unwrap();
        client.commit().unwrap();
    }
    drop(created);
    client.exec(Scope::Write, &format!("DROP TABLE IF EXISTS \"ice\".\"t\".\"{name}\"")).unwrap();
    client.commit().unwrap();
    client
        .exec(Scope::Write, &format!("CREATE TABLE \"ice\".\"t\".\"{name}\" (n BIGINT, s VARCHAR) {options}"))
        .unwrap();
    client.commit().unwrap();
    client
}

/// Objects of a table but for the catalog's own, and keys of its unfinished uploads.
pub fn objects(name: &str) -> BTreeSet<String> {
    let (_, s3) = ports();
    let store = AmazonS3Builder::new()
        .with_bucket_name(WAREHOUSE)
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_region("us-east-1")
        .with_endpoint(format!("http://127.0.0.1:{s3}"))
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let prefix = Path::from(format!("t/{name}"));
        let listed: Vec<_> = store.list(Some(&prefix)).try_collect().await.unwrap();
        let mut found: BTreeSet<String> = listed.iter().map(|object| object.location.to_string()).collect();
        found.retain(|object| !object.ends_with(".metadata.json"));
        let url = format!("s3://{WAREHOUSE}/t/{name}/");
        found.extend(uploads::unfinished(&lake(), &url).await.unwrap().into_iter().map(|key| format!("upload {key}")));
        found
    })
}
