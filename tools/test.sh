#!/usr/bin/env bash
# Everything that is tested: the whole suite as gcc ships it and under the address sanitizer, the unit tests under the
# thread sanitizer, the container tests where there is an engine, and the lints. The last line adds all of it up.
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

step setup tools/setup.sh
step release build_and_run release .
step asan build_and_run asan .
step tsan build_and_run tsan '^unit\.'
step lint check tools/lint.sh all
step verification check tools/check_verification.sh

if [ ! -x tests/containers/run.sh ]; then
  skipped+=("containers: there are no container tests yet")
elif ! docker info >/dev/null 2>&1; then
  skipped+=("containers: no container engine answers")
else
  step containers check tests/containers/run.sh
fi

for line in "${skipped[@]}"; do
  echo "skipped: $line"
done
for name in "${failed_steps[@]}"; do
  echo "failed: $name"
done
echo "total time: $((SECONDS / 60)) min $((SECONDS % 60)) s"
awk '{ passed += $2; failed += $3 } END { print passed + 0 " passed, " failed + 0 " failed" }' "$results"
[ "${#failed_steps[@]}" -eq 0 ]
