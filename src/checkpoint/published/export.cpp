#include "checkpoint/published/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/disk/new_folder.h"
#include "checkpoint/published/export_chat.h"
#include "checkpoint/published/exported.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/saved_recipe.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/tokenizer.h"
#include "model/families/config_text.h"
#include "model/families/families.h"
#include "optim/schedule.h"
#include "recipe/architecture/families.h"
#include "storage/catalog.h"
#include "storage/published_folder.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kPublishedFileBytes = 5'000'000'000;

// One tensor of the files to be written.
struct Planned {
  const model::PublicTensor* tensor = nullptr;  // or
  const model::PublicBuffer* buffer = nullptr;
  ScalarType dtype = at::kFloat;
  int64_t bytes = 0;
  const std::string& name() const { return tensor != nullptr ? tensor->name : buffer->name; }
  const layout::Shape& shape() const { return tensor != nullptr ? tensor->shape : buffer->shape; }
};

ScalarType dtype_for(const model::PublicTensor& tensor, const storage::Checkpoint& checkpoint,
                     std::optional<ScalarType> asked, std::string_view usual) {
  if (asked)
    return *asked == at::kBFloat16 && tensor.dtype == "fp32" && usual == "bf16" ? at::kFloat : *asked;
  ScalarType widest = at::kBFloat16;
  bool first = true;
  for (const model::PublicPiece& piece : tensor.pieces) {
    const ScalarType stored = scalar_type(checkpoint.at(piece.logical).dtype, piece.logical);
    widest = first ? stored : at::promote_types(widest, stored);
    first = false;
  }
  return widest;
}

std::vector<Planned> plan(const std::vector<model::PublicTensor>& tensors,
                          const storage::Checkpoint& checkpoint,
                          const std::vector<model::PublicBuffer>& buffers, std::optional<ScalarType> asked) {
  std::vector<Planned> planned;
  const auto bytes_of = [](const layout::Shape& shape, ScalarType dtype) {
    return layout::volume(shape) * static_cast<int64_t>(at::elementSize(dtype));
  };
  for (const model::PublicTensor& tensor : tensors) {
    const ScalarType dtype = dtype_for(tensor, checkpoint, asked, tensors.front().dtype);
    planned.push_back({.tensor = &tensor, .dtype = dtype, .bytes = bytes_of(tensor.shape, dtype)});
  }
  const ScalarType usual = planned.front().dtype;
  for (const model::PublicBuffer& buffer : buffers) {
    planned.push_back({.buffer = &buffer, .dtype = usual, .bytes = bytes_of(buffer.shape, usual)});
  }
  return planned;
}

std::vector<std::vector<Planned>> in_files(const std::vector<Planned>& planned) {
  std::vector<std::vector<Planned>> files(1);
  int64_t bytes = 0;
  for (const Planned& each : planned) {
    if (bytes > 0 && bytes + each.bytes > kPublishedFileBytes) {
      files.emplace_back();
      bytes = 0;
    }
    bytes += each.bytes;
    files.back().push_back(each);
  }
  return files;
}

Tensor made(const storage::Checkpoint& checkpoint, const Planned& planned) {
  if (planned.buffer != nullptr) return planned.buffer->made().to(planned.dtype).contiguous();
  return read_public(checkpoint, *planned.tensor, planned.dtype);
}

void write_file(storage::FileSystem& files, const fs::path& path, const std::vector<Planned>& planned,
                const storage::Checkpoint& checkpoint, const std::function<void(int64_t)>& progress) {
  std::map<std::string, const Planned*> by_name;
  std::vector<storage::TensorInfo> infos;
  for (const Planned& each : planned) {
    by_name.emplace(each.name(), &each);
    infos.push_back({.name = each.name(), .dtype = storage_dtype(each.dtype), .shape = each.shape()});
  }
  storage::SafetensorsWriter writer(files, path, std::move(infos), {{"format", "pt"}});
  for (const storage::TensorInfo& info : writer.tensors()) {
    const Tensor tensor = made(checkpoint, *by_name.at(info.name));
    writer.write(
        {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())});
    progress(info.bytes());
  }
  writer.finish();
}

// As config.json and generation_config.json name them: what a text begins with, and what ends it.
nlohmann::ordered_json token_ids(const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  const std::vector<int32_t> beginning = tokenizer.beginning(), stops = tokenizer.stop_ids();
  if (!beginning.empty()) json["bos_token_id"] = beginning.front();
  if (stops.size() == 1) json["eos_token_id"] = stops.front();
  if (stops.size() > 1) json["eos_token_id"] = stops;
  return json;
}

// The tokenizer of a model that was trained here, with what other programs look for beside it.
std::vector<std::string> write_tokenizer(storage::FileSystem& files, const fs::path& folder,
                                         const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const std::vector<int32_t> beginning = tokenizer.beginning();
  if (!beginning.empty()) config["bos_token"] = *tokenizer.token_of(beginning.front());
  if (const auto end = tokenizer.end_of_document()) config["eos_token"] = *tokenizer.token_of(*end);
  config["clean_up_tokenization_spaces"] = false;
  storage::write_synced(files, folder / "tokenizer.json", data::definition_with_beginning(tokenizer));
  storage::write_synced(files, folder / "tokenizer_config.json", config.dump(2) + "\n");
  storage::write_synced(files, folder / "generation_config.json", token_ids(tokenizer).dump(2) + "\n");
  return {"tokenizer.json", "tokenizer_config.json", "generation_config.json"};
}

