#!/usr/bin/env bash
# Does the library export what include/zlink/ declares, and nothing else?
#   tools/check_exports.sh LIBRARY
set -euo pipefail
cd "$(dirname "$0")/.."

declared=$(tr '\n' ' ' <<<"$(cat include/zlink/*.h)" | grep -oE 'ZLINK_API [^;(]*\(' | grep -oE 'zlink_[a-z0-9_]+ *\($' |
  tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort -u)
if ! diff <(echo "$declared") <(echo "$exported"); then
  echo "exports: < is declared and not exported, > is exported and not declared"
  echo "0 passed, 1 failed"
  exit 1
fi
echo "exports: $(wc -l <<<"$exported") functions"
echo "1 passed, 0 failed"
