// Pipeline: which stages of the model are on which ranks. A stage is a run of layers; the first also has the
// embedding, the last the head. Each rank holds `chunks()` of them, chunk 0, 1, …:
//
//   gpipe, 1f1b, zb-h1   one: rank r has stage r
//   interleaved          v: chunk c of rank r is stage c·p + r, so a micro-batch passes all ranks v times
//   zbv                  two: stage r, and from the end stage 2p − 1 − r: a V, with both ends on rank 0
//   dualpipe             two of p stages: r and p − 1 − r, so each stage is on two ranks; half of the
//                        micro-batches enter at each end
//
// Pure integers. Sources: docs/sources/megascale.md §10.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/split.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::layout {

using recipe::PipelineOptions;
using recipe::PipelineSchedule;

// Hop: one stage on one rank.
struct Hop {
  int64_t rank = 0, chunk = 0;
  bool operator==(const Hop&) const = default;
};

class Pipeline {
 public:
  Pipeline() : Pipeline(1) {}
  // kUsage error where they do not fit together.
  explicit Pipeline(int64_t ranks, PipelineOptions options = {});

  int64_t ranks() const { return ranks_; }
  int64_t chunks() const { return chunks_; }
  int64_t stages() const { return stages_; }
  PipelineSchedule schedule() const { return options_.schedule; }
  bool pairs_in_turns() const { return options_.pairs_in_turns; }
  int64_t stage_of(Hop hop) const;
  std::vector<int64_t> ranks_of(int64_t stage) const;  // the ranks that hold it, ascending
  Range layers_of(int64_t stage, int64_t layers) const;
  int64_t stage_with(int64_t layer, int64_t layers) const;  // the stage that contains the layer

  // The number of routes of micro-batches through all stages, from the first to the last: two if half of them
  // enter at each end, else one.
  int64_t routes() const { return options_.schedule == PipelineSchedule::kDualPipe ? 2 : 1; }
  Hop hop(int64_t route, int64_t stage) const;

 private:
  int64_t ranks_, chunks_, stages_;
  PipelineOptions options_;
};

// Of each of the model's layers, whether it is one of the first `first` of its stage; 0: every layer is.
std::vector<bool> first_of_stages(const Pipeline& pipeline, int64_t layers, int64_t first);

}  // namespace longhaul::layout
