// Parameter: what this rank holds of one or several logical tensors. Several share a value where one matrix
// product serves them all (query+key+value, gate+up, all experts of a layer); checkpoints, optimizers and
// public names see the logical tensors.
//
// `value` is in the working precision, `grad` in the precision of the main gradient; both are allocated once
// and only written. A parameter trains if it has a `grad`: frozen ones, and all of a model made for
// inference, have none; then nothing computes a gradient of the weight, while gradients of inputs flow on.
// Every product that makes a gradient adds it to sink(), which modules hand to their operators (Linear) or
// reach through use(); so micro-batches add up in `grad` without a temporary.
//
// Memory is made for whole arenas: what a layer's parameters, held by the same ranks, have of values lies
// together, and so do their gradients. An arena is what is summed over ranks at once, and may be as soon as
// its last gradient of the step is there.
//
// Of a model made for inference with experts in eight bits (Use::kInt8Experts) the stacked experts have
// `int8` in place of a value, and of one with eight bits by groups (Use::kIntegers) the matrices of products
// have `groups`, with [spikes] those of the layers: nothing trains, saves or exports such a parameter.
//
// Of what several ranks hold copies of each may have a share (ZeRO, layout/shares.h): a run of each arena,
// `own`, whose optimizer state it has alone. Optimizers, norms and checkpoints see the own share of
// everything and nothing else; without ZeRO it is all.
//
//   parameters.begin_step([&](Arena& arena) { …start its reduction… });
//   forward and backward of each micro-batch; before the last one goes backward: parameters.all_announced()
//   parameters.end_step()
//
// Not thread-safe: one trainer, one model.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/gradient_sink.h"
#include "kernels/matmul/int8_weight.h"
#include "kernels/matmul/packed_weight.h"
#include "kernels/spikes/group_weight.h"
#include "layout/parameters.h"
#include "layout/shares.h"
#include "recipe/architecture/spikes.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {
class SpikeStatistics;  // spikes/statistics.h
}

namespace longhaul::model {

class ServedAdapters;

// One logical tensor inside a value.
struct Part {
  layout::ParameterSpec spec;
  layout::Rectangle held;  // the box of the logical tensor that this rank has
  // where it lies in `value`; same volume as `held`, in the same order and without gaps
  layout::Rectangle slice;
  layout::Rectangle own{};  // of `held`, whole rows: this rank's share
  // no rank before this one has the same share: it is counted, and written to checkpoints, here
  bool first_copy = true;
  // How each dimension of the logical tensor is cut into shares: over which axes, and whether this rank is
  // the first of those that differ in them only.
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
  Tensor value, grad;  // views into the arena; grad: undefined where nothing trains
  // raised by written(): packed and gathered copies know when they are stale
  uint64_t version = 0;
  kernels::PackedWeight packed;  // copies of `value` that products read
  // experts in eight bits; then value, own_value and packed stay empty
  std::optional<kernels::Int8Weight> int8;
  std::optional<kernels::GroupWeight> groups;  // the same of matrices that are kept by groups
  bool narrow() const { return int8.has_value() || groups.has_value(); }

  // A view of `storage` (value, grad, or anything shaped like them) shaped as part i's held box.
  Tensor part_of(const Tensor& storage, size_t i) const;

  // This rank's share of it, without ZeRO all: a run of its elements, and views of that run. The views have
  // memory at all times, which values and gradients that are cut over ranks do not.
  layout::Range own;
  Tensor own_value, own_grad;                // [own.length]
  layout::Range own_run_of(size_t i) const;  // where part i's share lies in them
  // a view of something like them, shaped as part i's own box
  Tensor own_part_of(const Tensor& storage, size_t i) const;

  // Part i of what is kept in eight bits becomes `wide`, shaped as its held box.
  void write_narrow(size_t i, const Tensor& wide);

  // Whoever writes `value` says so.
  void written() { packed.written(++version); }

  kernels::KeptPacked kept() { return {.copies = &packed, .version = version}; }

  bool trainable() const { return grad.defined(); }

  kernels::GradientFlow flow;
  kernels::GradientSink sink() { return {grad, &flow}; }

