// Parameter: what this rank holds of one or several logical tensors. Several share a value where one matrix product serves them
// all (query+key+value, gate+up, all experts of a layer); checkpoints, optimizers and public names see the logical tensors.
//
// `value` is in the working precision, `grad` in the precision of the main gradient; both are allocated once and only written. A parameter
// trains if it has a `grad`: frozen ones, and all of a model made for inference, have none; then nothing computes a gradient of the weight,
// while gradients of inputs flow on. Every product that makes a gradient adds it to sink(), which modules hand to their operators (Linear)
// or reach through use(); so micro-batches add up in `grad` without a temporary.
//
// Memory is made for whole arenas: what a layer's parameters, held by the same ranks, have of values lies together, and so do their
// gradients. An arena is what is summed over ranks at once, and may be as soon as its last gradient of the step is there.
//
//   parameters.begin_step([&](Arena& arena) { …start its reduction… });
//   forward and backward of each micro-batch; before the last one goes backward: parameters.all_announced()
//   parameters.end_step()
//
// Not thread-safe: one trainer, one model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/gradient_sink.h"
#include "kernels/matmul/packed_weight.h"
#include "layout/parameters.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// One logical tensor inside a value.
struct Part {
  layout::ParameterSpec spec;
  layout::Rectangle held;   // the box of the logical tensor that this rank has
  layout::Rectangle slice;  // where it lies in `value`; same volume as `held`, in the same order
  bool first_copy = true;   // no rank before this one holds the same box: it is counted, and written to checkpoints, here
  // How each dimension of the logical tensor is cut: over which axes, and whether this rank is the first of those that differ in them only.
  struct Cut {
    layout::AxisSet over;
    bool first = true;
  };
  std::vector<Cut> cuts{};
};

struct Parameter {
  std::string name;  // of the storage: "layers.3.mixer.qkv.weight"
  std::vector<Part> parts;
  layout::AxisSet gradient_partial_over;  // axes over which the gradient is still a partial sum
  std::vector<int64_t> sizes;             // of the value
  bool frozen = false;
  Tensor value, grad;            // views into the arena; grad: undefined where nothing trains
  uint64_t version = 0;          // raised by written(): packed and gathered copies know when they are stale
  kernels::PackedWeight packed;  // copies of `value` that products read

  // A view of `storage` (value, grad, or anything shaped like them) shaped as part i's held box.
  Tensor part_of(const Tensor& storage, size_t i) const;

  // Whoever writes `value` says so.
  void written() { packed.written(++version); }

  kernels::KeptPacked kept() { return {.copies = &packed, .version = version}; }

  bool trainable() const { return grad.defined(); }

  kernels::GradientFlow flow;
  kernels::GradientSink sink() { return {grad, &flow}; }

  // The value inside autograd: what flows back is added to `grad`. Outside a backward pass it is just the value.
  Tensor use();
};

// Parameters of one layer whose gradients are summed over the same ranks.
struct Arena {
  std::string name;  // "layers.3 over dp"
  std::vector<Parameter*> parameters;
  Tensor values;        // flat, one after the other, each from a multiple of kArenaStep elements on; zeros between them
  Tensor gradients;     // likewise, of those that train; undefined: none does
  int64_t awaited = 0;  // gradients of this step that are not there yet
};
inline constexpr int64_t kArenaStep = 64;

enum class Use { kTraining, kInference };  // inference: no gradients

// All parameters of a model in the order of layout::parameters. add_… while modules are made, then allocate(); nothing before that reads a
// value.
class ParameterSet {
 public:
  // What the rank `place` holds of `specs`, which are those of its stage (layout::parameters_of). Two specs of one name are a bug. A
  // parameter all of whose specs are not trainable is frozen from the start.
  ParameterSet(std::vector<layout::ParameterSpec> specs, Precision precision, at::Device device, Use use = Use::kTraining,
               layout::MeshRank place = {});
  // Makes a parameter whose value holds this rank's boxes of the logical tensors `names`, stacked along dimension 0 in the given order, and
  // finds each in `specs`. Every spec may be taken once.
  Parameter& add_stacked(const std::string& storage_name, const std::vector<std::string>& names);
  // Experts: value [experts of this rank, rows, columns]; names[e] are stacked along the rows of expert e, of all experts.
  Parameter& add_experts(const std::string& storage_name, const std::vector<std::vector<std::string>>& names);
  // Memory for all, zeros. Every spec must have found its module.
  void allocate();
  // Those for which `which` holds do not train from now on: the memory of their gradients is given back. The others' gradients are zero.
  void freeze(const std::function<bool(const Parameter&)>& which);

  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  const std::vector<std::unique_ptr<Arena>>& arenas() const { return arenas_; }  // in the order in which the model uses their first tensor
  const std::vector<layout::ParameterSpec>& specs() const { return specs_; }
  at::Device device() const { return device_; }
  at::TensorOptions wide_options() const { return at::TensorOptions().device(device_).dtype(precision_.reduce); }  // of sums
  const layout::MeshRank& place() const { return place_; }
  // Fills every part from its own stream "init/<logical name>" of `seed`: the same numbers under any fusing or sharding.
  void initialise(uint64_t seed);
  void zero_gradients();

  // One step: `ready` is called for each arena whose gradients of the whole step are there, in the backward pass of the last micro-batch.
  void begin_step(std::function<void(Arena&)> ready);
  void all_announced() { progress_->phase.all_announced = true; }  // the last forward pass of the step is over
  void end_step() { progress_->phase.all_announced = false; }
  // From now on weight gradients are products that wait in `queue`; null: they are computed at once.
  void postpone_gradients(kernels::Postponed* queue) { progress_->phase.postponed = queue; }

  Parameter* holder_of(const std::string& logical_name, size_t* part = nullptr) const;  // null: unknown name

 private:
  struct Place {  // of a logical tensor
    size_t spec = 0;
    bool taken = false;
    Parameter* holder = nullptr;
    size_t part = 0;  // of the holder
  };
  const layout::ParameterSpec& take(const std::string& name);
  Part part_of(const layout::ParameterSpec& spec, Parameter& holder) const;  // without its slice
  struct Progress {
    kernels::BackwardPhase phase;
    std::function<void(Arena&)> ready;
  };
  Parameter& store(std::unique_ptr<Parameter> parameter);
  Arena& arena_of(Parameter& parameter);
  void allocate_gradients();

  std::vector<layout::ParameterSpec> specs_;
  std::unordered_map<std::string, Place> places_;  // by logical name
  Precision precision_;
  at::Device device_;
  Use use_;
  layout::MeshRank place_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<std::unique_ptr<Arena>> arenas_;
  std::unique_ptr<Progress> progress_ = std::make_unique<Progress>();  // what the parameters' flows point to
};

}  // namespace longhaul::model
