// ParallelOptions: [parallel] of a recipe: how many ranks share one replica of the model, and how (layout/mesh.h). Data parallelism is what is
// left of the world. Plain data; declared in parallel_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

// In what order a rank of the pipeline runs the passes of its stages, and which stages it has (layout/pipeline.h).
enum class PipelineSchedule { kGpipe, k1F1B, kInterleaved, kZbH1, kZbV, kDualPipe };
std::vector<std::string_view> names_of(PipelineSchedule);

struct ParallelOptions {
  int64_t tp = 1;   // tensor: heads, inner channels and vocabulary; between mixers the tokens
  int64_t pp = 1;   // pipeline: layers
  int64_t cp = 1;   // context: tokens of a sequence, zig-zag
  int64_t ep = 1;   // experts, over ranks that data, context and tensor parallelism have
  int64_t etp = 1;  // tensors of one expert
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t chunks = 1;                   // stages on a rank, where the schedule leaves it open
  std::vector<int64_t> stage_layers{};  // layers of each stage; empty: as even as possible
  bool one_process() const { return tp * pp * cp * ep * etp == 1; }
  bool operator==(const ParallelOptions&) const = default;
};

void declare(OptionSet& set, ParallelOptions& parallel);

}  // namespace longhaul::recipe
