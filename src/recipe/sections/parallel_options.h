// ParallelOptions: [parallel] of a recipe: how many ranks share one replica of the model, and how
// (layout/mesh.h). The remaining factor of the world size is data parallelism. Plain data; declared in
// parallel_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

// How the tokens of a sequence are distributed over context ranks, and how these compute together
// (docs/design/parallel.md).
enum class ContextSplit { kContiguous, kZigzag, kStriped };
enum class ContextMethod { kRing, kAllGather, kUlysses, kTwoLevel };       // for softmax layers
enum class LinearContextMethod { kRing, kAllGather, kAllScan, kUlysses };  // for linear layers
// The names in recipes, in the order of the values.
std::vector<std::string_view> names_of(ContextSplit);
std::vector<std::string_view> names_of(ContextMethod);
std::vector<std::string_view> names_of(LinearContextMethod);

struct ContextOptions {
  ContextMethod softmax = ContextMethod::kAllGather;
  LinearContextMethod linear = LinearContextMethod::kAllGather;
  ContextSplit split = ContextSplit::kZigzag;
  bool operator==(const ContextOptions&) const = default;
};

// The order in which a pipeline rank runs the passes of its stages, and which stages it has
// (layout/schedule/pipeline.h).
enum class PipelineSchedule { kGpipe, k1F1B, kInterleaved, kZbH1, kZbV, kDualPipe };
std::vector<std::string_view> names_of(PipelineSchedule);

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t chunks = 1;  // interleaved: stages per rank
  // Layers of each stage; empty: as even as possible, earlier stages one more.
  std::vector<int64_t> stage_layers{};
  bool pairs_in_turns = false;  // joined passes take turns (ParallelOptions::arranged_pipeline)
  bool operator==(const PipelineOptions&) const = default;
};

// Whether ranks are threads of one process or processes, and over what processes exchange. run/backend.h
// decides at the start of a run which of these are available, and what kAuto stands for.
enum class Backend { kAuto, kThreads, kGloo, kNccl };
std::vector<std::string_view> names_of(Backend);

// How tokens reach the experts of other ranks, and what overlaps with it (docs/design/parallel.md).
enum class Dispatcher { kAllToAll, kAllGather, kFlex };
std::vector<std::string_view> names_of(Dispatcher);

struct ExpertOptions {
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  bool padded = false;       // pads the rows sent to experts to numbers that depend on the layout only
  int64_t token_groups = 1;  // Groups of a rank's tokens: while one is being sent, another is computed.
  // Compute gradients of experts' weights only after the gradients of their rows have been sent.
  bool delay_gradients = false;
  bool operator==(const ExpertOptions&) const = default;
};

struct ParallelOptions {
  Backend backend = Backend::kAuto;
  int64_t ranks = 0;  // Ranks of the run; 0: as many as one replica needs, or each island.
  // Islands of an outer loop, each with the same number of consecutive ranks; 0: every replica is one.
  int64_t workers = 0;
  double join_timeout = 300;  // in seconds, for all processes to join
  double timeout = 600;       // in seconds, for all ranks to enter a call
  int64_t tp = 1;             // tensor: heads, inner channels and vocabulary; between mixers the tokens
  // Parts in which tensor ranks exchange the tokens of a block: while one is being sent, another is computed.
  int64_t tp_chunks = 1;
  int64_t pp = 1;   // pipeline: layers
  int64_t cp = 1;   // context: tokens of a sequence
  int64_t ep = 1;   // experts, over ranks of data, context and tensor parallelism
  int64_t etp = 1;  // tensors of one expert
  // Instead of a copy each rank keeps a share: 1 of optimizer states, 2 of gradients too, 3 of weights too.
  int64_t zero = 0;
  int64_t zero_copies = 1;  // copies of all shares: groups of data ranks, each of which has all shares
  ContextOptions context;
  PipelineOptions pipeline;
  ExpertOptions experts;
  // dualpipe: one pass of a pair computes while the other exchanges rows with experts.
  bool pairs_in_turns = true;
  // With pairs_in_turns set if it is wanted and the passes exchange rows.
  PipelineOptions arranged_pipeline() const;
  int64_t needed() const;  // the fewest ranks for these sizes: pp times a common multiple of cp·tp and ep·etp
  int64_t world() const;
  bool operator==(const ParallelOptions&) const = default;
};

void declare(OptionSet& set, ParallelOptions& parallel);

}  // namespace longhaul::recipe
