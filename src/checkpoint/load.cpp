#include "checkpoint/load.h"

#include <fmt/format.h>

#include <set>

#include "base/memory_purpose.h"
#include "checkpoint/naming.h"

namespace longhaul::checkpoint {
namespace {

// Reads the box `held` of a stored tensor and copies it into `view` (any strides; converted to its dtype).
void read_into(const storage::Checkpoint& checkpoint, const std::string& name, const layout::Shape& global_shape,
               const layout::Rectangle& held, const Tensor& view) {
  const storage::ManifestTensor& stored = checkpoint.at(name);
  if (stored.shape != global_shape) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "a tensor of the checkpoint has another shape than the model's",
                 .expected = layout::shape_text(global_shape),
                 .found = layout::shape_text(stored.shape),
                 .where = fmt::format("{}, tensor {}", checkpoint.folder().string(), name),
                 .hint = "use the recipe the checkpoint was made with (its folder's recipe.toml)"});
  }
  const MemoryPurposeScope scope(MemoryPurpose::kCheckpoint);
  Tensor buffer = at::empty(held.length, scalar_type(stored.dtype, name));
  checkpoint.read(name, held, {static_cast<std::byte*>(buffer.mutable_data_ptr()), static_cast<size_t>(buffer.nbytes())});
  view.copy_(buffer);
}

void refuse_unknown_tensors(const storage::Checkpoint& checkpoint, const std::set<std::string>& known, bool weights_only) {
  for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
    if (known.contains(name) || (weights_only && tensor.role != "weight")) continue;
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the checkpoint holds a tensor that the model has no place for",
                 .found = name,
                 .where = checkpoint.folder().string(),
                 .hint = "use the recipe the checkpoint was made with (its folder's recipe.toml)"});
  }
}

}  // namespace

void load_weights(const storage::Checkpoint& checkpoint, model::ParameterSet& parameters) {
  std::set<std::string> known;
  for (const auto& parameter : parameters.all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const auto& part = parameter->parts[i];
      known.insert(part.spec.tensor.name);
      read_into(checkpoint, part.spec.tensor.name, part.spec.tensor.global_shape, part.held,
                parameter->part_of(parameter->value.detach(), i));
    }
    parameter->written();
  }
  refuse_unknown_tensors(checkpoint, known, true);
}

void load_training_state(const storage::Checkpoint& checkpoint, optim::Optimizer& optimizer) {
  std::set<std::string> known;
  for (const optim::StateTensor& tensor : optimizer.state()) {
    known.insert(stored_name(tensor));
    read_into(checkpoint, stored_name(tensor), tensor.global_shape, tensor.held, tensor.view.detach());
  }
  refuse_unknown_tensors(checkpoint, known, false);
  optimizer.refresh_values();
}

}  // namespace longhaul::checkpoint
