#!/usr/bin/env bash
# Formatting and lints, warnings are errors.
set -euo pipefail
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"
need_deps
cd "$ROOT"
cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
"$LOCAL/venv/bin/python" -m compileall -q tests ops
for script in ops/dev/*.sh ops/demo/*.sh .ci/run; do
    bash -n "$script"
done
