#include "checkpoint/open_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "checkpoint/load.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/saved_recipe.h"
#include "storage/catalog.h"

namespace longhaul::checkpoint {
namespace {

model::Use use_of(const std::string& experts, const OpenModel& model) {
  if (experts.empty()) return model::Use::kInference;
  LONGHAUL_ASSERT(experts == "int8", "no such experts: {}", experts);
  if (model.recipe.recipe.model.experts > 0) return model::Use::kInt8Experts;
  throw Error({.code = ExitCode::kUsage,
               .what = "there are no experts to keep in eight bits",
               .expected = "--experts int8 with a model that has experts",
               .found = "model.experts = 0",
               .where = model.folder.string(),
               .hint = "leave --experts out"});
}

void say_what_experts_hold(const model::Decoder& decoder) {
  int64_t narrow = 0, wide = 0;
  for (const auto& parameter : decoder.parameters().all()) {
    if (!parameter->int8) continue;
    narrow += parameter->int8->bytes();
    wide +=
        layout::volume(parameter->sizes) * static_cast<int64_t>(at::elementSize(decoder.precision().compute));
  }
  log_info("experts: {} as int8, {} as {}", bytes_text(narrow), bytes_text(wide),
           name_of(decoder.precision().compute));
}

}  // namespace

std::filesystem::path folder_to_open(const std::filesystem::path& path) {
  const storage::LocalFileSystem files;
  return storage::open_checkpoint(files, path, storage::Depth::kSizes, kWeightRole).folder();
}

OpenModel open_model(const std::filesystem::path& path, const std::string& dtype, at::Device device,
                     const std::string& experts) {
  const storage::LocalFileSystem files;
  const storage::Checkpoint checkpoint =
      storage::open_checkpoint(files, path, storage::Depth::kContents, kWeightRole);
  OpenModel model{
      .recipe = saved_recipe(checkpoint), .folder = checkpoint.folder(), .step = checkpoint.manifest().step};
  const auto& position = checkpoint.manifest().data_position;
  if (position.is_object()) model.tokenizer_sha256 = position.value("tokenizer_sha256", "");
  model.tokenizer =
      std::filesystem::weakly_canonical(model.folder).parent_path().parent_path() / "tokenizer.json";
  const recipe::Dtype saved_dtype = model.recipe.recipe.train.dtype;
  const std::string precision = dtype.empty() ? std::string(recipe::name_of_value(saved_dtype)) : dtype;
  model.recipe.recipe.model.predict_ahead = 0;  // trained only
  const model::Use use = use_of(experts, model);
  model.decoder =
      std::make_unique<model::Decoder>(model.recipe.recipe.model, Precision::named(precision), device, use);
  load_weights(checkpoint, model.decoder->parameters());
  if (use == model::Use::kInt8Experts) say_what_experts_hold(*model.decoder);
  return model;
}

void require_next_token(const OpenModel& model, const std::string& what) {
  const recipe::Recipe& recipe = model.recipe.recipe;
  if (recipe.train.objective == recipe::Objective::kNext && recipe.model.causal) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = fmt::format(
           "{} needs a model that predicts the next token, and this one fills in masked tokens", what),
       .expected = "a checkpoint trained with train.objective = next",
       .found = fmt::format("train.objective = {}, model.causal = {}",
                            recipe::name_of_value(recipe.train.objective), recipe.model.causal),
       .where = model.folder.string(),
       .hint = program_command(fmt::format("evaluate {} --data PATH", model.folder.string())) +
               " says how well it does that"});
}

}  // namespace longhaul::checkpoint
