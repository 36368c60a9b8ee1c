//! Every setting of the extension: a private static, its documentation, and an accessor.
//!
//! Settings that redirect I/O are superuser-only. Credentials never live in a setting.

use std::ffi::{CStr, CString};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

static WAREHOUSE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static LAKEKEEPER_ENDPOINT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ENGINE_SOCKET: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"coldfront/engine.sock"));
static ENGINE_AUTOSTART: GucSetting<bool> = GucSetting::<bool>::new(true);
static ENGINE_PATH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ENGINE_EXTENSION_DIR: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ENGINE_METRICS_LISTEN: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ENGINE_MEMORY_LIMIT_MB: GucSetting<i32> = GucSetting::<i32>::new(0);
static ENGINE_THREADS: GucSetting<i32> = GucSetting::<i32>::new(0);
static ENGINE_SPILL_LIMIT_MB: GucSetting<i32> = GucSetting::<i32>::new(0);
static ENGINE_WAIT_MS: GucSetting<i32> = GucSetting::<i32>::new(5_000);
static SUPERVISE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"engine"));
static CONFIG_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static LOCAL_PG_DSN: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
static ALLOW_MIXED_WRITES: GucSetting<bool> = GucSetting::<bool>::new(true);
static UNSAFE_ALLOW_MIXED_TRANSACTIONS: GucSetting<bool> = GucSetting::<bool>::new(false);

/// Name of the warehouse in the Iceberg catalog.
pub fn warehouse() -> String {
    text(&WAREHOUSE)
}

/// Base URI of the Iceberg REST catalog, without `/v1`.
pub fn lakekeeper_endpoint() -> String {
    text(&LAKEKEEPER_ENDPOINT)
}

/// Path of the engine's Unix socket; a relative path starts at the data directory.
pub fn engine_socket() -> String {
    text(&ENGINE_SOCKET)
}

/// Whether the supervisor starts the engine.
pub fn engine_autostart() -> bool {
    ENGINE_AUTOSTART.get()
}

/// Programs that the supervisor runs, separated by commas.
pub fn supervise() -> String {
    text(&SUPERVISE)
}

/// Configuration file of archiver and compactor; empty = none.
pub fn config_file() -> String {
    text(&CONFIG_FILE)
}

/// Connection URL that archiver and compactor use; may hold a password. Empty = theirs.
pub fn local_pg_dsn() -> String {
    text(&LOCAL_PG_DSN)
}

/// Path of the engine's executable; empty = beside the server's own.
pub fn engine_path() -> String {
    text(&ENGINE_PATH)
}

/// Directory with DuckDB's extensions; empty = `coldfront/duckdb` in the share directory.
pub fn engine_extension_dir() -> String {
    text(&ENGINE_EXTENSION_DIR)
}

/// Loopback address for the engine's `/metrics` and `/healthz`; empty = none.
pub fn engine_metrics_listen() -> String {
    text(&ENGINE_METRICS_LISTEN)
}

/// Whether one UPDATE or DELETE may change rows of both tiers.
pub fn allow_mixed_writes() -> bool {
    ALLOW_MIXED_WRITES.get()
}

/// Engine memory limit in MiB; `None` = the engine's default.
pub fn engine_memory_limit_mb() -> Option<i32> {
    positive(ENGINE_MEMORY_LIMIT_MB.get())
}

/// Engine threads; `None` = one for each core.
pub fn engine_threads() -> Option<i32> {
    positive(ENGINE_THREADS.get())
}

/// Cap of the engine's spill directory in MiB; `None` = the engine's default.
pub fn engine_spill_limit_mb() -> Option<i32> {
    positive(ENGINE_SPILL_LIMIT_MB.get())
}

/// How long a statement waits for an engine that is restarting, in milliseconds.
pub fn engine_wait_ms() -> i32 {
    ENGINE_WAIT_MS.get()
}

