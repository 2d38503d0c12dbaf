#!/usr/bin/env bash
# Configures and builds one preset of CMakePresets.json. Configures each time: the preset's settings win over a setting
# that somebody has left in the cache.
#   tools/build.sh [PRESET [TARGET...]]
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-release}
shift || true
log=build/$preset.configure.log
mkdir -p build
if ! cmake --preset "$preset" >"$log" 2>&1; then
  tail -n 40 "$log" >&2
  exit 1
fi
arguments=()
if [ $# -gt 0 ]; then
  arguments=(--target "$@")
fi
exec cmake --build --preset "$preset" "${arguments[@]}"
