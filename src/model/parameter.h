// Parameter: what this rank holds of one or several logical tensors. Several share a value where one matrix product serves them
// all (query+key+value, gate+up, all experts of a layer); checkpoints, optimizers and public names see the logical tensors.
//
// `value` is in the working precision, `grad` in the precision of the main gradient; both are allocated once and only written. A parameter
// trains if it has a `grad`: frozen ones, and all of a model made for inference, have none; then nothing computes a gradient of the weight,
// while gradients of inputs flow on. Modules reach the value through use() or through an operator that adds to `grad` itself (Linear), so
// gradients of several micro-batches add up in `grad` without a temporary. Not thread-safe: one trainer, one model.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

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
};

struct Parameter {
  std::string name;  // of the storage: "layers.3.mixer.qkv.weight"
  std::vector<Part> parts;
  layout::AxisSet gradient_partial_over;  // axes over which the gradient is still a partial sum
  Tensor value, grad;                     // grad: undefined where nothing trains
  uint64_t version = 0;                   // raised by written(): packed and gathered copies know when they are stale
  kernels::PackedWeight packed;           // copies of `value` that products read

  // A view of `storage` (value, grad, or anything shaped like them) shaped as part i's held box.
  Tensor part_of(const Tensor& storage, size_t i) const;

  // Whoever writes `value` says so.
  void written() { packed.written(++version); }

  kernels::KeptPacked kept() { return {.copies = &packed, .version = version}; }

  bool trainable() const { return grad.defined(); }
  void freeze();  // from now on it does not train: its gradient's memory is freed

  // The value inside autograd: what flows back is added to `grad`. Outside a backward pass it is just the value.
  Tensor use();
};

enum class Use { kTraining, kInference };  // inference: no gradients

// All parameters of a model in the order of layout::parameters.
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
  void expect_all_taken() const;  // every spec found its module

  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  const std::vector<layout::ParameterSpec>& specs() const { return specs_; }
  at::Device device() const { return device_; }
  const layout::MeshRank& place() const { return place_; }
  // Fills every part from its own stream "init/<logical name>" of `seed`: the same numbers under any fusing or sharding.
  void initialise(uint64_t seed);
  void zero_gradients();
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
  Parameter& store(std::unique_ptr<Parameter> parameter, at::IntArrayRef sizes);

  std::vector<layout::ParameterSpec> specs_;
  std::unordered_map<std::string, Place> places_;  // by logical name
  Precision precision_;
  at::Device device_;
  Use use_;
  layout::MeshRank place_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

}  // namespace longhaul::model
