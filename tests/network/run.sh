#!/usr/bin/env bash
# Two nodes on networks that lose, delay, cut and reset: all tests of test_faults.py side by side, because most of their
# time is waiting for the liveness bound. Exit code 77, with the reason, where there can be no network namespaces.
#   tests/network/run.sh [--build DIR] [--only PART...]
set -euo pipefail
cd "$(dirname "$0")/../.."

build=build/release
parts=()
while [ $# -gt 0 ]; do
  case $1 in
  --build) build=$2 ;;
  --only) parts+=(-e "$2") ;;
  *)
    echo "usage: tests/network/run.sh [--build DIR] [--only PART...]" >&2
    exit 2
    ;;
  esac
  shift 2
done

code=0
reason=$(/usr/bin/python3 -B tests/network/network.py) || code=$?
if [ "$code" -eq 77 ]; then
  echo "skipped: network: $reason"
  exit 77
elif [ "$code" -ne 0 ]; then
  exit "$code"
fi

folder=$(mktemp -d)
running=()
finish() {
  local pid
  for pid in "${running[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  wait
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

mapfile -t tests < <(sed -nE 's/^def (test_[a-z0-9_]+)\(mesh\):$/\1/p' tests/network/test_faults.py |
  grep "${parts[@]:-.}" || true)
for test in "${tests[@]}"; do
  /usr/bin/python3 -B tests/network/test_faults.py --build "$build" --exactly "$test" >"$folder/$test" 2>&1 &
  running+=($!)
done
for pid in "${running[@]}"; do
  wait "$pid" || true # the tests' own lines say it
done
running=()

passed=0
for test in "${tests[@]}"; do
  sed '/^[0-9]* passed, [0-9]* failed$/d' "$folder/$test"
  if tail -n 1 "$folder/$test" | grep -qx '1 passed, 0 failed'; then
    passed=$((passed + 1))
  fi
done
echo "$passed passed, $((${#tests[@]} - passed)) failed"
[ "${#tests[@]}" -gt 0 ] && [ "$passed" -eq "${#tests[@]}" ]
