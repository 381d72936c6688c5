// ParallelOptions: [parallel] of a recipe: how many ranks share one replica of the model, and how (layout/mesh.h). Data parallelism is what is
// left of the world. Plain data; declared in parallel_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

// How the tokens of a sequence are dealt out to context ranks, and how these compute together (docs/design/parallel.md).
enum class ContextSplit { kContiguous, kZigzag };
enum class ContextMethod { kRing, kAllGather, kUlysses, kTwoLevel };  // of softmax layers
enum class LinearContextMethod { kRing, kAllGather, kAllScan };       // of linear layers
// Names as written in recipes, in the order of the values.
std::vector<std::string_view> names_of(ContextSplit);
std::vector<std::string_view> names_of(ContextMethod);
std::vector<std::string_view> names_of(LinearContextMethod);

struct ContextOptions {
  ContextMethod softmax = ContextMethod::kAllGather;
  LinearContextMethod linear = LinearContextMethod::kAllGather;
  ContextSplit split = ContextSplit::kZigzag;
  bool operator==(const ContextOptions&) const = default;
};

// In what order a rank of the pipeline runs the passes of its stages, and which stages it has (layout/schedule/pipeline.h).
enum class PipelineSchedule { kGpipe, k1F1B, kInterleaved, kZbH1, kZbV, kDualPipe };
std::vector<std::string_view> names_of(PipelineSchedule);

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t chunks = 1;                   // interleaved: stages on a rank
  std::vector<int64_t> stage_layers{};  // layers of each stage; empty: as even as possible, earlier stages one more
  bool pairs_in_turns = false;          // joined passes take turns (ParallelOptions::arranged_pipeline)
  bool operator==(const PipelineOptions&) const = default;
};

// What the ranks are: threads of one process, or processes. Which of them can be had is known where a run begins (run/backend.h).
enum class Backend { kThreads, kGloo, kNccl };
std::vector<std::string_view> names_of(Backend);

// How tokens reach the experts of other ranks, and what goes on meanwhile (docs/design/parallel.md).
enum class Dispatcher { kAllToAll, kAllGather, kFlex };
std::vector<std::string_view> names_of(Dispatcher);

struct ExpertOptions {
  Dispatcher dispatcher = Dispatcher::kAllToAll;
  bool padded = false;           // rows go to experts in numbers that the layout alone fixes
  int64_t token_groups = 1;      // in which a rank's tokens go, one under way while another is computed
  bool delay_gradients = false;  // of experts' weights, until the gradients of their rows are on their way
  bool operator==(const ExpertOptions&) const = default;
};

struct ParallelOptions {
  Backend backend = Backend::kThreads;
  int64_t ranks = 0;          // of the run; 0: as many as one replica needs, or each of the workers
  int64_t workers = 0;        // of an outer loop: islands of as many ranks, in their order; 0: every replica is one
  double join_timeout = 300;  // s, for all processes to come
  double timeout = 600;       // s, for all ranks of a call to come to it
  int64_t tp = 1;             // tensor: heads, inner channels and vocabulary; between mixers the tokens
  int64_t tp_chunks = 1;      // parts in which tensor ranks exchange the tokens of a block, one under way while another is computed
  int64_t pp = 1;             // pipeline: layers
  int64_t cp = 1;             // context: tokens of a sequence
  int64_t ep = 1;             // experts, over ranks that data, context and tensor parallelism have
  int64_t etp = 1;            // tensors of one expert
  int64_t zero = 0;           // of ranks that hold copies each keeps a share: 1 of optimizer state, 2 of gradients too, 3 of weights too
  int64_t zero_copies = 1;    // of all shares: groups of data ranks, each of which has them all
  ContextOptions context;
  PipelineOptions pipeline;
  ExpertOptions experts;
  bool pairs_in_turns = true;  // dualpipe: one of a pair's passes computes while the other's rows are under way to and from experts
  PipelineOptions arranged_pipeline() const;  // whose pairs take turns if that is wished and they exchange rows
  int64_t needed() const;                     // the fewest ranks on which these sizes fit: pp times a common multiple of cp·tp and ep·etp
  int64_t world() const;
  bool operator==(const ParallelOptions&) const = default;
};

void declare(OptionSet& set, ParallelOptions& parallel);

}  // namespace longhaul::recipe
