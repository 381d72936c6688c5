#include "checkpoint/adapters/peft.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "checkpoint/adapters/adapted_run.h"
#include "checkpoint/adapters/peft_config.h"
#include "checkpoint/adapters/public_modules.h"
#include "checkpoint/disk/new_folder.h"
#include "checkpoint/published/exported.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/published/weights_folder.h"
#include "checkpoint/saved_recipe.h"
#include "layout/adapters.h"
#include "storage/safetensors.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* kTensors = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

[[noreturn]] void refuse(const std::string& what, const std::string& expected, const std::string& found,
                         const fs::path& where, const std::string& hint = "") {
  throw Error({.code = ExitCode::kData,
               .what = what,
               .expected = expected,
               .found = found,
               .where = where.string(),
               .hint = hint});
}

enum class Piece { kDown, kUp, kMagnitude };

constexpr std::pair<std::string_view, Piece> kEndings[] = {
    {".lora_A.weight", Piece::kDown},
    {".lora_B.weight", Piece::kUp},
    {".lora_magnitude_vector", Piece::kMagnitude},
    {".lora_magnitude_vector.weight", Piece::kMagnitude}};

Tensor tensor_of(const storage::SafetensorsFile& file, const storage::TensorInfo& info) {
  const Tensor out = at::empty(info.shape, scalar_type(info.dtype, info.name));
  file.read(info, 0, {static_cast<std::byte*>(out.mutable_data_ptr()), static_cast<size_t>(out.nbytes())});
  return out.to(at::kFloat);
}

// The tensors of an adapter's folder by the names that they have here.
class PeftTensors {
 public:
  PeftTensors(const fs::path& folder, const recipe::AdapterOptions& options,
              std::vector<PublicModule> modules)
      : file_(open(folder)), options_(options), modules_(std::move(modules)) {
    for (const storage::TensorInfo& info : file_.tensors()) take(info);
    for (const auto& [tensor, pieces] : found_) require_complete(tensor, pieces);
    if (found_.empty())
      refuse("the folder has no tensors of adapters", "base_model.model.MODULE.lora_A.weight and lora_B",
             "none", file_.path());
  }

  std::vector<std::string> adapted() const {
    std::vector<std::string> names;
    for (const auto& [tensor, pieces] : found_) names.push_back(tensor);
    return names;
  }
  Tensor read(const std::string& tensor, Piece piece) const {
    const Found& found = found_.at(tensor);
    const Tensor read = tensor_of(file_, *found.pieces.at(piece));
    return piece == Piece::kDown ? read : found.module->to_logical(read);
  }

 private:
  struct Found {
    const PublicModule* module = nullptr;
    std::map<Piece, const storage::TensorInfo*> pieces;
  };

  static storage::SafetensorsFile open(const fs::path& folder) {
    if (!fs::exists(folder / kTensors)) {
      refuse("the adapter's tensors are not there", kTensors,
             fs::exists(folder / "adapter_model.bin") ? "adapter_model.bin" : "none", folder,
             "save it with safetensors: model.save_pretrained(folder, safe_serialization=True)");
    }
    return storage::SafetensorsFile::open(storage::local_file_system(), folder / kTensors, {},
                                          storage::Links::kFollow);
  }

  const PublicModule& module_named(const std::string& name, const std::string& tensor) const {
    const auto module = std::ranges::find(modules_, name, &PublicModule::name);
    if (module == modules_.end()) {
      std::vector<std::string> known;
      for (const PublicModule& each : modules_) known.push_back(each.name);
      const std::string near = nearest_spelling(name, known);
      refuse("the adapter stands beside a module that the model does not have",
             "a module of the model" + (near.empty() ? "" : ", as " + near), printable(tensor), file_.path(),
             "import it onto the model that it was trained with");
    }
    if (!module->why_not.empty()) {
      refuse("an adapter of this module has no place here", "modules that hold one matrix of a linear layer",
             fmt::format("{}: {}", module->name, module->why_not), file_.path());
    }
    return *module;
  }

  void take(const storage::TensorInfo& info) {
    for (const auto& [ending, piece] : kEndings) {
      if (!info.name.starts_with(kPrefix) || !info.name.ends_with(ending)) continue;
      const PublicModule& module = module_named(
          info.name.substr(kPrefix.size(), info.name.size() - kPrefix.size() - ending.size()), info.name);
      const layout::Shape& matrix = module.logical.tensor.global_shape;
      const layout::Shape shape = piece == Piece::kDown ? layout::Shape{options_.rank, matrix[1]}
                                  : piece == Piece::kUp ? layout::Shape{matrix[0], options_.rank}
                                                        : layout::Shape{matrix[0]};
      if (info.shape != shape) {
        refuse("a tensor of the adapter has another shape than the model needs",
               fmt::format("[{}]", fmt::join(shape, ", ")),
               fmt::format("{} [{}]", printable(info.name), fmt::join(info.shape, ", ")), file_.path(),
               "import it onto the model that it was trained with");
      }
      Found& found = found_[module.logical.tensor.name];
      found.module = &module;
      found.pieces[piece] = &info;
      return;
    }
    refuse("a tensor of the folder is no part of a LoRA adapter",
           "base_model.model.MODULE.lora_A.weight, lora_B, lora_magnitude_vector", printable(info.name),
           file_.path());
  }

