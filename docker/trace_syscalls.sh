#!/usr/bin/env bash
# Which system calls zlink-node and zlinkctl make: under strace it runs the counter sample, the tests of whole nodes,
# and starts that are refused, and compares what it saw with seccomp.json.
#   docker/trace_syscalls.sh [BUILD]          BUILD is a build folder with tests, build/release where nothing is said
#   docker/trace_syscalls.sh runtime [IMAGE]  what the container engine's runtime itself calls between applying the
#                                             profile and starting the node (root; traces the engine's containerd)
# Prints the calls, and exits with 1 when one is not in the profile. It cannot know what another kernel or C library
# would make of the same program: seccomp.json also holds what glibc of other versions and other machines uses.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in strace /usr/bin/python3; do
  command -v "$tool" >/dev/null || {
    echo "trace: $tool is needed" >&2
    exit 1
  }
done
folder=$(mktemp -d)
tracer=
stop_tracer() {
  [ -n "$tracer" ] || return 0
  kill -INT "$tracer" 2>/dev/null || true
  wait "$tracer" 2>/dev/null || true
  tracer=
}
finish() {
  stop_tracer
  rm -rf "$folder"
}
trap finish EXIT

# traced COMMAND...: it may fail; a trace makes everything slow, and a refused start is wanted
traced() {
  echo "trace: $*" >&2
  strace -ff -qq -o "$folder/trace" "$@" >"$folder/said" 2>&1 </dev/null || echo "trace: it ended with $?" >&2
}

trace_programs() {
  local build=$1 program test
  export ZLINK_BUILD=$build ZLINK_CALLS=5000
  traced samples/counter/run.sh
  for test in tests/mesh/test_*.py tests/wire_client/test_wire_client.py; do
    [ ! -f "$test" ] || traced /usr/bin/python3 -B "$test" --build "$build"
  done
  program=$build/node/zlink-node
  traced "$program" --config "$folder/none.yaml"
  traced "$program" --config configs/example.yaml
  traced "$program" --help
  traced "$program" --usage
  traced "$build/ctl/zlinkctl" check
  traced "$build/ctl/zlinkctl" status "$folder/none.sock"
  /usr/bin/python3 docker/trace_syscalls.py "$folder" program zlink-node zlinkctl
}

trace_runtime() {
  local image=$1 containerd
  containerd=$(pgrep -o containerd)
  strace -ff -qq -p "$containerd" -o "$folder/trace" 2>/dev/null &
  tracer=$!
  until [ -s "$folder/trace.$containerd" ]; do sleep 0.1; done
  for more in "" no-new-privileges:true; do
    docker run --rm --network none --cap-drop ALL --read-only --security-opt seccomp=docker/seccomp.json \
      ${more:+--security-opt "$more"} --entrypoint zlinkctl "$image" check >/dev/null
  done
  stop_tracer
  /usr/bin/python3 docker/trace_syscalls.py "$folder" runtime zlinkctl
}

if [ "${1:-}" = runtime ]; then
  trace_runtime "${2:-zlink-node}" >"$folder/calls"
else
  build=$(cd "${1:-build/release}" && pwd)
  trace_programs "$build" >"$folder/calls"
fi
cat "$folder/calls"
/usr/bin/python3 - "$folder/calls" docker/seccomp.json <<'END'
import json, sys
seen = {line.split()[0] for line in open(sys.argv[1])}
known = {name for rule in json.load(open(sys.argv[2]))["syscalls"] for name in rule["names"]}
missing = sorted(seen - known)
print(f"trace: {len(seen)} system calls" + (", not in the profile: " + " ".join(missing) if missing else
      ", all of them in the profile"), file=sys.stderr)
sys.exit(bool(missing))
END
