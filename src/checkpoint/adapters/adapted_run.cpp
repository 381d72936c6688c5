#include "checkpoint/adapters/adapted_run.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "checkpoint/disk/new_folder.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/published/weights_folder.h"
#include "checkpoint/saved_recipe.h"
#include "kernels/adapters/op.h"
#include "layout/adapters.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

bool is_wide(const Tensor& tensor) { return tensor.scalar_type() == at::kDouble; }

Tensor row_lengths(const Tensor& weight) { return at::linalg_vector_norm(weight, 2, at::IntArrayRef{1}); }

}  // namespace

AdaptedRun AdaptedRun::open(const fs::path& path) {
  storage::Checkpoint checkpoint =
      storage::open_checkpoint(storage::local_file_system(), path, storage::Depth::kContents, kWeightRole);
  recipe::LoadedRecipe recipe = saved_recipe(checkpoint);
  if (recipe.recipe.model.lora.wanted()) return {std::move(checkpoint), std::move(recipe)};
  throw Error({.code = ExitCode::kUsage,
               .what = "the model has no adapters",
               .expected = "a run with lora.rank above 0, or what `import --adapter` made",
               .found = "lora.rank = 0",
               .where = checkpoint.folder().string(),
               .hint = "its weights are whole already: use it as it is"});
}

recipe::ModelConfig AdaptedRun::base() const {
  recipe::ModelConfig base = recipe_.recipe.model;
  base.lora = {};
  base.frozen.clear();
  return base;
}

fs::path AdaptedRun::run_folder() const {
  return fs::weakly_canonical(checkpoint_.folder()).parent_path().parent_path();
}

bool AdaptedRun::adapted(const layout::ParameterSpec& spec) const {
  return layout::is_adapted(recipe_.recipe.model.lora, spec);
}

Tensor AdaptedRun::read(const std::string& tensor) const {
  const storage::ManifestTensor& stored = checkpoint_.at(tensor);
  const Tensor out = at::empty(stored.shape, scalar_type(stored.dtype, tensor));
  checkpoint_.read(tensor, layout::Rectangle::whole(stored.shape),
                   {static_cast<std::byte*>(out.mutable_data_ptr()), static_cast<size_t>(out.nbytes())});
  return out;
}

Tensor AdaptedRun::magnitude(const layout::ParameterSpec& spec) const {
  const Tensor weight = read(spec.tensor.name);
  const ScalarType wide = is_wide(weight) ? at::kDouble : at::kFloat;
  return row_lengths(weight.to(wide)) + read(layout::adapter_magnitude_name(spec.tensor.name)).to(wide);
}

Tensor AdaptedRun::merged(const layout::ParameterSpec& spec) const {
  const std::string& name = spec.tensor.name;
  const Tensor weight = read(name);
  const kernels::AdapterUp up{.weights = {.weight = read(layout::adapter_up_name(name))}};
  const recipe::AdapterOptions& lora = recipe_.recipe.model.lora;
  const Tensor merged =
      kernels::merged_weight(weight, read(layout::adapter_down_name(name)), {up}, lora.scale());
  if (lora.kind != recipe::AdapterKind::kDora) return merged;
  return merged * (magnitude(spec) / row_lengths(merged)).unsqueeze(1);
}

void carry_beside(storage::FileSystem& files, const fs::path& run, const fs::path& to) {
  constexpr int64_t kLargest = int64_t{256} << 20;
  for (const char* name : {"tokenizer.json", "chat_template.jinja"}) {
    if (fs::exists(run / name))
      storage::write_synced(files, to / name,
                            storage::read_small_file(files, run / name, ExitCode::kData, kLargest));
  }
  if (fs::exists(run / kPublishedBeside)) carry_files(files, run / kPublishedBeside, to / kPublishedBeside);
}

MergeReport merge_adapters(const fs::path& run, const fs::path& out, std::optional<ScalarType> dtype,
                           const std::function<void(int64_t, int64_t)>& progress) {
  storage::FileSystem& files = storage::local_file_system();
  const AdaptedRun adapted = AdaptedRun::open(run);
  WeightsFolder weights{.recipe = adapted.recipe()};
  weights.recipe.recipe.model = adapted.base();
  std::erase_if(weights.recipe.origins, [](const auto& each) {
    return each.first.starts_with("lora.") || each.first == "train.freeze";
  });
  weights.specs = layout::parameters(weights.recipe.recipe.model);
  std::map<std::string, const layout::ParameterSpec*> with_adapter;
  for (const layout::ParameterSpec& spec : weights.specs) {
    if (adapted.adapted(spec)) with_adapter.emplace(spec.tensor.name, &spec);
  }
  weights.dtype_of = [&](const std::string& tensor) {
    const ScalarType stored = scalar_type(adapted.checkpoint().at(tensor).dtype, tensor);
    return with_adapter.contains(tensor) ? dtype.value_or(stored) : stored;
  };
  weights.read = [&](const std::string& tensor) {
    const auto found = with_adapter.find(tensor);
    return found == with_adapter.end()
               ? adapted.read(tensor)
               : adapted.merged(*found->second).to(weights.dtype_of(tensor)).contiguous();
  };
  const storage::Manifest& manifest = adapted.checkpoint().manifest();
  weights.step = manifest.step;
  weights.manifest.run_id = manifest.run_id;
  weights.manifest.environment = manifest.environment;
  weights.manifest.data_position = manifest.data_position;
  MergeReport report{.step = weights.step,
                     .adapters = static_cast<int64_t>(with_adapter.size()),
                     .tensors = static_cast<int64_t>(weights.specs.size()),
                     .bytes = weights.bytes()};
  NewFolder folder(files, out, "DIR");
  carry_beside(files, adapted.run_folder(), folder.path());
  write_weights_folder(files, folder.path(), weights, progress);
  folder.commit();
  return report;
}

}  // namespace longhaul::checkpoint