  void require_complete(const std::string& tensor, const Found& found) const {
    const bool dora = options_.kind == recipe::AdapterKind::kDora;
    const bool whole = found.pieces.contains(Piece::kDown) && found.pieces.contains(Piece::kUp) &&
                       found.pieces.contains(Piece::kMagnitude) == dora;
    if (whole) return;
    refuse("the adapter of a module is not complete",
           dora ? "lora_A, lora_B and lora_magnitude_vector" : "lora_A and lora_B, and nothing else",
           fmt::format("{} of them for {} ({})", found.pieces.size(), found.module->name, tensor),
           file_.path());
  }

  storage::SafetensorsFile file_;
  recipe::AdapterOptions options_;
  std::vector<PublicModule> modules_;
  std::map<std::string, Found> found_;  // by logical name
};

// Patterns that fit these tensors of the model and no others: the last word of a name where all with this
// word have an adapter.
std::vector<std::string> targets_of(const std::vector<layout::ParameterSpec>& specs,
                                    const std::vector<std::string>& adapted) {
  const std::set<std::string> wanted(adapted.begin(), adapted.end());
  std::map<std::string, std::vector<std::string>> by_word;
  for (const layout::ParameterSpec& spec : specs) {
    if (layout::can_be_adapted(spec))
      by_word[layout::last_word(spec.tensor.name)].push_back(spec.tensor.name);
  }
  std::vector<std::string> targets;
  for (const auto& [word, names] : by_word) {
    if (std::ranges::all_of(names, [&](const std::string& name) { return wanted.contains(name); })) {
      targets.push_back(word);
      continue;
    }
    std::ranges::copy_if(names, std::back_inserter(targets),
                         [&](const std::string& name) { return wanted.contains(name); });
  }
  return targets;
}

std::string layout_of(const storage::Manifest& manifest, const recipe::ModelConfig& config) {
  const auto& environment = manifest.environment;
  const bool imported = environment.is_object() && environment.value("imported_family", "") == config.family;
  return imported ? environment.value("imported_layout", "") : "";
}

// Names by which PEFT finds the modules: their last word where all with this word are meant.
std::vector<std::string> target_modules(const std::vector<PublicModule>& modules,
                                        const std::set<std::string>& adapted) {
  const auto last = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  std::map<std::string, bool> all;  // by last word
  for (const PublicModule& module : modules) {
    const auto [place, fresh] = all.emplace(last(module.name), true);
    place->second = place->second && adapted.contains(module.name);
  }
  std::set<std::string> targets;
  for (const std::string& name : adapted) targets.insert(all.at(last(name)) ? last(name) : name);
  return {targets.begin(), targets.end()};
}

void write_tensors(storage::FileSystem& files, const fs::path& path,
                   const std::map<std::string, Tensor>& tensors) {
  std::vector<storage::TensorInfo> infos;
  for (const auto& [name, tensor] : tensors)
    infos.push_back({.name = name, .dtype = storage::DType::kF32, .shape = tensor.sizes().vec()});
  storage::SafetensorsWriter writer(files, path, std::move(infos), {{"format", "pt"}});
  for (const storage::TensorInfo& info : writer.tensors()) {
    const Tensor& tensor = tensors.at(info.name);
    writer.write(
        {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())});
  }
  writer.finish();
}

}  // namespace

