// Pipeline: which stages of the model lie on which ranks. A stage is a run of layers; the first has the embedding too, the last the head. Each
// rank holds `chunks()` of them, chunk 0, 1, …:
//
//   gpipe, 1f1b, zb-h1   one: rank r has stage r
//   interleaved          v: chunk c of rank r is stage c·p + r, so a micro-batch goes round v times
//   zbv                  two: stage r, and from the end stage 2p − 1 − r: a V, both ends on rank 0
//   dualpipe             two of p stages: r and p − 1 − r, so each stage lies on two ranks; half of the micro-batches enter at each end
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

// One stage on one rank.
struct Hop {
  int64_t rank = 0, chunk = 0;
  bool operator==(const Hop&) const = default;
};

class Pipeline {
 public:
  Pipeline() : Pipeline(1) {}
  explicit Pipeline(int64_t ranks, PipelineOptions options = {});  // kUsage error where they do not go together

  int64_t ranks() const { return ranks_; }
  int64_t chunks() const { return chunks_; }
  int64_t stages() const { return stages_; }
  PipelineSchedule schedule() const { return options_.schedule; }
  bool pairs_in_turns() const { return options_.pairs_in_turns; }
  int64_t stage_of(Hop hop) const;
  std::vector<int64_t> ranks_of(int64_t stage) const;  // that hold it, ascending
  Range layers_of(int64_t stage, int64_t layers) const;
  int64_t stage_with(int64_t layer, int64_t layers) const;  // the one that has it

  // The ways of micro-batches through all stages, from the first to the last; two where half of them enter at each end, else one.
  int64_t routes() const { return options_.schedule == PipelineSchedule::kDualPipe ? 2 : 1; }
  Hop hop(int64_t route, int64_t stage) const;

 private:
  int64_t ranks_, chunks_, stages_;
  PipelineOptions options_;
};

}  // namespace longhaul::layout
