#!/usr/bin/env bash
# The tests of base/ and exec/ under valgrind's memcheck: reads of what was never written, which no sanitizer of gcc sees,
# on stacks that coroutines switch between. Takes the release build. Left out is the storm of a hundred thousand parked
# handlers: it takes minutes, and counts resident pages, which exec does not keep small under valgrind. Ends with 77
# where there is no valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null; then
  echo "skipped: valgrind: it is not installed"
  exit 77
fi
mapfile -t names < <(sed -nE 's/^zlink_unit_test\(([a-z0-9_]+).*/\1/p' tests/unit/base.cmake tests/unit/exec.cmake |
  grep -vx exec_storm)
if ! tools/build.sh release "${names[@]/#/test_}"; then
  echo "0 passed, 1 failed"
  exit 1
fi

# check NAME: says ok or what is wrong. A child that a test lets die says nothing.
check() {
  local name=$1 log=build/valgrind/$1.log
  if timeout 300 valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --child-silent-after-fork=yes --fair-sched=yes \
    "build/release/tests/unit/test_$name" >"$log" 2>&1; then
    echo "ok $name"
  else
    echo "FAILED: valgrind: $name"
    grep -vE '^\[ +(RUN|OK)' "$log" | head -n 60
  fi
}
export -f check

mkdir -p build/valgrind
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I {} bash -c 'check {}' >build/valgrind/answers.txt
sed '/^ok /d' build/valgrind/answers.txt
passed=$(grep -c '^ok ' build/valgrind/answers.txt || true)
failed=$((${#names[@]} - passed))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
