// ParallelMethod: what others must know of one way in which ranks share the work of a model, as integers and
// bytes: what has to come out even, what a rank sends for a layer, and the layouts with which `prove` tries
// it. The entries are in the files beside this one, and are listed once, in methods.cpp. These ask them:
//
//   plan      which layouts a search may try (plan/search), and the time of exchanges (plan/step_time.cpp)
//   parallel  what is refused before a run starts (parallel/pipeline/arrangement.cpp)
//   control   how many islands of an outer loop are left without some nodes (control/widths.cpp)
//   prove     the layouts that it tries (prove/prove_layouts.cpp)
//   bench     the bytes that `longhaul bench communication` counts beside these formulas
//
// A rule is about numbers alone. The exact cut of each tensor is layout::placement_of's, and the sizes of the
// groups are Mesh's, which refuse the same numbers with the tensor's name (tests/layout/methods_test.cpp
// compares them). Plain data and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/sections/parallel_options.h"

namespace longhaul::layout {

// SharedWork: the numbers of a model and of its step that ranks divide.
struct SharedWork {
  int64_t layers = 1, heads = 1, key_heads = 1;
  // What divides the heads of every recurrence and delta rule; 0: the model has none.
  int64_t linear_heads = 0;
  int64_t experts = 0;
  int64_t batch = 1;  // sequences of a step
  // Experts judge all sequences of a step together, so one rank has to see all of them.
  bool judges_batch = false;
};

// RankSizes: among how many ranks.
struct RankSizes {
  int64_t world = 1;  // of one island
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  int64_t chunks = 1;  // stages on a rank
  int64_t micro_batch = 1;
  recipe::PipelineSchedule schedule = recipe::PipelineSchedule::k1F1B;
  recipe::ContextOptions context{};
  recipe::Dispatcher dispatcher = recipe::Dispatcher::kAllToAll;
  int64_t stage_ranks() const { return dp * tp * cp; }
  int64_t micro_batches(int64_t batch) const { return batch / (dp * micro_batch); }
};

// EvenRule: numbers that have to come out even.
struct EvenRule {
  std::string_view broken;  // why a layout is refused, for people: "experts cannot be dealt out"
  bool (*holds)(const SharedWork& work, const RankSizes& ranks);
  std::string (*numbers)(const SharedWork& work, const RankSizes& ranks);  // those that do not fit
};

// LayerBytes: what ranks exchange of one layer in the forward pass of one micro-batch, in bytes.
struct LayerBytes {
  double hidden = 0;  // hidden states of the tokens that a context rank has, all channels
  // These are for the heads that a tensor rank has: keys and values of all tokens of the sequence, queries
  // likewise (results are as large), and what linear layers read and give of all tokens of the sequence; of
  // one piece of the row the states of recurrences, those of delta rules, which every rank gathers, and those
  // of whole documents, which ranks sum.
  double keys = 0, queries = 0, linear_rows = 0, states = 0, delta_states = 0, summed_states = 0;
  double rows_per_token = 0;  // experts of a token
  double imbalance = 1;       // rows of the busiest expert / mean
  double chance = 1;          // that a token has any of its experts on a given rank
};

// SentBytes: what a rank sends in that pass, and within one expert's tensor ranks behind that.
struct SentBytes {
  double sent = 0, within_expert = 0;
};

struct ParallelMethod {
  std::string_view name;  // "tensor parallelism"
  std::span<const EvenRule* const> rules{};
  SentBytes (*sent)(const LayerBytes& layer, const RankSizes& ranks) = nullptr;  // null: nothing in a layer
  std::vector<recipe::ParallelOptions> (*proved)() = nullptr;
};

}  // namespace longhaul::layout