fn text(setting: &'static GucSetting<Option<CString>>) -> String {
    setting.get().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

fn positive(value: i32) -> Option<i32> {
    (value > 0).then_some(value)
}

/// Defines every setting. Runs once, at load.
pub fn init() {
    let string = |name: &'static CStr, short: &'static CStr, setting: &'static GucSetting<Option<CString>>, context| {
        GucRegistry::define_string_guc(name, short, c"", setting, context, GucFlags::SUPERUSER_ONLY);
    };
    string(c"coldfront.warehouse", c"Warehouse in the Iceberg catalog.", &WAREHOUSE, GucContext::Suset);
    string(
        c"coldfront.lakekeeper_endpoint",
        c"Base URI of the Iceberg REST catalog, without /v1.",
        &LAKEKEEPER_ENDPOINT,
        GucContext::Suset,
    );
    string(
        c"coldfront.engine_socket",
        c"Unix socket of the engine; a relative path starts at the data directory.",
        &ENGINE_SOCKET,
        GucContext::Postmaster,
    );
    string(
        c"coldfront.engine_path",
        c"Executable of the engine; empty means beside the server's own.",
        &ENGINE_PATH,
        GucContext::Postmaster,
    );
    string(
        c"coldfront.engine_extension_dir",
        c"Directory with the engine's DuckDB extensions.",
        &ENGINE_EXTENSION_DIR,
        GucContext::Postmaster,
    );
    string(
        c"coldfront.engine_metrics_listen",
        c"Loopback address for the engine's /metrics and /healthz.",
        &ENGINE_METRICS_LISTEN,
        GucContext::Sighup,
    );
    GucRegistry::define_bool_guc(
        c"coldfront.engine_autostart",
        c"Start the engine with the server and restart it when it ends.",
        c"",
        &ENGINE_AUTOSTART,
        GucContext::Sighup,
        GucFlags::default(),
    );
    let number = |name: &'static CStr, short: &'static CStr, setting: &'static GucSetting<i32>, context, flags| {
        GucRegistry::define_int_guc(
            name,
            short,
            c"0 means the engine's default.",
            setting,
            0,
            i32::MAX,
            context,
            flags,
        );
    };
    number(
        c"coldfront.engine_memory_limit_mb",
        c"Memory limit of the engine.",
        &ENGINE_MEMORY_LIMIT_MB,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    number(
        c"coldfront.engine_threads",
        c"Threads of the engine.",
        &ENGINE_THREADS,
        GucContext::Sighup,
        GucFlags::default(),
    );
    number(
        c"coldfront.engine_spill_limit_mb",
        c"Cap of the engine's spill directory.",
        &ENGINE_SPILL_LIMIT_MB,
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"coldfront.engine_wait_ms",
        c"How long a statement waits for an engine that is restarting.",
        c"",
        &ENGINE_WAIT_MS,
        0,
        600_000,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    string(
        c"coldfront.supervise",
        c"Programs to run with the server: engine, archiver, compactor, separated by commas.",
        &SUPERVISE,
        GucContext::Sighup,
    );
    string(
        c"coldfront.config_file",
        c"Configuration file of the supervised archiver and compactor.",
        &CONFIG_FILE,
        GucContext::Sighup,
    );
    string(
        c"coldfront.local_pg_dsn",
        c"Connection URL of the supervised archiver and compactor.",
        &LOCAL_PG_DSN,
        GucContext::Sighup,
    );
    GucRegistry::define_bool_guc(
        c"coldfront.allow_mixed_writes",
        c"Let one UPDATE or DELETE change hot and cold rows of a tiered table.",
        c"Off: a statement that is not known to concern one tier only is refused.",
        &ALLOW_MIXED_WRITES,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"duckdb.unsafe_allow_mixed_transactions",
        c"Accepted for compatibility; heap and cold writes may always mix.",
        c"",
        &UNSAFE_ALLOW_MIXED_TRANSACTIONS,
        GucContext::Userset,
        GucFlags::default(),
    );
    // SAFETY: the prefix is a C string literal, and every coldfront setting is defined above.
    unsafe { pgrx::pg_sys::MarkGUCPrefixReserved(c"coldfront".as_ptr()) };
}
