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

losses() { sed -nE 's/.*"event":"(step|evaluation)".*"loss":([-+.e0-9]+).*/\1 \2/p' "$1/events.jsonl"; }

# The same number of steps and evaluations, and their losses within 1e-12 of each other.
require_same_losses() {  # require_same_losses ONE OTHER
  paste -d ' ' <(losses "$1") <(losses "$2") | awk '
    { d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > 1e-12 * $2) { print "line " NR ": " $0; bad = 1 } }
    END { if (NR < 8) { print NR " losses"; bad = 1 }; exit bad }' || { echo "the losses of $2 are not those of $1"; exit 1; }
}
