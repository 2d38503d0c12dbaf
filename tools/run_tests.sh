#!/usr/bin/env bash
# Runs the tests of one build and adds up the programs' own closing lines ("N passed, N failed").
#   tools/run_tests.sh PRESET [REGEX] [RESULTS]
# REGEX picks tests by name. A line "PRESET PASSED FAILED" is appended to the file RESULTS. A test without a closing
# line counts as one; one that ends badly after a good closing line (a leak, say) counts as one failure.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=$1
regex=${2:-.}
results=${3:-/dev/null}
log=build/$preset/tests.log
runner=()

# The thread sanitizer of clang 14 cannot live with 32 bits of address randomisation.
if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then
  runner=(setarch -R)
fi
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=0:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}
if [ -f tests/tsan.supp ]; then
  TSAN_OPTIONS=$TSAN_OPTIONS:suppressions=$PWD/tests/tsan.supp
fi

# The answer of ctest is in the log, too, and judged there.
"${runner[@]}" ctest --test-dir "build/$preset" --tests-regex "$regex" --parallel "$(nproc)" --no-tests=error \
  --verbose >"$log" 2>&1 || true

awk -v preset="$preset" -v log_file="$log" -v results="$results" '
  # 12: 5 passed, 0 failed
  match($0, /^[0-9]+: [0-9]+ passed, [0-9]+ failed$/) { n = $1 + 0; passed[n] = $2; failed[n] = $4; told[n] = 1 }
  # 3/9 Test #12: unit.log ......... Passed 0.01 sec      (or ***Failed, ***Timeout, ***Exception: …, ***Skipped)
  match($0, /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: /) {
    line = $0
    sub(/^ *[0-9]+\/[0-9]+ Test +#/, "", line)
    n = line + 0
    name = line
    sub(/^[0-9]+: /, "", name)
    sub(/ .*/, "", name)
    seen++
    if (line ~ /\*\*\*Skipped/) {
      print "skipped: " preset " " name
    } else if (line ~ / Passed +[0-9.]+ sec/) {
      all_passed += told[n] ? passed[n] : 1
      all_failed += told[n] ? failed[n] : 0
    } else {
      all_passed += told[n] ? passed[n] : 0
      all_failed += told[n] && failed[n] > 0 ? failed[n] : 1
      bad[++bad_count] = n
      print "FAILED: " preset " " name
    }
  }
  END {
    if (seen == 0) {
      print "FAILED: " preset ": no test ran"
      all_failed++
    }
    for (i = 1; i <= bad_count; i++) {
      lines = 0
      while ((getline line < log_file) > 0)
        if (index(line, bad[i] ": ") == 1 && lines++ < 200)
          print "  " substr(line, length(bad[i] ": ") + 1)
      close(log_file)
    }
    print preset ": " all_passed + 0 " passed, " all_failed + 0 " failed"
    print preset, all_passed + 0, all_failed + 0 >> results
    exit all_failed > 0
  }' "$log"
