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

# The hazards of io_uring that cannot happen here, because nothing uses what they come with. Who begins to use it looks
# at the hazard first, writes its test and takes the check away.

# not_used HAZARD WHAT PATTERN: nothing of ours says PATTERN
not_used() {
  complain "$1: $2" "$(grep -rnE --include='*.[ch]' "$3" base exec net proto server ctl node include || true)"
}

# H-6, H-10, H-11: descriptors are ordinary ones: no direct descriptor comes back as another one, none is closed twice or
# not at all. (The ring's own registered descriptor is none of them.)
h6_h10_h11_no_direct_descriptors() {
  not_used 'H-6, H-10, H-11' 'direct descriptors' \
    '_direct(_alloc)?\(|FILE_INDEX_ALLOC|IOSQE_FIXED_FILE|file_index|io_uring_register_files|FIXED_FD_INSTALL'
}

# H-16: one completion is one buffer, whole: no bundle and no buffer that is used up bit by bit can be out of order.
h16_no_bundles() {
  not_used 'H-16' 'bundles or incremental buffers' 'RECVSEND_BUNDLE|prep_send_bundle|IOU_PBUF_RING_INC|F_BUF_MORE'
}

# H-19: a send copies: its one completion says that the bytes are ours again.
h19_no_zero_copy() {
  not_used 'H-19' 'sends or receives without a copy' '_zc(_fixed)?\(|(SEND|SENDMSG|RECV)_ZC|CQE_F_NOTIF|MSG_ZEROCOPY'
}

# H-30, H-31, H-32: operations stand alone. The wheel ends what takes too long, and cancels it by its number.
h30_h31_h32_no_chains() {
  not_used 'H-30, H-31, H-32' 'linked operations' \
    'IOSQE_IO_(HARD)?LINK|link_timeout|LINK_TIMEOUT|CQE_SKIP|IOSQE_IO_DRAIN'
}

# H-33: one file speaks to the ring, on the reactor's thread (asserted there), and nobody copies the process under it.
h33_one_file_submits() {
  complain 'H-33: the ring is used outside of net/reactor.c' \
    "$(grep -rnE --include='*.[ch]' '\bio_uring_(get_sqe|submit[a-z_]*|enter2?|wait_cqe[a-z_]*|peek_[a-z_]+|get_events)\(' \
      base exec net proto server ctl node | grep -v '^net/reactor\.c:' || true)"
  complain 'H-33: a copy of the process (zlinkctl, which has no reactor, may)' \
    "$(grep -rnE --include='*.[ch]' '\b(v?fork|clone3?|posix_spawnp?|popen|system|daemon)\(' \
      base exec net proto server node || true)"
}

# H-39: the kernel has no thread of its own that polls for us.
h39_no_polling_thread() {
  not_used 'H-39' 'a polling thread of the kernel' 'SQPOLL|SETUP_SQ_AFF|sq_thread_(cpu|idle)|IORING_SETUP_IOPOLL'
}

ex1_nobody_names_a_queue
ic1_only_coordinators_hold_queues
ic2_no_payload_for_the_spot_queue
tr96_no_retry_hint
h6_h10_h11_no_direct_descriptors
h16_no_bundles
h19_no_zero_copy
h30_h31_h32_no_chains
h33_one_file_submits
h39_no_polling_thread

exit "$failed"
