// The memory plan of training, made before anything is allocated: bytes by purpose at those moments of a step
// that can be the fullest. The formulas are closed expressions in shapes and take microseconds per model,
// because a search evaluates thousands. memory_layers.h has what a module keeps for its backward pass,
// memory_workspace.h what operators need while they run; docs/design/memory.md says where each term comes
// from.
//
//   const MemoryPlan plan = plan_memory({.model = config, .micro_batch = 4, .sequence = 2048, .threads = 8});
//   plan.peak();                                  // the sum at the fullest moment
//   plan.peaks()[MemoryPurpose::kActivations];    // the largest value of one purpose at any moment
//
// tests/run/memory/memory_test.cpp requires agreement within 5 % with the allocator's counts on a CPU in
// bf16 and fp32, for the sum and for every large purpose. On a GPU, and in fp64, which uses other operators,
// it is an estimate. Bytes are doubles, so that no request overflows them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/memory/memory_purpose.h"
#include "recipe/architecture/model_config.h"
#include "recipe/sections/optim_options.h"
#include "recipe/sections/train_options.h"

namespace longhaul::plan {

class WeightPasses;  // plan/memory/weight_passes.h

struct MemoryRequest {
  recipe::ModelConfig model;
  recipe::Dtype dtype = recipe::Dtype::kBf16;
  recipe::OptimOptions optimizer{};
  int64_t batch = 1;        // sequences per step
  int64_t micro_batch = 1;  // sequences in one pass
  int64_t sequence = 512;   // tokens
  int64_t documents = 0;    // in a micro-batch; 0: every sequence is one document
  recipe::Recompute recompute = recipe::Recompute::kNone;
  int64_t recompute_layers = 0;  // of each stage so many, the first ones, are recomputed; 0: all
  // What layers keep is in a file or on the host between the passes (train.offload).
  bool offload = false, to_host = false;
  std::optional<double> host_share{};  // of rows; none: chosen while the run goes on
  int64_t host_memory = 0;             // bytes of the host at most, the rest goes to a file; 0: no limit
  bool elastic = false;  // sums of micro-batches wait in addition to the gradients (layout/sum_tree.h)
  int64_t prefetch = 0;  // steps whose tokens are prepared ahead
  int64_t threads = 1;
  bool saves_between = true;  // checkpoints during the run, not only at the end
  // Sets of buffers: two if one may be on its way to the disk while the next checkpoint goes into memory
  // (checkpoint/disk/copy_out.h).
  int64_t checkpoint_copies = 1;
  bool evaluates = true;
  // Key heads have a matrix product of their own: for a rank with copies of heads that each serve a group.
  bool keys_apart = false;
  // Weights and activations are in a GPU's memory, data and the checkpoint's copy in the host's.
  bool on_gpu = false;
  // Of the processor, if the kernels' choices depend on it.
  int64_t l2_bytes = 0;
  // Which products are computed where tensors are frozen; null: all. plan_memory and exact_rank_memory fill
  // it in.
  std::shared_ptr<const WeightPasses> passes{};
  std::vector<int64_t> layer_numbers{};  // of the request's layers in the whole model; empty: 0, 1, 2, …
  // FLOPs of one thread in the recurrence's products (kernels/linear_recurrence/cpu/cpu.h).
  double products_per_second = 5e10;

  double tokens() const { return static_cast<double>(micro_batch) * static_cast<double>(sequence); }
  double documents_at_once() const { return static_cast<double>(documents > 0 ? documents : micro_batch); }
};

// In bytes; smaller tensors stay in memory with train.offload, because they are not worth two system calls.
inline constexpr int64_t kLeastOffloaded = int64_t{64} << 10;

class PurposeBytes {
 public:
  double& operator[](MemoryPurpose purpose) { return bytes_[static_cast<size_t>(purpose)]; }
  double operator[](MemoryPurpose purpose) const { return bytes_[static_cast<size_t>(purpose)]; }
  double total() const;

 private:
  std::array<double, kMemoryPurposes> bytes_{};
};

struct MemoryMoment {
  std::string name;  // "loss", "backward of layer 3, mixer", "evaluation and last save"
  PurposeBytes bytes;
};

struct MemoryPlan {
  std::vector<MemoryMoment> moments;
  // Workspace of processes that exists now and then, such as the parts of a sum, at unknown moments.
  double communication = 0;
  // Host memory in addition to tensors: the loader's batches, which the allocator does not see.
  double not_tensors = 0;

  const MemoryMoment& fullest() const;  // there is at least one moment
  double peak() const { return fullest().bytes.total(); }
  // On a GPU: without data and the checkpoint's copy, which are in the host's memory.
  double device_peak() const;
  PurposeBytes peaks() const;  // the peak of each purpose
};

int64_t whole_bytes(double bytes);  // for events and texts; values beyond int64 become its maximum

MemoryPlan plan_memory(const MemoryRequest& request);

// DecodingState: the memory of one sequence in decoding: recurrence states, whatever its length, and keys and
// values of every token (in pages of 256).
struct DecodingState {
  double bytes = 0, bytes_per_token = 0;
};
DecodingState decoding_state(const recipe::ModelConfig& model, recipe::Dtype dtype);

}  // namespace longhaul::plan
