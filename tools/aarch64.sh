#!/usr/bin/env bash
# Builds base/ and exec/ for aarch64 and runs their tests under qemu: on a processor with one instruction for the 16-byte
# compare-and-swap and on one that needs a loop for it. Where the tools cannot be installed it says why and ends with 77.
# qemu runs the instructions, not the memory model: an order that only a real machine would break is not seen here.
set -euo pipefail
cd "$(dirname "$0")/.."

root=build/aarch64-root
log=build/aarch64.setup.log

skip() {
  echo "skipped: aarch64: $1"
  exit 77
}

# cmocka for aarch64, out of Debian's own package. An apt of another architecture with all of its state in the build
# folder: this machine's architectures and packages stay as they are.
fetch_cmocka() {
  local apt=$PWD/build/aarch64-apt
  rm -rf "$apt" "$root" "$root.part"
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/debs"
  : >"$apt/status"
  cat >"$apt/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
END
  (cd "$apt/debs" && APT_CONFIG=$apt/apt.conf apt-get -q update &&
    APT_CONFIG=$apt/apt.conf apt-get -q download libcmocka0 libcmocka-dev) || return 1
  for deb in "$apt"/debs/*.deb; do
    dpkg-deb -x "$deb" "$root.part" || return 1
  done
  mv "$root.part" "$root"
  rm -rf "$apt"
}

mkdir -p build
[ "$(uname -m)" != aarch64 ] || skip "this machine is one: the other builds have shown it"
command -v dpkg-deb >/dev/null || skip "needs Debian's packages"
tools/setup.sh aarch64 >"$log" 2>&1 || skip "no cross compiler or qemu: $(tail -n 1 "$log")"
[ -e "$root/usr/include/cmocka.h" ] || fetch_cmocka >>"$log" 2>&1 || skip "no cmocka: $(tail -n 1 "$log")"

if ! tools/build.sh aarch64; then
  echo "0 passed, 1 failed"
  exit 1
fi
results=build/aarch64.results.txt
: >"$results"
for cpu in max cortex-a53; do
  echo "processor: $cpu"
  QEMU_CPU=$cpu tools/run_tests.sh aarch64 . "$results" || true
done

# The 16-byte swap takes no lock: nothing asks for the library that would.
if aarch64-linux-gnu-nm -u build/aarch64/exec/libzlink_exec.a | grep -E '__(atomic|sync)_[a-z_]+_16'; then
  echo "FAILED: aarch64: a 16-byte operation is a call into libatomic"
  echo "aarch64 0 1" >>"$results"
else
  echo "aarch64 1 0" >>"$results"
fi
awk '{ passed += $2; failed += $3 } END { print passed + 0 " passed, " failed + 0 " failed"; exit failed > 0 }' "$results"
