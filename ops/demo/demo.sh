#!/usr/bin/env bash
# The main job on real data, step by step, against the stack of `make up`.
set -euo pipefail
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/../dev/env.sh"
need_deps
source "$LOCAL/env"
exec "$LOCAL/venv/bin/python" "$ROOT/ops/demo/demo.py" "$LOCAL/flights"
