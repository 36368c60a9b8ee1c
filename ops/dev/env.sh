# Paths and settings shared by the scripts here; sourced, never run.
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
CACHE=${COLDFRONT_CACHE:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache/coldfront}
DOWNLOADS=$CACHE/downloads
# .local may be a link to a place that PostgreSQL's user can reach: programs get to see the real path.
LOCAL=$(readlink -f "$ROOT/.local" || echo "$ROOT/.local")
PG_HOME=$LOCAL/pg18
DUCKDB_VERSION=1.5.5
DUCKDB_PLATFORM=linux_amd64
PROFILE=${PROFILE:-debug}
case $PROFILE in
debug) CARGO_PROFILE=() ;;
release) CARGO_PROFILE=(--release) ;;
*)
    echo "PROFILE is debug or release, not '$PROFILE'" >&2
    exit 2
    ;;
esac

# The build finds PostgreSQL and DuckDB by these; what it makes survives clones.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
export PGRX_PG_CONFIG_PATH=$PG_HOME/bin/pg_config
export DUCKDB_LIB_DIR=$LOCAL/duckdb/lib

need_deps() {
    [ -x "$LOCAL/venv/bin/python" ] && [ -x "$PG_HOME/bin/postgres" ] || {
        echo "run \`make deps\` first" >&2
        exit 1
    }
}
