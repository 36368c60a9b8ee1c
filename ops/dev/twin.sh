#!/usr/bin/env bash
# Twin scripts against the stack of `make up`: DIR= holds other scripts, MODE= is one mode.
set -euo pipefail
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"
need_deps
source "$LOCAL/env"
exec "$LOCAL/venv/bin/python" "$ROOT/tests/twin/run.py" --dir "${DIR:-$ROOT/tests/twin}" --mode "${MODE:-all}"
