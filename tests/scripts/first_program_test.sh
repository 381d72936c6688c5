#!/usr/bin/env bash
# The program of a first run trains as the whole does, and the script ./longhaul takes it where that is enough.
#   first_program_test.sh TREE LONGHAUL LONGHAUL_FIRST
set -euo pipefail
tree=$1 whole=$2 first=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "$*"; exit 1; }

# Three steps of both: the same checkpoints.
mkdir "$folder/text"
for i in 1 2 3 4 5 6 7 8; do seq -s ' ' "$i" $((i + 90)) >"$folder/text/$i.txt"; done
cat >"$folder/tiny.toml" <<TOML
version = 1
[model]
layers = 2
hidden = 32
heads = 2
kv_heads = 2
head_dim = 16
rotary_dim = 8
vocabulary = 257
intermediate = 32
mixers = ["lightning", "softmax"]
[data]
source = ["$folder/text"]
cache = "$folder/cache"
tokenizer = "bytes"
[train]
steps = 3
batch = 2
micro_batch = 1
sequence = 32
threads = 1
evaluate_every = 0
[sample]
tokens = 4
[observe]
compression_baseline = false
report = false
TOML
"$whole" train "$folder/tiny.toml" --quiet --run "$folder/whole" >/dev/null
"$first" train "$folder/tiny.toml" --quiet --run "$folder/first" >/dev/null
"$whole" compare "$folder/whole" "$folder/first" || fail "the two programs do not train the same"
"$first" sample "$folder/first" --tokens 4 >/dev/null || fail "the first program does not sample what it trained"
"$first" config explain "$folder/tiny.toml" optim.lr >/dev/null || fail "the first program does not explain an option"

# What it does not know it refuses, and says where the rest is.
said=$("$first" train "$folder/tiny.toml" train.task=chat 2>&1) && fail "the first program takes a task that it does not have"
[[ $said == *"./longhaul build"* ]] || fail "a refusal of the first program does not name the whole one: $said"

# Which program the script takes, in a tree whose build only tells what it was asked for.
mkdir -p "$folder/tree/scripts" "$folder/tree/build/release"
cp "$tree/longhaul" "$folder/tree/longhaul"
printf '#!/bin/sh\necho "$0 $*" >>"%s/asked"\n' "$folder" >"$folder/tree/scripts/build"
for program in longhaul longhaul-first; do
  printf '#!/bin/sh\necho %s "$@"\n' "$program" >"$folder/$program"
  chmod +x "$folder/$program"
done
chmod +x "$folder/tree/scripts/build"
cp "$folder/longhaul-first" "$folder/tree/build/release/"
printf '[train]\ntask = "chat"\n' >"$folder/chat.toml"
takes() {  # takes PROGRAM WORDS…: with which the script starts it
  local expected=$1 said
  shift
  : >"$folder/asked"
  said=$("$folder/tree/longhaul" "$@" 2>/dev/null) || said=""
  if [[ $expected == longhaul-first ]]; then
    [[ $said == "longhaul-first $*" ]] || fail "'$*' does not start the first program but: $said"
    grep -q -- --first "$folder/asked" || fail "'$*' does not build the first program"
  else
    ! grep -q -- --first "$folder/asked" || fail "'$*' builds the first program"
  fi
}
takes longhaul-first train "$folder/tiny.toml" train.steps=5
takes longhaul-first sample runs/mine
takes longhaul prove "$folder/tiny.toml"
takes longhaul train "$folder/chat.toml"
takes longhaul train "$folder/tiny.toml" train.task=chat
takes longhaul --help
cp "$folder/longhaul" "$folder/tree/build/release/"
takes longhaul train "$folder/tiny.toml"
[[ $("$folder/tree/longhaul" train "$folder/tiny.toml") == "longhaul train $folder/tiny.toml" ]] || fail "the whole program is there and not taken"
