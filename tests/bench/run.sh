#!/usr/bin/env bash
# Builds the benchmarks and measures: ./dev bench [mesh|exec] [--rounds N] [--json FILE] [--peers a,b] [--rows PATTERN] [--only NAME] [--quick]
#   ZLINK_BENCH_BUILD=DIR uses a build tree that is there (configured with -DZLINK_BENCH=ON)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

build=${ZLINK_BENCH_BUILD:-}
if [ -z "$build" ]; then
  build=$root/build/bench
  mkdir -p "$root/build"
  "$root/tools/build.sh" bench >"$root/build/bench.log" 2>&1 || {
    tail -n 40 "$root/build/bench.log" >&2
    exit 1
  }
fi
exec /usr/bin/python3 -B "$here/runner/bench.py" --build "$build" "$@"