// None where what an import carried along speaks for it.
std::optional<data::Tokenizer> own_tokenizer(const fs::path& run, const recipe::Recipe& recipe) {
  if (fs::exists(run / kPublishedBeside)) return std::nullopt;
  return run_tokenizer(run, recipe);
}

// What was carried along stays but for what says how the model computes, which is the checkpoint's.
nlohmann::ordered_json config_json(const recipe::ModelConfig& config, const model::Family& family,
                                   const fs::path& carried, const std::optional<data::Tokenizer>& tokenizer) {
  nlohmann::ordered_json json;
  if (fs::exists(carried)) {
    const std::string text =
        storage::read_small_file(storage::local_file_system(), carried, ExitCode::kData, 16 << 20);
    json = nlohmann::ordered_json::parse(model::json_of_python(text), nullptr, false);
    const bool same =
        json.is_object() &&
        std::ranges::find(family.model_types, json.value("model_type", "")) != family.model_types.end();
    if (!same) json = nlohmann::ordered_json::object();
  }
  if (!json.contains("architectures")) json["architectures"] = {family.architectures.front()};
  if (!json.contains("model_type")) json["model_type"] = family.model_types.front();
  if (!json.contains("initializer_range")) json["initializer_range"] = config.initial_std;
  if (tokenizer) json.update(token_ids(*tokenizer));
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!json.contains(token)) json[token] = nullptr;  // another model's defaults would be taken
  }
  family.write(config, json);
  return json;
}

void say_dtype(nlohmann::ordered_json& json, ScalarType dtype) {
  json[json.contains("torch_dtype") ? "torch_dtype" : "dtype"] = dtype == at::kFloat      ? "float32"
                                                                 : dtype == at::kBFloat16 ? "bfloat16"
                                                                 : dtype == at::kHalf     ? "float16"
                                                                                          : "float64";
}

}  // namespace

ExportReport export_model(const fs::path& path, const fs::path& out, std::optional<ScalarType> dtype,
                          const std::function<void(int64_t, int64_t)>& progress,
                          const std::string& asked_family) {
  storage::FileSystem& files = storage::local_file_system();
  const storage::Checkpoint checkpoint =
      storage::open_checkpoint(files, path, storage::Depth::kContents, kWeightRole);
  const recipe::Recipe recipe = saved_recipe(checkpoint).recipe;
  require_without_adapters(recipe.model, checkpoint.folder());
  if (recipe.model.spikes.wanted())
    log_warning(
        "{} was trained with [spikes], for which the exported files have no place: who reads them reads "
        "numbers",
        checkpoint.folder().string());
  recipe::ModelConfig saved = recipe.model;
  saved.predict_ahead = 0;  // what predicts further ahead stays here
  const recipe::ModelConfig config = in_its_family(saved, asked_family);
  const model::Family& family = *model::find_family(config.family);
  const auto& environment = checkpoint.manifest().environment;
  const bool imported = environment.is_object() && environment.value("imported_family", "") == config.family;
  const auto tensors =
      model::public_tensors(config, imported ? environment.value("imported_layout", "") : "");
  const fs::path run = fs::weakly_canonical(checkpoint.folder()).parent_path().parent_path();
  const std::optional<data::Tokenizer> tokenizer = own_tokenizer(run, recipe);
  nlohmann::ordered_json json =
      config_json(config, family, run / kPublishedBeside / "config.json", tokenizer);
  // Where nothing is said a reader takes the family's default, which may be shorter or far longer than what
  // was trained.
  if (config.max_positions == 0 && config.position == recipe::Position::kRotary &&
      !json.contains("max_position_embeddings"))
    json["max_position_embeddings"] = optim::longest_sequence(recipe.optim, recipe.train);
  const auto buffers =
      family.buffers != nullptr ? family.buffers(config, json) : std::vector<model::PublicBuffer>();
  const std::vector<Planned> planned = plan(tensors, checkpoint, buffers, dtype);
  say_dtype(json, planned.front().dtype);
  ExportReport report{.family = config.family,
                      .title = std::string(family.title),
                      .architecture = std::string(family.architectures.front()),
                      .loaded_by = std::string(family.loaded_by),
                      .tensors = planned.size(),
                      .step = checkpoint.manifest().step};
  for (const Planned& each : planned) report.bytes += each.bytes;

  NewFolder folder(files, out, "--out");
  report.carried = carry_files(files, run / kPublishedBeside, folder.path());
  if (tokenizer) report.carried = write_tokenizer(files, folder.path(), *tokenizer);
  for (const std::string& name : write_chat_files(files, folder.path(), run, recipe))
    report.carried.push_back(name);
  const auto groups = in_files(planned);
  report.files = groups.size();
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string name =
        file_name(kModelFiles, static_cast<int64_t>(i), static_cast<int64_t>(groups.size()));
    write_file(files, folder.path() / name, groups[i], checkpoint, [&](int64_t bytes) {
      if (progress) progress(bytes, report.bytes);
    });
    for (const Planned& each : groups[i]) map[each.name()] = name;
  }
  if (groups.size() > 1) {
    const nlohmann::ordered_json index = {{"metadata", {{"total_size", report.bytes}}}, {"weight_map", map}};
    storage::write_synced(files, folder.path() / storage::kPublishedIndex, index.dump(2) + "\n");
  }
  storage::write_synced(files, folder.path() / "config.json", json.dump(2) + "\n");
  folder.commit();
  return report;
}

}  // namespace longhaul::checkpoint
