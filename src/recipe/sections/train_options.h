// TrainOptions: [train] of a recipe: the loop: how long, how much per step, on what, when to save and evaluate, and what to do
// when something goes wrong. Plain data; ranges and sentences are declared in train_options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

enum class Dtype { kBf16, kFp32, kFp64 };
std::vector<std::string_view> names_of(Dtype);

// Which activations are dropped after their forward pass and made again before they are used (docs/design/recomputation.md).
enum class Recompute { kNone, kSelective, kFull };
std::vector<std::string_view> names_of(Recompute);

// Where activations lie between the passes.
enum class Offload { kNone, kFile };
std::vector<std::string_view> names_of(Offload);

// What is predicted at a token: the one behind it, or, where it was masked, itself.
enum class Objective { kNext, kMasked };
std::vector<std::string_view> names_of(Objective);

struct TrainOptions {
  std::string task = "pretrain";
  Objective objective = Objective::kNext;
  double masked_share = 0.15;   // of the tokens, of kMasked
  int64_t steps = 1000;         // of the whole run, resumed parts included
  int64_t seed = 0;             // of initialisation and every random stream but the data order
  Dtype dtype = Dtype::kBf16;   // working precision; master weights and moments are fp32 (fp64 when this is fp64)
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  int64_t threads = 0;          // compute threads; 0: all usable cores

  int64_t batch = 8;        // sequences per optimizer step
  int64_t micro_batch = 8;  // sequences per forward and backward pass; divides batch
  int64_t sequence = 512;   // tokens per sequence
  Recompute recompute = Recompute::kNone;
  Offload offload = Offload::kNone;
  std::string offload_folder;  // of kFile; empty: data.cache
  bool elastic = false;        // the same bits whatever the number of replicas (docs/design/elastic.md)

  int64_t checkpoint_every = 500;     // steps; 0: only at the end and when asked; -1: as often as measured costs and failures say
  int64_t checkpoint_keep = 3;        // newest checkpoints kept; 0: all
  int64_t checkpoint_keep_every = 0;  // besides, keep those whose step is a multiple of this; 0: none
  bool checkpoint_self_test = false;  // read every checkpoint back and compare checksums
  double mean_hours_to_failure = 24;  // of the whole job, before it has shown its own; for checkpoint_every = -1

  int64_t checkpoint_memory_every =
      -1;  // steps between checkpoints in the memory of nodes; 0: never; -1: as often as a hundredth of the time allows
  int64_t checkpoint_replicas = 1;     // copies of each on other nodes
  double checkpoint_replica_rate = 0;  // MB/s that a rank sends of them; 0: as fast as it goes

  int64_t evaluate_every = 500;      // steps; 0: never
  int64_t evaluate_tokens = 262144;  // of the held-out part, in the evaluations on the way; 0: all. The last one reads all

  std::string until_time;  // save and stop at "2026-11-21T04:00", "04:00" (local), or "+90m" after the start; empty: no limit
  int64_t log_every = 1;   // steps between lines on the terminal; events are written for every step

  bool skip_nonfinite = true;    // a step whose loss or gradient is NaN or Inf changes nothing; it is counted and reported
  int64_t nonfinite_limit = 10;  // skipped steps in a row after which the run ends with exit code 67

  int64_t micro_batches() const { return batch / micro_batch; }
  int64_t tokens_per_step() const { return batch * sequence; }
  bool operator==(const TrainOptions&) const = default;
};

void declare(OptionSet& set, TrainOptions& train);

// The moment train.until_time names, in Unix seconds. Empty text: 0 (no limit). "HH:MM" is the next such time after now.
// Throws kUsage for anything else than the three forms.
double parse_until_time(std::string_view text, double now_unix_s);

}  // namespace longhaul::recipe
