#!/usr/bin/env bash
# Puts what `make build` made into .local/pg18. Each file is replaced by a rename: a running server may have it mapped.
set -euo pipefail
umask 022
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"
need_deps

built=$CARGO_TARGET_DIR/$PROFILE
library_dir=$("$PGRX_PG_CONFIG_PATH" --pkglibdir)
extension_dir=$("$PGRX_PG_CONFIG_PATH" --sharedir)/extension
version=$(sed -n "s/^default_version *= *'\(.*\)'/\1/p" "$ROOT/extension/coldfront.control")

# put MODE FROM TO: nothing is done where it is there already.
put() {
    [ -f "$2" ] || {
        echo "install: $2 is missing; run \`make build\` (PROFILE=$PROFILE)" >&2
        exit 1
    }
    cmp -s "$2" "$3" && return
    install -m "$1" "$2" "$3.new"
    mv -f "$3.new" "$3"
    echo "install: $3"
}

put 755 "$built/libcoldfront.so" "$library_dir/coldfront.so"
put 644 "$ROOT/extension/coldfront.control" "$extension_dir/coldfront.control"

script=$(mktemp)
trap 'rm -f "$script"' EXIT
(cd "$ROOT/extension/sql" && export LC_ALL=C && cat -- *.sql) >"$script"
put 644 "$script" "$extension_dir/coldfront--$version.sql"

for program in coldfront-engine coldfront-archiver coldfront-compactor; do
    put 755 "$built/$program" "$PG_HOME/bin/$program"
done
put 644 "$DUCKDB_LIB_DIR/libduckdb.so" "$PG_HOME/lib/libduckdb.so"

from=$LOCAL/duckdb/extensions/v$DUCKDB_VERSION/$DUCKDB_PLATFORM
to=$PG_HOME/share/coldfront/duckdb/v$DUCKDB_VERSION/$DUCKDB_PLATFORM
mkdir -p "$to"
for file in "$from"/*.duckdb_extension; do
    put 644 "$file" "$to/$(basename "$file")"
done
