// What training takes of memory, before anything is allocated: bytes by purpose at the moments of a step that can be its fullest. Closed
// formulas over shapes, microseconds a model: a search may ask for thousands. What a module keeps for its backward pass is in
// memory_layers.h, what operators take for their work in memory_workspace.h; docs/design/memory.md says where each term comes from.
//
//   const MemoryPlan plan = plan_memory({.model = config, .micro_batch = 4, .sequence = 2048, .threads = 8});
//   plan.peak();                                  // the sum at the fullest moment
//   plan.peaks()[MemoryPurpose::kActivations];    // the most of one purpose, whenever that is
//
// tests/run/memory_test.cpp demands 5 % of what the allocator counts on a CPU in bf16 and fp32, for the sum and every purpose of weight. Of a GPU, and in fp64, which other operators compute, it is an estimate. Bytes are doubles: no request overflows them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/memory/memory_purpose.h"
#include "recipe/architecture/model_config.h"
#include "recipe/sections/optim_options.h"
#include "recipe/sections/train_options.h"

namespace longhaul::plan {

struct MemoryRequest {
  recipe::ModelConfig model;
  recipe::Dtype dtype = recipe::Dtype::kBf16;
  recipe::OptimOptions optimizer{};
  int64_t batch = 1;        // sequences a step
  int64_t micro_batch = 1;  // sequences at once
  int64_t sequence = 512;   // tokens
  int64_t documents = 0;    // in a micro-batch; 0: every sequence is one
  recipe::Recompute recompute = recipe::Recompute::kNone;
  bool offload = false;  // what layers keep lies in a file between the passes (train.offload)
  bool elastic = false;  // sums of micro-batches wait beside the gradients (layout/sum_tree.h)
  int64_t prefetch = 0;  // steps whose tokens are prepared ahead
  int64_t threads = 1;
  bool saves_between = true;  // checkpoints on the way, not only at the end
  int64_t checkpoint_copies =
      1;  // sets of buffers: two where one may be on its way to the disk while the next goes into memory (checkpoint/disk/copy_out.h)
  bool evaluates = true;
  bool keys_apart = false;  // of a rank with copies of heads that each serve a group: those have a product of their own
  bool on_gpu = false;      // weights and activations are in a GPU's memory, data and the checkpoint's copy in the host's
  // Of the processor, as far as the kernels' choices depend on it.
  int64_t l2_bytes = 0;
  double products_per_second = 5e10;  // FLOPs of one thread in the recurrence's products (kernels/linear_recurrence/cpu/cpu.h)

  double tokens() const { return static_cast<double>(micro_batch) * static_cast<double>(sequence); }
  double documents_at_once() const { return static_cast<double>(documents > 0 ? documents : micro_batch); }
};

inline constexpr int64_t kLeastOffloaded =
    int64_t{64} << 10;  // bytes; what is smaller train.offload leaves in memory: not worth two calls of the system

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
  double communication = 0;  // of processes: workspace that is there now and then, the parts of a sum; at no moment that is known
  double not_tensors = 0;    // beside them, in the host's memory: the loader's batches, which the allocator does not see

  const MemoryMoment& fullest() const;  // at least one
  double peak() const { return fullest().bytes.total(); }
  double device_peak() const;  // of a GPU: without data and the checkpoint's copy, which are in the host's memory
  PurposeBytes peaks() const;  // each purpose's own
};

int64_t whole_bytes(double bytes);  // for events and texts; what is beyond int64 is its largest

MemoryPlan plan_memory(const MemoryRequest& request);

// What decoding keeps of one sequence: recurrence states, whatever its length, and keys and values of every token (in pages of 256).
struct DecodingState {
  double bytes = 0, bytes_per_token = 0;
};
DecodingState decoding_state(const recipe::ModelConfig& model, recipe::Dtype dtype);

}  // namespace longhaul::plan
