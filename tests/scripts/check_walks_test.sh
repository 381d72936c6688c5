#!/usr/bin/env bash
# scripts/check-walks must accept a page whose walk is true and must name each row that is not. Usage: check_walks_test.sh SOURCE_ROOT
set -euo pipefail
source "$(dirname "$0")/planted_tree.sh"

plant_clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/docs/design "$tree"/src/{train,model}
  cat >"$tree/src/train/loop.cpp" <<'CODE'
#include "train/loop.h"
void Loop::run() { while (go_on()) one_step({.lr = rate(1)}); }
void Loop::one_step(const Options& options, const std::function<void(int)>& ready) {
  model_.forward(options);  // then backward(), and never() at the end
  return finish(options);
}
bool Loop::never() { return false; }
CODE
  cat >"$tree/src/model/decoder.cpp" <<'CODE'
struct Stage {
  Tensor forward(const Tensor& x) const override { return layer_of(x); }
};
static Tensor layer_of(const Tensor& x) { return x; }
struct Other;
Decoder::Decoder(int size) : size_(size), all_(make(size)) { log("layer_of_text()"); }
CODE
  printf 'void Server::listen() { accept(); }\n' >"$tree/src/train/server.cpp"
  walk '| 1 | `Loop::run` | `train/loop.cpp` | all steps |' '| 2 | `Loop::one_step` | `train/loop.cpp` | one |' \
    '| 3 | `Stage::forward` | `model/decoder.cpp` | called by its base |' '| 4 | `layer_of` | `model/decoder.cpp` | a layer |' \
    '| 5 | `Decoder::Decoder` | `model/decoder.cpp` | made before |' \
    '| 6 | `Server::listen` | `train/server.cpp` | in another process: a message comes |'
}

walk() {  # walk ROW…: the page has a table of these rows
  { printf '# Walk\n| | function | file | what |\n|---|---|---|---|\n' && printf '%s\n' "$@"; } >"$tree/docs/design/walk.md"
}

# expect TEXT ROW…: the clean tree whose page has these rows fails, and the report holds TEXT.
expect() {
  local text=$1
  shift
  plant_clean_tree
  walk "$@"
  expect_report check-walks "$text" "docs/design/walk.md:*$text"
}

first='| 1 | `Loop::run` | `train/loop.cpp` | all steps |'
expect_silence check-walks
expect "4: there is no file src/train/lost.cpp" '| 1 | `Loop::run` | `train/lost.cpp` | all steps |'
expect "4: src/train/loop.cpp does not define Loop::walk" '| 1 | `Loop::walk` | `train/loop.cpp` | all steps |'
expect "4: src/train/loop.cpp does not define Other::run" '| 1 | `Other::run` | `train/loop.cpp` | of another class |'
expect "4: src/train/loop.cpp does not define go_on" '| 1 | `go_on` | `train/loop.cpp` | only called there |'
expect "4: src/train/loop.cpp does not define finish" '| 1 | `finish` | `train/loop.cpp` | called at the end of a function |'
expect "4: src/model/decoder.cpp does not define Other::forward" '| 1 | `Other::forward` | `model/decoder.cpp` | of a class that stands elsewhere |'
expect "4: src/model/decoder.cpp does not define layer_of_text" '| 1 | `layer_of_text` | `model/decoder.cpp` | in a literal |'
expect "5: no file of an earlier row names never" "$first" '| 2 | `Loop::never` | `train/loop.cpp` | called by nobody |'
expect "5: no file of an earlier row names layer_of" "$first" '| 2 | `layer_of` | `model/decoder.cpp` | called further on |'
expect "5: no file of an earlier row names listen" "$first" '| 2 | `Server::listen` | `train/server.cpp` | nobody calls it |'
expect "5: row 3 stands after row 1" "$first" '| 3 | `Loop::one_step` | `train/loop.cpp` | one |'
plant_clean_tree
sed -i 's/one_step/single_step/g' "$tree/src/train/loop.cpp"
expect_report check-walks "a function that got another name" "docs/design/walk.md:5: src/train/loop.cpp does not define Loop::one_step*"
((failures == 0))
