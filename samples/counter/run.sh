#!/usr/bin/env bash
# The counter sample on a mesh of three nodes on this machine, over mutual TLS.
#   samples/counter/run.sh               starts it, drives it, checks every total, shows what happened, stops it
#   samples/counter/run.sh serve FOLDER  starts it in FOLDER and serves until SIGTERM
# Nodes a and b host the counter Spots; node c serves the channel "prices" that every addition asks.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${ZLINK_BUILD:-$here/../../build/release}
calls=${ZLINK_CALLS:-20000}
spots=100
outstanding=256
zlinkctl=$build/ctl/zlinkctl
nodes=()

# status NODE EXPRESSION: a Python expression over the node's status, called s
status() {
  "$zlinkctl" status --json "$folder/$1.sock" 2>/dev/null |
    /usr/bin/python3 -c 'import json, sys; s = json.load(sys.stdin); print(eval(sys.argv[1]))' "$2"
}

# until_true WHAT COMMAND...: for at most 20 s
until_true() {
  local what=$1 deadline=$((SECONDS + 20))
  shift
  until "$@"; do
    if [ $SECONDS -ge $deadline ]; then
      echo "run: $what did not come about within 20 s; the nodes said:" >&2
      tail -n 5 "$folder"/*.log >&2
      return 1
    fi
    sleep 0.05
  done
}

serves() { "$zlinkctl" status "$folder/$1.sock" >/dev/null 2>&1; }
linked() { [ "$(status "$1" 'sum(l["state"] == "ready" for l in s["links"])' || true)" = 2 ]; }

# start_node NAME MODULE PEER...: writes its configuration, starts it, waits until it serves
start_node() {
  local name=$1 module=$2
  shift 2
  "$zlinkctl" certs node --dir "$folder/certs" --name "$name" >/dev/null
  {
    printf 'mesh: sample\nname: %s\nlisten: 127.0.0.1:0\ncontrol: %s.sock\n' "$name" "$name"
    printf 'modules:\n  - %s\n' "$build/samples/counter/$module.so"
    [ $# -eq 0 ] || printf 'peers:\n'
    [ $# -eq 0 ] || printf '  - %s\n' "$@"
    printf 'tls:\n  ca: certs/ca.pem\n  certificate: certs/%s.pem\n  key: certs/%s.key\n' "$name" "$name"
  } >"$folder/$name.yaml"
  "$build/node/zlink-node" --config "$folder/$name.yaml" 2>"$folder/$name.log" &
  nodes+=($!)
  until_true "node $name" serves "$name"
}

start_mesh() {
  mkdir -p "$folder"
  rm -rf "$folder/certs"
  "$zlinkctl" certs init --dir "$folder/certs" --mesh sample >/dev/null
  "$zlinkctl" certs client --dir "$folder/certs" --name shopper >/dev/null
  start_node c prices
  address_c=$(status c 's["listen"]')
  start_node a counter "$address_c"
  address_a=$(status a 's["listen"]')
  start_node b counter "$address_c" "$address_a"
  address_b=$(status b 's["listen"]')
  for name in a b c; do
    until_true "the links of node $name" linked "$name"
  done
}

stop_mesh() {
  local pid code=0
  for pid in "${nodes[@]}"; do
    kill -TERM "$pid" 2>/dev/null || true
  done
  for pid in "${nodes[@]}"; do
    wait "$pid" || code=1
  done
  nodes=()
  return $code
}

call() {
  "$zlinkctl" call --connect "$address_a" --connect "$address_b" --ca "$folder/certs/ca.pem" \
    --cert "$folder/certs/shopper.pem" --key "$folder/certs/shopper.key" --proto "$here/counter.proto" "$@"
}

# Every Spot got the same number of additions at 25 cents, whichever node it lives on.
check_totals() {
  call "spot:counter/cart-{}" samples.counter.TotalReq --text '' --count $spots --spread $spots >"$folder/totals.txt"
  /usr/bin/python3 - "$folder/totals.txt" "$calls" "$spots" <<'END'
import re, sys
calls, spots = int(sys.argv[2]), int(sys.argv[3])
seen = {}
for line in open(sys.argv[1]):
    if line.startswith("cart-"):
        seen[line.split()[0]] = {key: int(value) for key, value in re.findall(r"(\w+): (-?\d+)", line)}
wrong = [name for name, spot in seen.items()
         if spot.get("additions") != calls // spots or spot.get("total_cents") != 25 * spot["additions"]]
overlaps = sum(spot.get("overlaps", 0) for spot in seen.values())
additions = sum(spot.get("additions", 0) for spot in seen.values())
print(f"totals    {len(seen)} Spots, {additions} additions, {25 * additions} cents; wrong: {len(wrong)}, "
      f"turns that overlapped: {overlaps}")
sys.exit(len(seen) != spots or additions != calls or bool(wrong) or bool(overlaps))
END
}

show() {
  local name
  for name in a b c; do
    status "$name" '"node {}    {} Spots, {} handlers, {} yields, {:.2f} CPU s, peak {:.0f} MiB".format(
        s["name"], s["counters"]["zlink.spot.count"], s["counters"]["zlink.handlers.completed"],
        s["execution"]["suspensions"], s["process"]["cpu_seconds"], s["process"]["resident_peak_bytes"] / 2**20)'
    status "$name" '"\n".join("  link to {} {} {}".format(l["name"], l["state"], l["cipher"])
        for l in s["links"] if l["role"] == "server")'
  done
}

drive() {
  local cpu_before cpu_after name
  cpu_before=0 cpu_after=0
  for name in a b c; do cpu_before="$cpu_before+$(status $name 's["process"]["cpu_seconds"]')"; done
  echo "requests  $calls Add requests, $outstanding under way, over $spots Spots on two nodes; each yields to the third"
  call "spot:counter/cart-{}" samples.counter.AddReq --text 'item: "apple" amount: 1' --count "$calls" \
    --outstanding $outstanding --spread $spots --quiet | sed 's/^/result    /'
  for name in a b c; do cpu_after="$cpu_after+$(status $name 's["process"]["cpu_seconds"]')"; done
  /usr/bin/python3 -c 'import sys; print("cpu       %.1f microseconds of all nodes for each request" %
    ((eval(sys.argv[2]) - eval(sys.argv[1])) / int(sys.argv[3]) * 1e6))' "$cpu_before" "$cpu_after" "$calls"
  check_totals
  show
}

case ${1:-run} in
run)
  folder=$(mktemp -d)
  trap 'stop_mesh || true; rm -rf "$folder"' EXIT
  started=$SECONDS
  start_mesh
  echo "mesh      three nodes joined over mutual TLS"
  drive
  stop_mesh
  echo "stopped   every node drained and ended with 0, after $((SECONDS - started)) s"
  ;;
serve)
  folder=$(mkdir -p "${2:?FOLDER}" && cd "$2" && pwd)
  trap 'stop_mesh || true' EXIT
  trap 'exit 0' TERM INT
  start_mesh
  cat <<END
serving   a $address_a, b $address_b, c $address_c
try       $zlinkctl status $folder/a.sock
          $zlinkctl call --connect $address_a --ca $folder/certs/ca.pem --cert $folder/certs/shopper.pem \\
            --key $folder/certs/shopper.key --proto $here/counter.proto \\
            spot:counter/cart-1 samples.counter.AddReq --text 'item: "apple" amount: 2'
END
  wait -n "${nodes[@]}" || true
  ;;
*)
  echo "usage: samples/counter/run.sh [serve FOLDER]" >&2
  exit 2
  ;;
esac
