#!/usr/bin/env bash
# The tests with the node in containers. Where no engine answers, one is started (root) and stopped again; it and
# everything else that this makes is gone afterwards. Exit code 77, with the reason, where there can be no engine.
#   tests/containers/run.sh [--only PART...]
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin

skip() {
  echo "skipped: containers: $*"
  exit 77
}

folder=$(mktemp -d)
tag=test$$
project=zlinktest$$
own_engine=

finish() {
  local target
  if [ -n "$own_engine" ]; then
    docker/engine.sh stop "$folder/engine" || true
  elif docker version >/dev/null 2>&1; then
    for target in sample node build; do
      docker rmi -f "zlink-$target:$tag" >/dev/null 2>&1 || true
    done
  fi
  rm -rf "$folder"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

answers() { docker version >/dev/null 2>&1; }
has_compose() { command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1; }

if ! answers && [ "$(id -u)" -ne 0 ]; then
  skip "no container engine answers, and starting one takes root"
fi
if ! answers || ! has_compose || ! command -v sslscan >/dev/null; then
  tools/setup.sh containers >"$folder/setup.log" 2>&1 ||
    skip "what they need cannot be installed: $(tail -n 1 "$folder/setup.log")"
fi
if ! answers; then
  address=$(docker/engine.sh start "$folder/engine" 2>"$folder/engine.log") ||
    skip "no container engine answers and none can be started: $(tr '\n' ' ' <"$folder/engine.log")"
  own_engine=1
  export DOCKER_HOST=$address
fi

started=$SECONDS
docker/build.sh "$tag"
ZLINK_IMAGE=zlink-node:$tag docker/certs.sh "$folder/certs" a b c
echo "ready after $((SECONDS - started)) s"
/usr/bin/python3 -B tests/containers/test_containers.py --image "zlink-sample:$tag" --certs "$folder/certs" \
  --folder "$folder" --project "$project" "$@"
