#!/usr/bin/env bash
# Five nodes in a storm of kills, pauses and network faults; see soak.py.
#   tests/network/soak.sh [--minutes 30] [--seed N] [--json FILE] [--build DIR]
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
  --build)
    build=${2:?--build takes a folder}
    shift
    ;;
  *) arguments+=("$1") ;;
  esac
  shift
done
if [ "$build" = build/release ]; then
  tools/setup.sh
  tools/build.sh release zlink-node zlinkctl courier
fi
exec /usr/bin/python3 -B tests/network/soak.py --build "$build" "${arguments[@]}"
