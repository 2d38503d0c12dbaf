#!/usr/bin/env bash
# Installs the Debian packages of tools/packages.txt that are missing; without a missing one it needs no network.
#   tools/setup.sh             to build and test
#   tools/setup.sh build       to build and run only
#   tools/setup.sh containers  also what the container tests need: an engine where there is none, compose, sslscan
#   tools/setup.sh aarch64     also the cross compiler and the emulator of tools/aarch64.sh
#   tools/setup.sh bench       also the peers that ./dev bench measures (tests/bench/packages.txt)
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not Debian; install what tools/packages.txt lists" >&2
  exit 2
fi

part="/^# to test/,\$d"
[ "${1:-}" = build ] || part=
mapfile -t wanted < <(sed -e "$part" tools/packages.txt | grep -v -e '^#' -e '^$')
if [ "${1:-}" = containers ]; then
  wanted+=(debootstrap sslscan)
  docker version >/dev/null 2>&1 || PATH=$PATH:/usr/sbin command -v dockerd >/dev/null || wanted+=(docker.io)
  command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 || wanted+=(docker-compose)
fi
if [ "${1:-}" = aarch64 ]; then
  wanted+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
fi
if [ "${1:-}" = bench ]; then
  mapfile -t peers < <(grep -v -e '^#' -e '^$' tests/bench/packages.txt)
  wanted+=("${peers[@]}")
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1 || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  echo "setup: everything is installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing: ${missing[*]}; install them as root (there is no sudo here)" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
