#!/usr/bin/env bash
# Does docs/verification.md tell the truth? It holds a line
#   Finished: EX-1..EX-12, EX-56, TR-75
# and rows
#   | EX-56 | one line of words | tests/unit/test_status.c: test_ex56_status_numbers_and_names |
# where the last cell lists tests as FILE or FILE: FUNCTION, separated by ';' (backticks are ignored), or says
# "not yet". Every listed file must exist, every listed function must be in it and name the id, and every
# finished id needs a test.
set -euo pipefail
cd "$(dirname "$0")/.."

document=${1:-docs/verification.md}
if [ ! -f "$document" ]; then
  echo "$document: is missing" >&2
  exit 1
fi

declare -A tested
problems=0
rows=0

problem() {
  echo "$document: $*" >&2
  problems=$((problems + 1))
}

trim() {
  local text=$1
  text=${text#"${text%%[![:space:]]*}"}
  printf '%s' "${text%"${text##*[![:space:]]}"}"
}

# check_test ID TEST
check_test() {
  local id=$1 file function short
  file=$(trim "${2%%:*}")
  if [ ! -f "$file" ]; then
    problem "$id: there is no file '$file'"
    return
  fi
  tested[$id]=1
  [ "$file" != "$(trim "$2")" ] || return 0
  function=$(trim "${2#*:}")
  short=${id,,}
  short=${short//-/}
  grep -q "\\b$function\\b" "$file" || problem "$id: there is no '$function' in $file"
  [[ $function == *"$short"* ]] || problem "$id: '$function' does not name the id ($short)"
}

while IFS='|' read -r _ id _ tests _; do
  id=$(trim "$id")
  [[ $id =~ ^[A-Z]+-[0-9]+$ ]] || continue
  rows=$((rows + 1))
  tests=$(trim "${tests//\`/}")
  [ "$tests" != "not yet" ] || continue
  if [ -z "$tests" ]; then
    problem "$id: names no test"
    continue
  fi
  while IFS= read -r -d ';' test; do
    [ -z "$(trim "$test")" ] || check_test "$id" "$test"
  done <<<"$tests;"
done < <(grep '^|' "$document" || true)

finished=0
while IFS= read -r entry; do
  entry=$(trim "$entry")
  [ -n "$entry" ] || continue
  if [[ ! $entry =~ ^([A-Z]+)-([0-9]+)(\.\.([A-Z]+)-([0-9]+))?$ ]] ||
    [ "${BASH_REMATCH[4]:-${BASH_REMATCH[1]}}" != "${BASH_REMATCH[1]}" ]; then
    problem "Finished: '$entry' is not an id or a range (EX-1..EX-12)"
    continue
  fi
  prefix=${BASH_REMATCH[1]}
  first=${BASH_REMATCH[2]}
  last=${BASH_REMATCH[5]:-$first}
  for ((number = first; number <= last; number++)); do
    finished=$((finished + 1))
    [ -n "${tested[$prefix-$number]:-}" ] || problem "$prefix-$number: is finished and has no test"
  done
done < <(sed -n 's/^Finished://p' "$document" | tr ',' '\n')
[ "$finished" -gt 0 ] || problem "has no line 'Finished: ID, ID..ID'"

if [ "$problems" -gt 0 ]; then
  exit 1
fi
echo "verification: $rows ids, ${#tested[@]} with a test, $finished finished"
