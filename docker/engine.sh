#!/usr/bin/env bash
# A container engine of one's own where none runs: root, Debian's docker.io (tools/setup.sh containers). Everything that
# it keeps is in FOLDER. It makes no bridge and no firewall rules, so that nothing is left when it has gone: containers
# reach each other on networks of their own, and not the world.
#   docker/engine.sh start FOLDER   starts it and waits until it answers; prints its DOCKER_HOST
#   docker/engine.sh stop FOLDER    stops it and removes what it kept
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

verb=${1:-}
folder=${2:-}
if [ -z "$folder" ]; then
  echo "usage: docker/engine.sh start|stop FOLDER" >&2
  exit 2
fi

# The number in the pid file, where that process is still the engine that was started.
running() {
  local pid
  [ -s "$folder/pid" ] || return 1
  pid=$(<"$folder/pid")
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "--data-root $folder/data" || return 1
  echo "$pid"
}

# until_true SECONDS COMMAND...
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.1
  done
}

answers() { docker -H "unix://$folder/docker.sock" version >/dev/null 2>&1; }
answers_or_ended() { answers || ! kill -0 "$started" 2>/dev/null; }
gone() { ! running >/dev/null; }

start() {
  if [ "$(id -u)" -ne 0 ]; then
    echo "engine: starting one takes root" >&2
    exit 1
  fi
  if ! command -v dockerd >/dev/null; then
    echo "engine: there is no dockerd; tools/setup.sh containers installs it" >&2
    exit 1
  fi
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)
  echo '{}' >"$folder/daemon.json" # not the machine's
  setsid dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$folder/pid" \
    --host "unix://$folder/docker.sock" --config-file "$folder/daemon.json" \
    --bridge none --iptables=false --ip6tables=false --ip-masq=false \
    --ip-forward=false >"$folder/log" 2>&1 </dev/null &
  started=$!
  if ! until_true 60 answers_or_ended || ! answers; then
    tail -n 3 "$folder/log" >&2
    echo "engine: dockerd ended, or did not answer within 60 s" >&2
    stop >/dev/null
    exit 1
  fi
  echo "unix://$folder/docker.sock"
}

stop() {
  local pid
  folder=$(cd "$folder" 2>/dev/null && pwd) || return 0
  if pid=$(running); then
    kill -TERM "$pid"
    until_true 40 gone || {
      kill -KILL "$pid"
      until_true 5 gone || true
      echo "engine: it did not stop within 40 s and was killed" >&2
    }
  fi
  # It leaves its network namespace mounted, and a killed one more.
  awk -v folder="$folder/" 'index($2, folder) == 1 { print $2 }' /proc/mounts | sort -r |
    while read -r mounted; do umount -l "$mounted" || true; done
  rm -rf --one-file-system "$folder"
}

case $verb in
start) start ;;
stop) stop ;;
*)
  echo "usage: docker/engine.sh start|stop FOLDER" >&2
  exit 2
  ;;
esac
