#!/usr/bin/env bash
# Builds the extension and the programs. PROFILE=release for benchmarks.
set -euo pipefail
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"
need_deps
cd "$ROOT"
exec cargo build --locked --workspace "${CARGO_PROFILE[@]}"
