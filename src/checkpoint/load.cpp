#include "checkpoint/load.h"

#include <fmt/format.h>

#include <set>

#include "base/memory/memory_purpose.h"
#include "checkpoint/calibrated_groups.h"
#include "checkpoint/disk/shared_reads.h"
#include "checkpoint/published/naming.h"
#include "kernels/spikes/calibration.h"
#include "storage/catalog.h"

namespace longhaul::checkpoint {
namespace {

[[noreturn]] void refuse(const storage::Checkpoint& checkpoint, const std::string& name, const char* what,
                         std::string expected, std::string found) {
  throw Error({.code = ExitCode::kCheckpoint,
               .what = what,
               .expected = std::move(expected),
               .found = std::move(found),
               .where = fmt::format("{}, tensor {}", checkpoint.folder().string(), name),
               .hint = "use the recipe the checkpoint was made with (its folder's recipe.toml)"});
}

// That the tensor is there, of this shape, and holds numbers that one of type `wanted` can take. The dtype it
// is stored in.
ScalarType check_readable(const storage::Checkpoint& checkpoint, const std::string& name,
                          const layout::Shape& shape, ScalarType wanted) {
  const storage::ManifestTensor& stored = checkpoint.at(name);
  if (stored.shape != shape) {
    refuse(checkpoint, name, "a tensor of the checkpoint has another shape than the model's",
           layout::shape_text(shape), layout::shape_text(stored.shape));
  }
  const ScalarType type = scalar_type(stored.dtype, name);
  if (type != wanted && !(at::isFloatingType(type) && at::isFloatingType(wanted))) {
    refuse(checkpoint, name, "a tensor of the checkpoint holds other numbers than the run's",
           std::string(name_of(wanted)), std::string(name_of(type)));
  }
  return type;
}

// The box `held` of a stored tensor, as it is stored.
Tensor read(const storage::Checkpoint& checkpoint, const std::string& name, const layout::Rectangle& held,
            ScalarType type) {
  const MemoryPurposeScope scope(MemoryPurpose::kCheckpoint);
  Tensor buffer = at::empty(held.length, type);
  checkpoint.read(name, held,
                  {static_cast<std::byte*>(buffer.mutable_data_ptr()), static_cast<size_t>(buffer.nbytes())});
  return buffer;
}

// Copies it into `view` (any strides). Floating-point numbers become those of its dtype.
void read_into(const storage::Checkpoint& checkpoint, const std::string& name, const layout::Shape& shape,
               const layout::Rectangle& held, const Tensor& view) {
  const ScalarType type = check_readable(checkpoint, name, shape, view.scalar_type());
  if (!held.empty()) view.copy_(read(checkpoint, name, held, type));
}

// Tensors of the checkpoint (of the role "weight" alone, or all) that no rank of the group has a place for.
void refuse_unknown_tensors(const storage::Checkpoint& checkpoint, const std::set<std::string>& known,
                            bool weights_only, comm::Communicator* group) {
  const auto& tensors = checkpoint.manifest().tensors;
  const Tensor taken = at::zeros({static_cast<int64_t>(tensors.size())}, at::kByte);
  auto* at = taken.mutable_data_ptr<uint8_t>();
  for (const auto& [name, tensor] : tensors)
    *at++ = known.contains(name) ||
            (weights_only && (tensor.role != kWeightRole || name.starts_with(kAheadPrefix)));
  if (group != nullptr)
    group->all_reduce(taken, comm::Reduction::kMax, {.name = "tensors that were read"}).wait();
  at = taken.mutable_data_ptr<uint8_t>();
  for (const auto& [name, tensor] : tensors) {
    if (*at++ == 0)
      refuse(checkpoint, name, "the checkpoint holds a tensor that the model has no place for", "", name);
  }
}

}  // namespace

void load_weights(const storage::Checkpoint& checkpoint, model::ParameterSet& parameters,
                  comm::Communicator* group) {
  std::set<std::string> known;
  for (const auto& parameter : parameters.all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const auto& part = parameter->parts[i];
      known.insert(part.spec.tensor.name);
      const layout::LogicalTensor& logical = part.spec.tensor;
      if (parameter->narrow()) {
        const ScalarType type = check_readable(checkpoint, logical.name, logical.global_shape, at::kFloat);
        parameter->write_narrow(i, read(checkpoint, logical.name, part.held, type));
        continue;
      }
      read_into(checkpoint, logical.name, logical.global_shape, part.held,
                parameter->part_of(parameter->value.detach(), i));
    }
    parameter->written();
  }
  refuse_unknown_tensors(checkpoint, known, /*weights_only=*/true, group);
}

int64_t calibrate_groups(OpenModel& model, const std::map<std::string, Tensor>& square_of) {
  const storage::LocalFileSystem files;
  const storage::Checkpoint checkpoint =
      storage::open_checkpoint(files, model.folder, storage::Depth::kSizes, kWeightRole);
  int64_t calibrated = 0;
  for (const auto& parameter : model.decoder->parameters().all()) {
    const auto square = square_of.find(parameter->name);
    if (!parameter->groups || square == square_of.end()) continue;
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      const layout::LogicalTensor& logical = parameter->parts[i].spec.tensor;
      const ScalarType type = check_readable(checkpoint, logical.name, logical.global_shape, at::kFloat);
      const Tensor stored = read(checkpoint, logical.name, parameter->parts[i].held, type);
      parameter->write_narrow(i, kernels::clipped_by_groups(stored, square->second));
    }
    parameter->written();
    ++calibrated;
  }
  return calibrated;
}

void load_training_state(const storage::Checkpoint& checkpoint, Providers state, comm::Communicator* group,
                         OptimizerStates optimizer_states) {
  std::set<std::string> known;
  std::vector<StateEntry> entries = tensors_of(state);
  if (optimizer_states == OptimizerStates::kFresh) {
    for (const auto& [name, tensor] : checkpoint.manifest().tensors) {
      if (tensor.role.starts_with(kOptimizerPrefix)) known.insert(name);
    }
    std::erase_if(entries, [](const StateEntry& entry) { return entry.file == kOptimizerFiles; });
  }
  for (const StateEntry& entry : entries) {
    known.insert(entry.name);
    check_readable(checkpoint, entry.name, entry.shape, entry.view.scalar_type());
  }
  refuse_unknown_tensors(checkpoint, known, /*weights_only=*/false, group);
  SharedReads(group, entries).run([&](const StateEntry& entry) {
    read_into(checkpoint, entry.name, entry.shape, entry.held, entry.view);
  });
  const SavedFacts facts{checkpoint.manifest().state,
                         (checkpoint.folder() / storage::kManifestName).string()};
  for (StateProvider* provider : state) provider->restore(facts);
}

}  // namespace longhaul::checkpoint
