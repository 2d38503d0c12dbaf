#!/usr/bin/env bash
# Builds the images zlink-build, zlink-node and zlink-sample (see the Dockerfile) with the engine that answers.
#   docker/build.sh [TAG]      TAG is latest where nothing is said
set -euo pipefail
cd "$(dirname "$0")/.."

tag=${1:-latest}
if ! docker version >/dev/null 2>&1; then
  echo "docker: no container engine answers; docker/engine.sh start FOLDER starts one" >&2
  exit 1
fi
docker/base_image.sh
# The legacy builder where the client has no other.
docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
for target in build node sample; do
  image=zlink-$target:$tag
  if ! said=$(docker build --network host -q -f docker/Dockerfile --target "$target" -t "$image" . 2>&1); then
    printf '%s\n' "$said" | tail -n 40 >&2
    echo "docker: $image was not built" >&2
    exit 1
  fi
  echo "image: $image, $(($(docker image inspect -f '{{.Size}}' "$image") / 1000000)) MB"
done
