#!/usr/bin/env bash
# The walls of the house: which folder may include which. The build enforces most of it through its targets; this
# also catches an include that happens to compile. Then two rules about state that no compiler knows.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0

# wall FOLDER PATTERN: no source in FOLDER includes anything that matches PATTERN (of the text between < > or " ")
wall() {
  local folder=$1 pattern=$2 found
  [ -d "$folder" ] || return 0
  found=$(grep -rnE --include='*.[ch]' "^ *# *include *[<\"]($pattern)" "$folder" || true)
  if [ -n "$found" ]; then
    echo "a wall is broken: $folder must not include this:"
    echo "$found"
    failed=1
  fi
}

wall include 'base/|exec/|net/|proto/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml'
wall base 'exec/|net/|proto/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml|pb'
wall exec 'net/|proto/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml|pb'
wall proto 'exec/|net/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml'
wall net 'exec/|proto/([^f]|f[^r]|fr[^a]|fra[^m]|fram[^e]|frame[^.])|server/|ctl/|node/|cyaml/|yaml|pb'
wall server 'ctl/|node/'
wall ctl 'node/'
wall samples 'base/|exec/|net/|proto/|server/|ctl/|node/'

# One message, one look: within a function no registry is asked the same question twice, because the two answers could
# differ. What is needed of several registries is read in one go and carried as a zlink_<target>_state_snapshot_t.
readers='zlink_(application_host|catalogue|mesh)_find_[a-z_]+|zlink_channel_routes_(pick|members)|zlink_handler_table_find'
twice=$(find server -name '*.c' -exec awk -v readers="$readers" '
  /^[a-z].*\(/ { split("", seen) }
  {
    rest = $0
    while (match(rest, "(" readers ")\\([^()]*\\)")) {
      question = substr(rest, RSTART, RLENGTH)
      if (question in seen && $0 !~ /^[a-z]/) print FILENAME ":" FNR ": " question
      seen[question] = 1
      rest = substr(rest, RSTART + RLENGTH)
    }
  }' {} +)
if [ -n "$twice" ]; then
  echo "the same registry value is read twice in one function:"
  echo "$twice"
  failed=1
fi
misnamed=$(grep -rnoE --include='*.[ch]' '\bzlink_[a-z_]*snapshot[a-z_]*_t\b' base exec net server | grep -v '_state_snapshot_t$' || true)
if [ -n "$misnamed" ]; then
  echo "a snapshot is named zlink_<target>_state_snapshot_t:"
  echo "$misnamed"
  failed=1
fi

# Whoever enters a state lane checks what it assumes about it.
while IFS= read -r file; do
  if ! grep -qE 'zlink_state_lane_(is_on_lane|throw_if_reentrant)\(' "$file"; then
    echo "$file enters a state lane and asserts zlink_state_lane_is_on_lane nowhere"
    failed=1
  fi
done < <(grep -rlE --include='*.c' 'zlink_state_lane_(run|post)\(' exec net server | grep -v '^exec/state_lane.c$' || true)

exit "$failed"