AdapterReport import_adapter(const fs::path& base, const fs::path& adapter, const fs::path& out,
                             const std::function<void(int64_t, int64_t)>& progress) {
  storage::FileSystem& files = storage::local_file_system();
  const storage::Checkpoint checkpoint =
      storage::open_checkpoint(files, base, storage::Depth::kContents, kWeightRole);
  WeightsFolder weights{.recipe = saved_recipe(checkpoint), .step = checkpoint.manifest().step};
  recipe::ModelConfig& model = weights.recipe.recipe.model;
  require_without_adapters(model, checkpoint.folder());
  model.predict_ahead = 0;
  const std::vector<layout::ParameterSpec> specs = layout::parameters(model);
  const recipe::ModelConfig named = in_its_family(model, "");
  AdapterReport report{.lora = read_peft_config(adapter)};
  const PeftTensors tensors(adapter, report.lora,
                            public_modules(named, layout_of(checkpoint.manifest(), named)));
  report.lora.targets = targets_of(specs, tensors.adapted());
  model.lora = report.lora;
  weights.specs = layout::parameters(model);
  const auto read_base = [&](const std::string& tensor) {
    const storage::ManifestTensor& stored = checkpoint.at(tensor);
    const Tensor read = at::empty(stored.shape, scalar_type(stored.dtype, tensor));
    checkpoint.read(tensor, layout::Rectangle::whole(stored.shape),
                    {static_cast<std::byte*>(read.mutable_data_ptr()), static_cast<size_t>(read.nbytes())});
    return read;
  };
  std::map<std::string, const layout::ParameterSpec*> by_name;
  for (const layout::ParameterSpec& spec : weights.specs) {
    by_name.emplace(spec.tensor.name, &spec);
    if (!spec.adapter_of.tensor.empty()) report.values += spec.elements();
  }
  weights.dtype_of = [&](const std::string& tensor) {
    return layout::is_adapter_name(tensor) ? at::kFloat : scalar_type(checkpoint.at(tensor).dtype, tensor);
  };
  weights.read = [&](const std::string& tensor) {
    const layout::ParameterSpec& spec = *by_name.at(tensor);
    const std::string& of = spec.adapter_of.tensor;
    if (of.empty()) return read_base(tensor);
    if (spec.tensor.role == layout::Role::kAdapterDown) return tensors.read(of, Piece::kDown);
    if (spec.tensor.role == layout::Role::kAdapterUp) return tensors.read(of, Piece::kUp);
    // The trained value is the difference from the length that the row had.
    return tensors.read(of, Piece::kMagnitude) -
           at::linalg_vector_norm(read_base(of).to(at::kFloat), 2, at::IntArrayRef{1});
  };
  weights.manifest.run_id = "imported";
  weights.manifest.environment = checkpoint.manifest().environment;
  weights.manifest.data_position = checkpoint.manifest().data_position;
  report.adapters = std::ssize(tensors.adapted());
  report.modules = report.lora.targets;

  NewFolder folder(files, out, "--out");
  carry_beside(files, fs::weakly_canonical(checkpoint.folder()).parent_path().parent_path(), folder.path());
  write_weights_folder(files, folder.path(), weights, progress);
  folder.commit();
  return report;
}

AdapterReport export_adapter(const fs::path& run, const fs::path& out) {
  storage::FileSystem& files = storage::local_file_system();
  const AdaptedRun adapted = AdaptedRun::open(run);
  recipe::ModelConfig base = adapted.base();
  base.predict_ahead = 0;
  const recipe::ModelConfig named = in_its_family(base, "");
  const std::vector<PublicModule> modules =
      public_modules(named, layout_of(adapted.checkpoint().manifest(), named));
  AdapterReport report{.lora = adapted.recipe().recipe.model.lora};
  std::map<std::string, Tensor> tensors;
  std::set<std::string> names, logical;
  const auto put = [&](const PublicModule& module, const std::string& ending, const Tensor& tensor) {
    tensors[std::string(kPrefix) + module.name + ending] = tensor.to(at::kFloat).contiguous();
    report.values += tensor.numel();
  };
  for (const PublicModule& module : modules) {
    const std::string& name = module.logical.tensor.name;
    if (!module.why_not.empty() || !adapted.adapted(module.logical)) continue;
    put(module, ".lora_A.weight", adapted.read(layout::adapter_down_name(name)));
    put(module, ".lora_B.weight", module.to_public(adapted.read(layout::adapter_up_name(name))));
    if (report.lora.kind == recipe::AdapterKind::kDora)
      put(module, ".lora_magnitude_vector", module.to_public(adapted.magnitude(module.logical)));
    names.insert(module.name);
    logical.insert(name);
  }
  for (const layout::ParameterSpec& spec : layout::parameters(base)) {
    if (!adapted.adapted(spec) || logical.contains(spec.tensor.name)) continue;
    throw Error({.code = ExitCode::kUsage,
                 .what = "an adapter stands beside a matrix that is no module of its own in the public model",
                 .expected = "targets that are whole modules there",
                 .found = spec.tensor.name,
                 .where = fmt::format("the family {}", named.family),
                 .hint = "`longhaul checkpoint merge RUN DIR`, and export DIR"});
  }
  report.adapters = std::ssize(names);
  report.modules = target_modules(modules, names);

  NewFolder folder(files, out, "--adapter");
  const auto& environment = adapted.checkpoint().manifest().environment;
  const std::string from = environment.is_object() ? environment.value("started_from", "") : "";
  storage::write_synced(files, folder.path() / kPeftConfig, peft_config(report.lora, report.modules, from));
  write_tensors(files, folder.path() / kTensors, tensors);
  folder.commit();
  return report;
}

}  // namespace longhaul::checkpoint
