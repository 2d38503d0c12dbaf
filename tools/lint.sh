#!/usr/bin/env bash
# Format, walls, shell scripts and clang-tidy. `all` looks at every file, `changed` only runs clang-tidy on the files
# that differ from the last commit.
#   tools/lint.sh [changed|all]
set -euo pipefail
cd "$(dirname "$0")/.."

scope=${1:-changed}
case $scope in
changed | all) ;;
*)
  echo "lint: '$scope' is not changed or all" >&2
  exit 2
  ;;
esac
failed=()

mapfile -t sources < <(git ls-files -co --exclude-standard -- '*.c' '*.h' | while read -r file; do
  [ ! -f "$file" ] || echo "$file"
done)
clang-format --dry-run -Werror "${sources[@]}" || failed+=("clang-format (./dev format mends it)")

tools/check_walls.sh || failed+=(walls)

mapfile -t scripts < <(git ls-files -co --exclude-standard -- dev .ci/run '*.sh')
if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}" || failed+=(shellcheck)
else
  echo "skipped: shellcheck is not installed"
fi

# One file a process: clang-tidy 14 mixes the va_lists of several up.
# clang-tidy needs the generated headers and the flags of a clang build with assertions: the tsan preset is one.
tools/build.sh tsan >build/tsan.build.log 2>&1 || {
  tail -n 40 build/tsan.build.log >&2
  failed+=("the tsan build, which clang-tidy reads")
}
if [ "$scope" = changed ]; then
  mapfile -t units < <({
    git diff --name-only HEAD -- '*.c'
    git ls-files -o --exclude-standard -- '*.c'
  } | sort -u)
else
  mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep '\.c$')
fi
known=()
for unit in "${units[@]}"; do
  if grep -q "\"file\": \"$PWD/$unit\"" build/tsan/compile_commands.json; then
    known+=("$unit")
  fi
done
if [ "${#known[@]}" -gt 0 ]; then
  printf '%s\0' "${known[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build/tsan --quiet --warnings-as-errors='*' 2>/dev/null ||
    failed+=(clang-tidy)
fi

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'lint: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "lint: ${#sources[@]} sources, ${#known[@]} through clang-tidy, ${#scripts[@]} scripts: clean"
