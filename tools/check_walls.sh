#!/usr/bin/env bash
# The walls of the house: which folder may include which. The build enforces most of it through its targets; this
# also catches an include that happens to compile.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0

# wall FOLDER PATTERN: no source in FOLDER includes anything that matches PATTERN (of the text between < > or " ")
wall() {
  local folder=$1 pattern=$2 found
  [ -d "$folder" ] || return 0
  found=$(grep -rnE --include='*.[ch]' "^ *# *include *[<\"]($pattern)" "$folder" || true)
  if [ -n "$found" ]; then
    echo "a wall is broken: $folder must not include this:"
    echo "$found"
    failed=1
  fi
}

wall include 'base/|exec/|net/|proto/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml'
wall base 'exec/|net/|proto/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml|pb'
wall exec 'net/|proto/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml|pb'
wall proto 'exec/|net/|server/|ctl/|node/|liburing|mbedtls/|cyaml/|yaml'
wall net 'exec/|proto/([^f]|f[^r]|fr[^a]|fra[^m]|fram[^e]|frame[^.])|server/|ctl/|node/|cyaml/|yaml|pb'
wall server 'ctl/|node/'
wall ctl 'node/'
wall samples 'base/|exec/|net/|proto/|server/|ctl/|node/'

exit "$failed"
