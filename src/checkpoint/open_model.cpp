#include "checkpoint/open_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/process/fault_point.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "checkpoint/load.h"
#include "checkpoint/published/naming.h"
#include "checkpoint/saved_recipe.h"
#include "recipe/check.h"
#include "storage/catalog.h"
#include "storage/lease.h"

namespace longhaul::checkpoint {
namespace {

// A model cannot be opened in the form that was asked for.
[[noreturn]] void refuse_form(const OpenModel& model, std::string what, std::string expected,
                              std::string found, std::string hint) {
  throw Error({.code = ExitCode::kUsage,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found),
               .where = model.folder.string(),
               .hint = std::move(hint)});
}

// Refuses what is impossible with spikes.
void require_spikes_fit(const OpenModel& model, at::Device device, const std::string& dtype,
                        const std::string& experts) {
  const auto refuse = [&](std::string what, std::string expected, std::string found, std::string hint) {
    refuse_form(model, std::move(what), std::move(expected), std::move(found), std::move(hint));
  };
  recipe::Recipe recipe = model.recipe.recipe;
  if (dtype == "fp64") {
    refuse("spikes are counted in fp32, and a model in fp64 would compute with what fp32 rounded",
           "--dtype bf16 or fp32", "fp64", "--dtype fp32");
  }
  if (!experts.empty())
    refuse("--spikes has eight-bit weights of its own for experts", "--spikes or --experts",
           "--experts " + experts, "leave --experts out");
  if (!device.is_cpu())
    refuse("products in whole numbers are computed on the CPU", "--device cpu", device.str(), "--device cpu");
  if (const double k = recipe.model.spikes.k; !(k > 0 && k <= recipe::kMostSpikeK)) {
    refuse("k of the spikes is out of range",
           fmt::format("a number above 0, at most {:g}", recipe::kMostSpikeK), fmt::format("{:g}", k),
           "--spikes-k 3");
  }
  recipe.parallel = {};
  recipe.train.dtype = recipe::Dtype::kFp32;  // of the run; here it is the model's own
  std::vector<recipe::Problem> problems;
  recipe::check_spikes(recipe, problems);
  if (!problems.empty())
    refuse(problems[0].reason, "a model whose matrices can read spikes",
           fmt::format("{}", fmt::join(problems[0].keys, ", ")), problems[0].hint);
}

// The [spikes] that are asked for, in place of the recipe's.
void take_spikes(recipe::SpikeOptions& spikes, const SpikeRequest& asked) {
  if (!spikes.wanted()) spikes.coding = recipe::SpikeCoding::kSignedBits;
  if (!asked.coding.empty()) {
    const auto names = recipe::names_of(recipe::SpikeCoding{});
    const auto found = std::ranges::find(names, asked.coding);
    LONGHAUL_ASSERT(found != names.end(), "no such coding: {}", asked.coding);
    spikes.coding = static_cast<recipe::SpikeCoding>(found - names.begin());
  }
  if (asked.k != 0) spikes.k = asked.k;
  spikes.weights = recipe::SpikeWeights::kInt8;
}

// Refuses what is impossible with weights in eight bits.
void require_narrow_weights(const OpenModel& model, at::Device device, const std::string& dtype,
                            const std::string& experts) {
  const auto refuse = [&](std::string what, std::string expected, std::string found, std::string hint) {
    refuse_form(model, std::move(what), std::move(expected), std::move(found), std::move(hint));
  };
  if (!experts.empty())
    refuse("--weights has experts in eight bits too", "--weights or --experts", "both",
           "leave --experts out");
  if (model.recipe.recipe.model.spikes.wanted())
    refuse("a model that counts spikes has eight-bit weights of its own", "--spikes or --weights",
           "--weights int8 with spikes", "leave --weights out");
  if (dtype == "fp64")
    refuse("products with eight-bit weights are summed in fp32", "--dtype bf16 or fp32", "fp64",
           "--dtype fp32");
  if (!device.is_cpu())
    refuse("products with weights in eight bits by groups are computed on the CPU", "--device cpu",
           device.str(), "--device cpu");
  if (model.recipe.recipe.model.lora.wanted())
    refuse("adapters are added to wide weights", "a model without adapters", "lora.rank > 0",
           program_command("checkpoint merge") + " adds them into the weights first");
}

model::Use use_of(const std::string& experts, const std::string& weights, const OpenModel& model,
                  at::Device device) {
  if (!weights.empty()) {
    LONGHAUL_ASSERT(weights == "int8", "no such weights: {}", weights);
    return model::Use::kIntegers;
  }
  const recipe::SpikeOptions& spikes = model.recipe.recipe.model.spikes;
  if (experts.empty() && spikes.wanted() && spikes.weights == recipe::SpikeWeights::kInt8 && device.is_cpu())
    return model::Use::kIntegers;
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

[[noreturn]] void refuse_narrow_ranks(const OpenModel& model) {
  throw Error({.code = ExitCode::kUsage,
               .what = "scales of eight-bit weights go over inputs that ranks would share",
               .expected = "several ranks, or weights in eight bits",
               .found = "both",
               .where = model.folder.string(),
               .hint = "leave --weights, --experts and --spikes out, or --tp and --pp"});
}

void say_what_is_narrow(const model::Decoder& decoder, const char* what) {
  int64_t narrow = 0, wide = 0;
  for (const auto& parameter : decoder.parameters().all()) {
    if (!parameter->narrow()) continue;
    narrow += parameter->int8 ? parameter->int8->bytes() : parameter->groups->bytes();
    wide +=
        layout::volume(parameter->sizes) * static_cast<int64_t>(at::elementSize(decoder.precision().compute));
  }
  log_info("{}: {} as int8, {} as {}", what, bytes_text(narrow), bytes_text(wide),
           name_of(decoder.precision().compute));
}

}  // namespace

std::filesystem::path folder_to_open(const std::filesystem::path& path) {
  const storage::LocalFileSystem files;
  return storage::open_checkpoint(files, path, storage::Depth::kSizes, kWeightRole).folder();
}

OpenModel open_model(const std::filesystem::path& path, const std::string& dtype, at::Device device,
                     const ModelForm& form) {
  const SpikeRequest& spikes = form.spikes;
  const storage::Leased leased =
      storage::open_leased(storage::local_file_system(), path, storage::Depth::kContents, kWeightRole);
  const storage::Checkpoint& checkpoint = leased.checkpoint;
  fault_point("open.load");
  OpenModel model{
      .recipe = saved_recipe(checkpoint), .folder = checkpoint.folder(), .step = checkpoint.manifest().step};
  const auto& position = checkpoint.manifest().data_position;
  if (position.is_object()) model.tokenizer_sha256 = position.value("tokenizer_sha256", "");
  model.tokenizer =
      std::filesystem::weakly_canonical(model.folder).parent_path().parent_path() / "tokenizer.json";
  const recipe::Dtype saved_dtype = model.recipe.recipe.train.dtype;
  const std::string precision = dtype.empty() ? std::string(recipe::name_of_value(saved_dtype)) : dtype;
  model.recipe.recipe.model.predict_ahead = 0;  // trained only
  if (!spikes.wanted && (spikes.k != 0 || !spikes.coding.empty())) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "k and coding are of spikes, and no spikes were asked for",
                 .expected = "--spikes beside --spikes-k and --spikes-coding",
                 .found = "no --spikes",
                 .hint = "add --spikes"});
  }
  if (spikes.wanted) take_spikes(model.recipe.recipe.model.spikes, spikes);
  if (model.recipe.recipe.model.spikes.wanted()) require_spikes_fit(model, device, precision, form.experts);
  if (!form.weights.empty()) require_narrow_weights(model, device, precision, form.experts);
  const model::Use use = use_of(form.experts, form.weights, model, device);
  if (form.place && (use != model::Use::kInference || model.recipe.recipe.model.spikes.wanted()))
    refuse_narrow_ranks(model);
  model.decoder = std::make_unique<model::Decoder>(
      model.recipe.recipe.model, Precision::named(precision), device, use,
      form.place ? form.place(model.recipe.recipe.model) : layout::MeshRank{});
  load_weights(checkpoint, model.decoder->parameters(), form.ranks);
  if (use != model::Use::kInference)
    say_what_is_narrow(*model.decoder, use == model::Use::kInt8Experts       ? "experts"
                                       : model.decoder->spiking() != nullptr ? "matrices of the layers"
                                                                             : "linear layers");
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
