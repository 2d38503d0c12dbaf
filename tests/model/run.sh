#!/usr/bin/env bash
# Checks every model with spin, and that spin finds a fault in every broken variant (the BROKEN_ words in a model).
# Prints "N passed, N failed". LONG=1 adds what takes a minute and gigabytes.
#   [LONG=1] tests/model/run.sh [MODEL...]
set -euo pipefail
cd "$(dirname "$0")"

folder=$PWD
build=../../build/model
limit_s=${LONG:+3600}
limit_s=${limit_s:-240}

# Beyond a model's default size, one a line.
sizes() {
  case $1 in
  parking)
    echo "-DPOSTERS=1 -DSELF_POSTS=1"
    echo "-DPOSTERS=1 -DSPURIOUS=1"
    echo "-DSTOPPER"
    echo "-DSPIN"
    echo "-DSPIN -DPOSTERS=1 -DSELF_POSTS=1"
    echo "-DSPIN -DSTOPPER"
    [ -z "${LONG:-}" ] || echo "-DANY_HOME -DANY_BUSY"
    ;;
  esac
}

# Where a broken variant needs more than the default size.
size_of_broken() {
  case $1/$2 in
  parking/BROKEN_SLEEPS_WHILE_IT_SPINS) echo "-DSPIN" ;;
  parking/BROKEN_PASSES_NOTHING_ON) echo "-DSCENE_OF_THREE -DWORKERS=3 -DPOSTERS=3" ;;
  esac
}

# verify MODEL OPTION...: 0: every state was seen and is good, 1: a fault was found, 2: neither
verify() {
  local model=$1 name
  shift
  name=$(tr -cd '[:alnum:]_' <<<"$model$*")
  rm -rf "$name"
  mkdir "$name"
  (
    cd "$name"
    cp "$folder/$model.pml" .
    spin "$@" -a "$model.pml" && gcc -O1 -w -DSAFETY -DCOLLAPSE -DVECTORSZ=512 -o pan pan.c &&
      timeout "$limit_s" ./pan -m100000 -w22 -n
  ) >"$name.log" 2>&1 || true
  if grep -q 'errors: 0$' "$name.log" && ! grep -qE 'max search depth too small|out of memory' "$name.log"; then
    return 0
  fi
  grep -qE 'errors: [1-9]' "$name.log" && return 1
  return 2
}

# expect WANTED MODEL OPTION...: says ok or what is wrong
expect() {
  local wanted=$1 answer=0
  shift
  verify "$@" || answer=$?
  if [ "$answer" -eq "$wanted" ]; then
    echo "ok $*"
    return
  fi
  case $answer in
  0) echo "FAILED: $*: spin finds no fault" ;;
  1) echo "FAILED: $*: spin finds a fault; spin -t -p -l -g shows the way there, in $PWD" ;;
  *) echo "FAILED: $*: spin did not come to an end" ;;
  esac
}

mkdir -p "$build"
cd "$build"
if [ "${1:-}" = expect ]; then # one check, from below
  shift
  expect "$@"
  exit
fi

models=("$@")
if [ ${#models[@]} -eq 0 ]; then
  for file in "$folder"/*.pml; do
    models+=("$(basename "$file" .pml)")
  done
fi
for model in "${models[@]}"; do
  echo "0 $model"
  sizes "$model" | sed "s/^/0 $model /"
  grep -oE 'BROKEN_[A-Z_]+' "$folder/$model.pml" | sort -u | while read -r broken; do
    echo "1 $model -D$broken $(size_of_broken "$model" "$broken")"
  done
done | sed "s/ *$//" >checks.txt
xargs -P "$(nproc)" -L 1 "$folder/run.sh" expect <checks.txt >answers.txt
sed -n '/^FAILED/p' answers.txt
passed=$(grep -c '^ok' answers.txt || true)
failed=$(($(wc -l <checks.txt) - passed))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
