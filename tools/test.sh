#!/usr/bin/env bash
# Everything that is tested: the whole suite as gcc ships it, under the address and undefined-behaviour sanitizers and under
# the thread sanitizer, base and exec for aarch64 and under valgrind, the models, the fuzz targets for a minute each, one
# short round of the benchmarks (that they run, not how fast), broken networks and a minute of the storm, the container tests
# where there is an engine, and the lints. The last line adds all of it up.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p build
results=build/results.txt
: >"$results"
failed_steps=()
skipped=()

# step NAME COMMAND...: runs it, tells how long it took, goes on after a failure
step() {
  local name=$1 started=$SECONDS
  shift
  echo "== $name"
  if ! "$@"; then
    failed_steps+=("$name")
    echo "== $name: FAILED"
  fi
  echo "== $name: $((SECONDS - started)) s"
}

# A step that is no test program counts as one test.
check() {
  if "$@"; then
    echo "check 1 0" >>"$results"
  else
    echo "check 0 1" >>"$results"
    return 1
  fi
}

build_and_run() {
  if ! tools/build.sh "$1"; then
    echo "build-$1 0 1" >>"$results"
    return 1
  fi
  tools/run_tests.sh "$1" "$2" "$results"
}

# A suite of its own closing line. One that cannot run here says why in a line "skipped: REASON" and ends with 77.
suite() {
  local name=$1 code=0 log=build/$1.log
  shift
  "$@" >"$log" 2>&1 || code=$?
  if [ "$code" -eq 77 ]; then
    skipped+=("$(sed -n 's/^skipped: //p' "$log" | tail -n 1)")
    return 0
  fi
  cat "$log"
  sed -nE "s/^([0-9]+) passed, ([0-9]+) failed$/$name \\1 \\2/p" "$log" | tail -n 1 >>"$results"
  grep -qE '^[0-9]+ passed, [0-9]+ failed$' "$log" || echo "$name 0 1" >>"$results"
  return "$code"
}

step setup tools/setup.sh
step release build_and_run release .
step asan build_and_run asan .
step tsan build_and_run tsan .
step aarch64 suite aarch64 tools/aarch64.sh
step valgrind suite valgrind tools/valgrind.sh
step models suite models tests/model/run.sh
step fuzz check tools/fuzz.sh 60
step bench check ./dev bench --quick
step lint check tools/lint.sh all
step verification check tools/check_verification.sh

step network suite network tests/network/run.sh
step soak suite soak ./dev soak --minutes 1

step containers suite containers tests/containers/run.sh

for line in "${skipped[@]}"; do
  echo "skipped: $line"
done
for name in "${failed_steps[@]}"; do
  echo "failed: $name"
done
echo "total time: $((SECONDS / 60)) min $((SECONDS % 60)) s"
awk '{ passed += $2; failed += $3 } END { print passed + 0 " passed, " failed + 0 " failed" }' "$results"
[ "${#failed_steps[@]}" -eq 0 ]
