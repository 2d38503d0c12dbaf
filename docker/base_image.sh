#!/usr/bin/env bash
# Makes sure that the engine has the base image debian:bookworm-slim: it is there, it can be pulled, or it is built here
# from Debian's packages, from where this machine's apt has them (debootstrap, root).
#   docker/base_image.sh
set -euo pipefail

image=debian:bookworm-slim
suite=bookworm
PATH=$PATH:/usr/sbin:/sbin

if docker image inspect "$image" >/dev/null 2>&1; then
  echo "base image: $image is there"
  exit 0
fi
if timeout 60 docker pull -q "$image" >/dev/null 2>&1; then
  echo "base image: $image was pulled"
  exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
  echo "base image: $image cannot be pulled, and building it takes root and debootstrap" >&2
  exit 1
fi

# repositories RELEASE...: "URI RELEASE" of the ones that this machine's apt uses
repositories() {
  local release
  for release in "$@"; do
    # shellcheck disable=SC2016 # the names are apt's
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' "Created-By: Packages" "Release: $release" |
      awk '$3 == "main" { print $1, $2; exit }'
  done
}

read -r mirror _ < <(repositories "$suite" && echo)
if [ -z "${mirror:-}" ]; then
  echo "base image: this machine's apt knows no $suite" >&2
  exit 1
fi

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
root=$folder/root
if ! debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$folder/log" 2>&1; then
  tail -n 20 "$folder/log" >&2
  echo "base image: debootstrap failed" >&2
  exit 1
fi
repositories "$suite" "$suite-updates" "$suite-security" | awk '{ print "deb", $1, $2, "main" }' \
  >"$root/etc/apt/sources.list"

# What slim images leave out, now and in layers to come.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'EOF'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
EOF
find "$root/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$root"/usr/share/man/* "$root"/usr/share/locale/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* \
  "$root"/var/log/*.log
tar -C "$root" --numeric-owner -c . | docker import --change 'CMD ["bash"]' - "$image" >/dev/null
echo "base image: $image was built"
