#!/usr/bin/env bash
# Makes certificates for nodes in containers, with the zlinkctl of the image, so that none is ever part of an image.
#   docker/certs.sh FOLDER NAME...
# FOLDER/ca/ holds the mesh's authority; keep it off the machines that run nodes. FOLDER/NAME/ holds what node NAME
# needs: ca.pem, node.pem, and node.key, which belongs to the container's user. FOLDER/client/ is the same for zlinkctl.
# What exists already stays. ZLINK_MESH (sample) names the mesh, ZLINK_IMAGE (zlink-node) the image.
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: docker/certs.sh FOLDER NAME..." >&2
  exit 2
fi
folder=$1
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# Root in a container of its own, without a network: the files have two owners.
# shellcheck disable=SC2016 # expanded inside
docker run --rm --network none --user 0:0 --read-only --cap-drop ALL --cap-add CHOWN --cap-add DAC_OVERRIDE \
  --cap-add FOWNER --security-opt no-new-privileges:true --volume "$folder:/certs" --entrypoint sh \
  "${ZLINK_IMAGE:-zlink-node}" -euc '
    owner=$1 mesh=$2
    shift 2
    # certificate KIND NAME
    certificate() {
      [ ! -e "/certs/$2/node.key" ] || return 0
      [ -e "/certs/ca/$2.key" ] || zlinkctl certs "$1" --dir /certs/ca --name "$2" >/dev/null
      mkdir -p "/certs/$2"
      cp /certs/ca/ca.pem "/certs/$2/ca.pem"
      mv "/certs/ca/$2.pem" "/certs/$2/node.pem"
      mv "/certs/ca/$2.key" "/certs/$2/node.key"
      chown -R 7700:7700 "/certs/$2"
      chmod 0755 "/certs/$2"
    }
    [ -e /certs/ca/ca.pem ] || zlinkctl certs init --dir /certs/ca --mesh "$mesh" >/dev/null
    for name in "$@"; do certificate node "$name"; done
    certificate client client
    chown -R "$owner" /certs/ca
  ' sh "$(id -u):$(id -g)" "${ZLINK_MESH:-sample}" "$@"
echo "certificates: $folder: $*, client"
