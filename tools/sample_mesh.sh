#!/usr/bin/env bash
# Starts and stops the sample mesh in the background. `samples/counter/run.sh serve FOLDER` runs it in the foreground
# until SIGTERM; its files, its log and its process id are in .zlink.
#   tools/sample_mesh.sh up|down
set -euo pipefail
cd "$(dirname "$0")/.."

folder=.zlink
pid_file=$folder/pid

# The number in the pid file, where that process is still the one that was started.
running() {
  local pid
  [ -f "$pid_file" ] || return 1
  pid=$(<"$pid_file")
  grep -qz 'samples/counter/run.sh' "/proc/$pid/cmdline" 2>/dev/null || return 1
  echo "$pid"
}

case ${1:-} in
up)
  if pid=$(running); then
    echo "up: runs already (process $pid)" >&2
    exit 1
  fi
  mkdir -p "$folder"
  setsid samples/counter/run.sh serve "$folder" >"$folder/log" 2>&1 </dev/null &
  echo $! >"$pid_file"
  sleep 1
  if ! running >/dev/null; then
    tail -n 20 "$folder/log" >&2
    echo "up: it ended at once; the log is $folder/log" >&2
    exit 1
  fi
  echo "up: process $(<"$pid_file"), log $folder/log; ./dev down stops it"
  ;;
down)
  if ! pid=$(running); then
    rm -f "$pid_file"
    echo "down: nothing runs"
    exit 0
  fi
  kill -TERM "$pid"
  for _ in $(seq 400); do
    running >/dev/null || break
    sleep 0.1
  done
  if running >/dev/null; then
    kill -KILL -- "-$pid"
    echo "down: it did not stop within 40 s and was killed" >&2
    exit 1
  fi
  rm -f "$pid_file"
  echo "down: stopped"
  ;;
*)
  echo "usage: tools/sample_mesh.sh up|down" >&2
  exit 2
  ;;
esac
