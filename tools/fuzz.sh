#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for a while. What it learns is kept in build/corpus; a crash leaves its
# input in build/crashes and makes the run fail.
#   tools/fuzz.sh [SECONDS [TARGET...]]
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
shift || true
tools/build.sh fuzz
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(find build/fuzz/tests/fuzz -maxdepth 1 -type f -name 'fuzz_*' -executable -printf '%f\n' | sort)
fi
if [ ${#targets[@]} -eq 0 ]; then
  echo "fuzz: the build has no targets" >&2
  exit 1
fi

passed=0
failed=0
mkdir -p build/crashes
for target in "${targets[@]}"; do
  corpus=(build/corpus/"$target")
  mkdir -p "${corpus[0]}"
  [ ! -d "tests/fuzz/corpus/$target" ] || corpus+=("tests/fuzz/corpus/$target")
  echo "== $target, $seconds s"
  if "build/fuzz/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="build/crashes/$target-" "${corpus[@]}" >"build/$target.log" 2>&1; then
    passed=$((passed + 1))
    grep -E 'number_of_executed_units|average_exec' "build/$target.log" || true
  else
    failed=$((failed + 1))
    tail -n 40 "build/$target.log"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
