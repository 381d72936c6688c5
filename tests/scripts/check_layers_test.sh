#!/usr/bin/env bash
# scripts/check-layers must accept a clean tree and name each planted violation. Usage: check_layers_test.sh SOURCE_ROOT
set -euo pipefail
source "$(dirname "$0")/planted_tree.sh"

plant_clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/docs/design "$tree"/src/{base/threads,recipe,tensor,train}
  cp "$source_root/docs/design/folders.md" "$tree/docs/design/"
  printf '#include <unistd.h>\n#include <thread>\nstd::thread worker;\n' >"$tree/src/base/threads/worker.cpp"
  printf '#include "base/error.h"\n#include <vector>\n// a std::thread would be wrong here\n' >"$tree/src/recipe/load.cpp"
  printf '#include <ATen/ATen.h>\n#include "recipe/load.h"\n#include "tensor/device.h"\n' >"$tree/src/tensor/device.cpp"
  printf 'longhaul_folder(tensor LINKS longhaul_base longhaul_torch)  # not longhaul_train\n' >"$tree/src/tensor/CMakeLists.txt"
  printf 'longhaul_folder(recipe LINKS longhaul_base)\n' >"$tree/src/recipe/CMakeLists.txt"
}

# expect NAME TEXT FILE LINE: the clean tree with LINE added to FILE fails, and the report holds FILE and TEXT.
expect() {
  local name=$1 text=$2 file=$3 line=$4
  plant_clean_tree
  mkdir -p "$(dirname "$tree/$file")"
  printf '%s\n' "$line" >>"$tree/$file"
  expect_report check-layers "$name" "*$file:*$text*"
}

expect_silence check-layers
expect 'include from below' 'src/train stands below' src/recipe/load.cpp '#include "train/step.h"'
expect 'include without folder' 'write "recipe/value.h"' src/recipe/load.cpp '#include "value.h"'
expect 'include of nothing' 'no src/nowhere' src/recipe/load.cpp '#  include "nowhere/x.h"'
expect 'link from below' 'links longhaul_tensor' src/recipe/CMakeLists.txt 'target_link_libraries(x longhaul_tensor)'
expect 'LibTorch on the ground floor' 'includes LibTorch' src/recipe/load.cpp '#include <ATen/ATen.h>'
expect 'LibTorch linked on the ground floor' 'links LibTorch' src/recipe/CMakeLists.txt 'target_link_libraries(x longhaul_torch)'
expect 'system header' 'only in src/base' src/train/step.cpp '#include <sys/mman.h>'
expect 'thread header' 'only in src/base' src/tensor/device.h '#include <thread>'
expect 'own thread' 'makes a thread' src/train/step.cpp '  std::thread watcher([] {});'
expect 'prints past the two ways' 'prints by itself' src/train/step.cpp '  fmt::print(stderr, "{}", 1);'
expect 'cerr' 'prints by itself' src/train/step.cpp '  std::cerr << 1;'
expect 'unknown folder' 'not in the table' src/misc/stuff.cpp 'int x;'

plant_clean_tree
for ((i = 0; i < 500; i++)); do echo "int x$i;"; done >>"$tree/src/train/step.cpp"
if output=$("$source_root/scripts/check-layers" "$tree" 2>&1) && [[ $output == *"step.cpp: warning: 500 lines"* ]]; then
  echo "ok     long file is warned of"
else
  echo "FAILED long file: $output"
  failures=$((failures + 1))
fi
exit $((failures > 0))
