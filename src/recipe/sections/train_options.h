// TrainOptions: [train] of a recipe: the training loop: how long, how much per step, for which task, when to
// save and evaluate, and how to react to errors. Plain data; ranges and sentences are declared in
// train_options.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

enum class Dtype { kBf16, kFp32, kFp64 };
std::vector<std::string_view> names_of(Dtype);

// Which activations are dropped after the forward pass and recomputed before they are used
// (docs/design/recomputation.md).
enum class Recompute { kNone, kSelective, kTokens, kFull };
std::vector<std::string_view> names_of(Recompute);
// Whether whole layers run a second time, from their inputs.
constexpr bool runs_layers_again(Recompute recompute) {
  return recompute == Recompute::kTokens || recompute == Recompute::kFull;
}

// Where activations are stored between the passes.
enum class Offload { kNone, kHost, kFile };
std::vector<std::string_view> names_of(Offload);

// What is predicted at a token: the next token, or the token itself where it was masked.
enum class Objective { kNext, kMasked };
std::vector<std::string_view> names_of(Objective);

// Training beside a frozen model, of which the trained one learns each token's whole distribution
// (language/teacher.h).
struct DistillOptions {
  std::string from;        // a checkpoint or run folder; empty: none
  double weight = 0.5;     // of its part of the loss; 1 − weight of the labels'
  double temperature = 1;  // by which both models' logits are divided
  double hidden = 0;       // weight of the mean squared distance of the layers' outputs; 0: not compared

  bool wanted() const { return !from.empty(); }
  bool operator==(const DistillOptions&) const = default;
};

struct TrainOptions {
  std::string task = "pretrain";
  Objective objective = Objective::kNext;
  double masked_share = 0.15;  // share of masked tokens, for kMasked
  DistillOptions distill;
  int64_t steps = 1000;  // of the whole run, including the parts before a resume
  int64_t seed = 0;      // for initialisation and every random stream except the data order
  // Working precision; master weights and moments are fp32 (fp64 when this is fp64).
  Dtype dtype = Dtype::kBf16;
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  int64_t threads = 0;          // compute threads; 0: all usable cores

  int64_t batch = 8;        // sequences per optimizer step
  int64_t micro_batch = 8;  // sequences per forward and backward pass; divides batch
  int64_t sequence = 512;   // tokens per sequence
  Recompute recompute = Recompute::kNone;
  int64_t recompute_layers = 0;  // of each pipeline stage so many, the first ones, are recomputed; 0: all
  Offload offload = Offload::kNone;
  std::string offload_folder;  // for kFile; empty: data.cache
  // For kHost: the share of the rows that are stored rather than recomputed: "auto", or a number from 0 to 1.
  std::string offload_share = "auto";
  int64_t offload_memory =
      0;                 // for kHost: bytes of the host's memory; what exceeds them goes to a file; 0: all
  bool arena = false;    // activations of later steps lie at addresses planned from the first step's
  bool elastic = false;  // equal bits for any number of replicas (docs/design/elastic.md)

  // In steps; 0: only at the end and on request; -1: chosen from measured costs and failures.
  int64_t checkpoint_every = 500;
  int64_t checkpoint_keep = 3;        // newest checkpoints kept; 0: all
  int64_t checkpoint_keep_every = 0;  // also keeps those whose step is a multiple of this; 0: none
  bool checkpoint_self_test = false;  // read every checkpoint back and compare checksums
  // For the whole job, before it has had failures of its own; for checkpoint_every = -1.
  double mean_hours_to_failure = 24;

  // Steps between checkpoints in the memory of nodes; 0: never; -1: as often as a hundredth of the time
  // allows.
  int64_t checkpoint_memory_every = -1;
  int64_t checkpoint_replicas = 1;     // copies of each on other nodes
  double checkpoint_replica_rate = 0;  // MB/s at which a rank sends them; 0: no limit

  int64_t evaluate_every = 500;  // steps; 0: never
  // Tokens of the held-out part in evaluations during the run; 0: all. The last one reads all.
  int64_t evaluate_tokens = 262144;

  // Save and stop at "2026-11-21T04:00", "04:00" (local), or "+90m" after the start; empty: no limit.
  std::string until_time;
  int64_t log_every = 1;  // steps between lines on the terminal; events are written for every step

  // A step whose loss or gradient is NaN or Inf changes nothing; it is counted and reported.
  bool skip_nonfinite = true;
  int64_t nonfinite_limit = 10;  // consecutive skipped steps after which the run ends with exit code 67

  int64_t micro_batches() const { return batch / micro_batch; }
  int64_t tokens_per_step() const { return batch * sequence; }
  bool operator==(const TrainOptions&) const = default;
};

void declare(OptionSet& set, TrainOptions& train);

// The number that train.offload_share names; none: "auto". Throws kUsage for all other texts.
std::optional<double> parse_offload_share(std::string_view text);

// The time that train.until_time names, in Unix seconds. Empty text: 0 (no limit). "HH:MM" is the next such
// time after now. Throws kUsage for all other forms.
double parse_until_time(std::string_view text, double now_unix_s);

}  // namespace longhaul::recipe
