#!/usr/bin/env bash
# stack.sh up|down|status|psql|env|reset: the local stack of `make up`; what it is made of is in tests/lib/stack.py.
set -euo pipefail
# shellcheck source=ops/dev/env.sh
source "$(dirname "$0")/env.sh"
need_deps
exec "$LOCAL/venv/bin/python" "$ROOT/tests/lib/stack.py" "$@"
