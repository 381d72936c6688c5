// ParallelOptions: [parallel] of a recipe: how many ranks share one replica of the model, and how (layout/mesh.h). Data parallelism is what is
// left of the world. Plain data; declared in parallel_options.cpp.
#pragma once

#include <cstdint>

namespace longhaul::recipe {

class OptionSet;

struct ParallelOptions {
  int64_t tp = 1;   // tensor: heads, inner channels and vocabulary; between mixers the tokens
  int64_t pp = 1;   // pipeline: layers
  int64_t cp = 1;   // context: tokens of a sequence, zig-zag
  int64_t ep = 1;   // experts, over ranks that data, context and tensor parallelism have
  int64_t etp = 1;  // tensors of one expert
  bool one_process() const { return *this == ParallelOptions{}; }
  bool operator==(const ParallelOptions&) const = default;
};

void declare(OptionSet& set, ParallelOptions& parallel);

}  // namespace longhaul::recipe
