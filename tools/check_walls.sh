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

wall include 'base/|exec/|net/|proto/|server/|ctl/|node/|liburing|openssl/|cyaml/|yaml'
wall base 'exec/|net/|proto/|server/|ctl/|node/|liburing|openssl/|cyaml/|yaml|pb'
wall exec 'net/|proto/|server/|ctl/|node/|liburing|openssl/|cyaml/|yaml|pb'
wall proto 'exec/|net/|server/|ctl/|node/|liburing|openssl/|cyaml/|yaml'
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

# complain WHAT LINES: where there are any
complain() {
  [ -n "$2" ] || return 0
  echo "$1:"
  echo "$2"
  failed=1
}

# EX-1: an application has no means to name a queue: no public header knows one, no entry point of a coordinator takes
# one, and the server never mentions one.
ex1_nobody_names_a_queue() {
  complain 'EX-1: a queue in a public header' \
    "$(grep -rnE --include='*.h' 'execution_queue|lane_policy' include || true)"
  complain 'EX-1: an entry point that takes a queue' \
    "$(grep -nE '^zlink_|^ +.*[,)]' exec/*_serial_executor.h | grep 'execution_queue_t' || true)"
  complain 'EX-1: the server names a queue' \
    "$(grep -rnE --include='*.[ch]' 'zlink_serial_execution_queue_' server net ctl node samples || true)"
}

# IC-1: only coordinators have queues: elsewhere a field is what drives them (worker, ready ring, turn) or is none. The
# coordinators of Actors and sessions have no map.
ic1_only_coordinators_hold_queues() {
  local field='^    (const )?zlink_serial_execution_queue_t [*]?[a-z_]+;'
  local drives='^(exec/serial_execution_queue[a-z_]*\.[ch]|exec/(worker|ready_ring|turn)\.h)$'
  local coordinators='^exec/[a-z]+_serial_executor\.[ch]$'
  local file lines
  while IFS= read -r file; do
    if [[ $file =~ $drives || $file =~ $coordinators ]]; then
      continue
    fi
    # a field, not a variable: inside a struct
    lines=$(awk -v field="$field" '
      /^(typedef )?(struct|union) .*\{/ { inside = 1 }
      /^\}/ { inside = 0 }
      inside && $0 ~ field { print FILENAME ":" FNR ": " $0 }' "$file")
    complain 'IC-1: a queue outside a coordinator' "$lines"
  done < <(grep -rlE --include='*.[ch]' 'zlink_serial_execution_queue_t' base exec net proto server ctl node)
  complain 'IC-1: a map in a coordinator that has one queue' \
    "$(grep -nE 'name_map_t[ *]|UT_hash' exec/{actor,session,channel}_serial_executor.[ch] || true)"
}

# IC-2: under SpotWide nothing but the Spot's own handlers brings a payload to the Spot's queue; an Actor's turn goes
# there with the fixed cost, in one place.
ic2_no_payload_for_the_spot_queue() {
  local count
  count=$(grep -cE 'with_payload_bytes\(&executor->queue' exec/spot_serial_executor.c || true)
  [ "$count" = 1 ] || complain 'IC-2: payload for the Spot queue' "$count places in exec/spot_serial_executor.c, not 1"
  grep -q 'record->reserved_bytes = gate->policy->fixed_work_byte_cost;' exec/serial_execution_queue.c ||
    complain 'IC-2: the cost of an Actor turn' 'exec/serial_execution_queue.c does not say that it is the fixed one'
}

# TR-96: an error says what happened, and not whether to try again: no public header has a word for that.
tr96_no_retry_hint() {
  complain 'TR-96: a hint to try again in a public header' \
    "$(grep -rniE --include='*.h' 'zlink_[a-z_]*(retry|retriable|transient)' include || true)"
}

ex1_nobody_names_a_queue
ic1_only_coordinators_hold_queues
ic2_no_payload_for_the_spot_queue
tr96_no_retry_hint

exit "$failed"
