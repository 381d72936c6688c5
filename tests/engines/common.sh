# What the tests of engines share: a recipe of seconds, and the comparison of two runs. Sourced, with $program set.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
recipe=$work/tiny.toml

# One linear and one softmax layer; a steep loss, so that six steps would show an error of the gradients.
make_recipe() {
  mkdir "$work/text"
  for i in $(seq 40); do
    for j in $(seq $((30 + i))); do echo "line $((j * i)) of file $i"; done >"$work/text/$i.txt"
  done
  cat >"$recipe" <<RECIPE
version = 1
[model]
layers = 2
hidden = 24
heads = 2
kv_heads = 2
head_dim = 8
vocabulary = 257
mixers = ["lightning", "softmax"]
intermediate = 20
rotary_dim = 4
[data]
cache = "$work/cache"
tokenizer = "bytes"
held_out_percent = 20
[train]
dtype = "fp64"
steps = ${steps:-6}
batch = 4
micro_batch = 1
sequence = 33
checkpoint_every = 3
evaluate_every = 3
evaluate_tokens = 500
threads = 1
[optim]
lr = 0.01
eps = 1e-3
warmup_steps = 2
schedule = "constant"
[sample]
tokens = 0
[observe]
compression_baseline = false
tensorboard = false
report = false
RECIPE
}

losses() { sed -nE 's/.*"event":"(step|evaluation)","step":([0-9]+),"loss":([-+.e0-9]+).*/\1-\2 \3/p' "$1/events.jsonl"; }

# All steps, and their losses within 1e-12 of each other; those of evaluations too, of which a run that was stopped may lack one.
require_same_losses() {  # require_same_losses ONE OTHER
  awk -v steps="${steps:-6}" '
    NR == FNR { expected[$1] = $2; next }
    { d = $2 - expected[$1]; if (d < 0) d = -d; if (!($1 in expected) || d > 1e-12 * $2) { print $1 ": " expected[$1] " and " $2; bad = 1 } }
    /^step/ { seen[$1] = 1 }
    END { if (length(seen) != steps) { print length(seen) " steps"; bad = 1 } exit bad }' <(losses "$1") <(losses "$2") ||
    { echo "the losses of $2 are not those of $1"; exit 1; }
}