  // The value inside autograd: what flows back is added to `grad`. Outside a backward pass it is just the
  // value.
  Tensor use();
};

// Tensors that stand one below the other, for one product: one parameter, or several where tensor ranks hold
// copies of some (key heads that they outnumber), whose gradients are summed over other ranks than those of
// their neighbours.
struct Stacked {
  std::vector<Parameter*> runs;
  Tensor use() const;  // the rows of all
  const Part& part(size_t i) const;
};

// Who has to know when the parameters of a layer (-1: what is outside the layers) are used: where they are
// cut over ranks their values come before, and their gradients leave after. Told by the Decoder, in the order
// of the passes.
class ParameterWatch {
 public:
  virtual ~ParameterWatch() = default;
  virtual void before_forward(int64_t layer) = 0;
  virtual void after_forward(int64_t layer) = 0;
  virtual bool follows_backward() const = 0;  // whether it wants to be told of the backward pass
  virtual void before_backward(int64_t layer) = 0;
  virtual void after_backward(int64_t layer) = 0;  // not of a layer whose input has no gradient
};

struct Arena;  // model/arena.h

// inference: no gradients; int8 experts: inference with the weights of experts in eight bits; integers: with
// matrices in eight bits by groups, whose inputs are numbers or, with [spikes], counts
enum class Use { kTraining, kInference, kInt8Experts, kIntegers };

// How the matrices of a model's layers read their inputs as counts of spikes ([spikes]); all of them share
// it.
struct Spiking {
  recipe::SpikeOptions options;
  std::shared_ptr<kernels::SpikeStatistics> statistics;  // null: nobody gathers any
};

// All parameters of a model in the order of layout::parameters. add_… while modules are made, then
// allocate(); nothing before that reads a value.
class ParameterSet {
 public:
  ~ParameterSet();
  ParameterSet(ParameterSet&&) noexcept;
  // What the rank `place` holds of `specs`, which are those of its stage (layout::parameters_of). Two specs
  // of one name are a bug. A parameter all of whose specs are not trainable is frozen from the start.
  ParameterSet(std::vector<layout::ParameterSpec> specs, Precision precision, at::Device device,
               Use use = Use::kTraining, layout::MeshRank place = {});
  // Makes a parameter whose value holds this rank's boxes of the logical tensors `names`, stacked along
  // dimension 0 in the given order, and finds each in `specs`. Every spec may be taken once.
  Parameter& add_stacked(const std::string& storage_name, const std::vector<std::string>& names);
  // The same of tensors that may lie on other ranks than their neighbours; where they do, a parameter is
  // called as its first tensor.
  Stacked add_runs(const std::string& storage_name, const std::vector<std::string>& names);
  // Experts: value [experts of this rank, rows, columns]; names[e] are stacked along the rows of expert e, of
  // all experts.
  Parameter& add_experts(const std::string& storage_name, const std::vector<std::vector<std::string>>& names);
  // Memory for all, zeros. Every spec must have found its module.
  void allocate();
  // Those for which `which` holds do not train from now on: the memory of their gradients is given back. The
  // others' gradients are zero.
  void freeze(const std::function<bool(const Parameter&)>& which);

  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  // in the order in which the model uses their first tensor
  const std::vector<std::unique_ptr<Arena>>& arenas() const { return arenas_; }
  const std::vector<layout::ParameterSpec>& specs() const { return specs_; }
  at::Device device() const { return device_; }
  // of sums
  at::TensorOptions wide_options() const {
    return at::TensorOptions().device(device_).dtype(precision_.reduce);
  }
  const layout::MeshRank& place() const { return place_; }
  // Fills every part from its own stream "init/<logical name>" of `seed`: the same numbers under any fusing
  // or sharding.
  void initialise(uint64_t seed);
  void zero_gradients();

  void watch(std::unique_ptr<ParameterWatch> by) { watch_ = std::move(by); }
  ParameterWatch* watched_by() const { return watch_.get(); }  // null: one process

  // One step: `ready` is called for each arena whose gradients of the whole step are there, in the backward
  // pass of the last micro-batch.
  void begin_step(std::function<void(Arena&)> ready);
  // the last forward pass of the step is over
  void all_announced() { progress_->phase.all_announced = true; }
  void end_step() { progress_->phase.all_announced = false; }
  // From now on weight gradients are products that wait in `queue`; null: they are computed at once.
  void postpone_gradients(kernels::Postponed* queue) { progress_->phase.postponed = queue; }
  bool postpones() const { return progress_->phase.postponed != nullptr; }

  // What the matrices that are added from now on read; null: numbers.
  void spike(std::shared_ptr<Spiking> how) { spiking_ = std::move(how); }
  const std::shared_ptr<Spiking>& spiking() const { return spiking_; }
  // Adapters that are served beside these weights (served_adapters.h).
  const std::shared_ptr<ServedAdapters>& served() const { return served_; }
  // Keeps the matrices of a product by groups, where the model is one of Use::kIntegers.
  void keep_in_groups(Parameter& parameter) const;

  // it is in the list
  bool knows(const std::string& logical_name) const { return places_.contains(logical_name); }
  // null: unknown name
  Parameter* holder_of(const std::string& logical_name, size_t* part = nullptr) const;

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
  void allocate_values(Arena& arena);
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
  std::unique_ptr<ParameterWatch> watch_;
  std::shared_ptr<Spiking> spiking_;
  std::shared_ptr<ServedAdapters> served_;
};

}  // namespace longhaul::model
