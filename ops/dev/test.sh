#!/usr/bin/env bash
# Everything that CI runs, in the order in which it fails soonest; says at the end how long each step took.
set -euo pipefail
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"
need_deps
cd "$ROOT"

report=()
step() { # NAME COMMAND…
    local name=$1 started=$SECONDS
    shift
    echo "=== $name"
    "$@" || {
        echo "=== $name failed after $((SECONDS - started)) s" >&2
        exit 1
    }
    report+=("$(printf '%6d s  %s' $((SECONDS - started)) "$name")")
}

unit_tests() { LD_LIBRARY_PATH=$DUCKDB_LIB_DIR cargo test --locked --workspace; }
integration_tests() { COLDFRONT_REQUIRE_EXTENSION=1 "$LOCAL/venv/bin/python" -m pytest tests; }

# The twin run uses the stack of `make up`; afterwards it runs, or not, as before.
twin() {
    local was_up=yes status=0
    ops/dev/stack.sh status >/dev/null || was_up=
    ops/dev/stack.sh up
    ops/dev/twin.sh || status=$?
    [ -n "$was_up" ] || ops/dev/stack.sh down
    return $status
}

step "lint" ops/dev/lint.sh
step "unit tests" unit_tests
step "build" ops/dev/build.sh
step "install" ops/dev/install.sh
step "integration tests" integration_tests
step "torture, short" "$LOCAL/venv/bin/python" tests/torture/torture.py --rounds 6
step "torture of the compactor, short" "$LOCAL/venv/bin/python" tests/torture_compactor/torture.py --rounds 6 --inserts 150
step "twin" twin
echo "=== all passed"
printf '%s\n' "${report[@]}"
