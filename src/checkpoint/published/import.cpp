#include "checkpoint/published/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/text/text.h"
#include "checkpoint/disk/new_folder.h"
#include "checkpoint/open_model.h"
#include "checkpoint/published/published_model.h"
#include "checkpoint/published/published_tokens.h"
#include "checkpoint/published/weights_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/row_check.h"
#include "layout/sequence_view.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "tensor/to_tensor.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kCheckTokens = 32;

recipe::LoadedRecipe recipe_of(const PublishedModel& model, const data::TokenRoles& roles) {
  recipe::LoadedRecipe loaded;
  recipe::Recipe& recipe = loaded.recipe;
  recipe.description = fmt::format("{}, imported", model.family().title);
  recipe.model = model.config();
  recipe.data.tokenizer = "tokenizer.json";
  recipe.data.end_of_document = roles.end_of_document;
  recipe.data.stop_tokens = roles.stop;
  recipe.train.dtype = model.dtype() == at::kBFloat16 || model.dtype() == at::kHalf ? recipe::Dtype::kBf16
                                                                                    : recipe::Dtype::kFp32;
  if (recipe.model.max_positions > 0)
    recipe.train.sequence = std::min(recipe.train.sequence, recipe.model.max_positions);
  return loaded;
}

// The tokenizer that stands beside the weights, where it is one that is read here.
struct TakenTokenizer {
  std::string said, sha256{};
  data::TokenRoles roles{};
};

TakenTokenizer take_tokenizer(const fs::path& carried, const fs::path& out,
                              const recipe::ModelConfig& model) {
  const fs::path file = carried / "tokenizer.json";
  if (!fs::exists(file)) return {"none: no tokenizer.json in the folder"};
  std::optional<data::Tokenizer> tokenizer;
  try {
    tokenizer = data::Tokenizer::load(file);
  } catch (const Error& error) {
    return {fmt::format("carried along, but not read here: {}", error.fields().what)};
  }
  TakenTokenizer taken{counted(tokenizer->tokens(), "entry", "entries"), tokenizer->sha256(),
                       published_roles(carried, *tokenizer)};
  const int64_t above =
      data::require_rows(tokenizer->with(taken.roles), model.vocabulary, file.string(),
                         "use the tokenizer that the model was trained with, or leave the file out");
  tokenizer->save(out / "tokenizer.json");
  std::vector<std::string> stops;
  for (const int32_t id : tokenizer->with(taken.roles).stop_ids())
    stops.push_back(printable(*tokenizer->token_of(id)));
  if (!tokenizer->before().empty())
    taken.said += fmt::format("; a text begins with {}", printable(tokenizer->decode(tokenizer->before())));
  if (!stops.empty())
    taken.said += fmt::format("{} ends with {}", tokenizer->before().empty() ? "; a text" : ",",
                              fmt::join(stops, " or "));
  if (above > 0)
    taken.said +=
        fmt::format("; {} of them from id {} on {} no row in the model, and a text with {} is refused", above,
                    model.vocabulary, above == 1 ? "has" : "have", above == 1 ? "it" : "one");
  if (!tokenizer->not_applied().empty())
    taken.said += fmt::format("; not applied: {}", fmt::join(tokenizer->not_applied(), ", "));
  return taken;
}

ForwardCheck forward_check(const fs::path& folder, const recipe::ModelConfig& config, int64_t parameters,
                           recipe::Dtype dtype) {
  const double needed = static_cast<double>(parameters) * (dtype == recipe::Dtype::kBf16 ? 2 : 4) * 1.3;
  const auto available = static_cast<double>(available_memory_bytes());
  if (needed > available) {
    return {.left_out = fmt::format("the model needs about {}, and {} are free",
                                    bytes_text(static_cast<int64_t>(needed)),
                                    bytes_text(static_cast<int64_t>(available)))};
  }
  const OpenModel model = open_model(folder);
  const int64_t tokens =
      config.max_positions > 0 ? std::min(kCheckTokens, config.max_positions) : kCheckTokens;
  std::vector<int64_t> ids;
  const RandomStream random(0, "import/check");
  for (uint64_t t = 0; t < static_cast<uint64_t>(tokens); ++t) {
    ids.push_back(static_cast<int64_t>(random.below(t, static_cast<uint64_t>(config.vocabulary))));
  }
  const at::NoGradGuard no_gradient;
  model::LocalOps ops;
  model::Context context(ops, model.decoder->precision());
  context.training = false;
  const Tensor hidden = model.decoder->hidden(context, to_tensor(ids), layout::make_single(tokens));
  const Tensor logits = model.decoder->logits(hidden);
  ForwardCheck check{.tokens = tokens, .largest = logits.abs().max().item<double>()};
  const Tensor next = to_tensor(std::vector<int64_t>(ids.begin() + 1, ids.end()));
  if (tokens > 1) {
    const Tensor rows = logits.narrow(0, 0, tokens - 1);
    check.mean_loss =
        (rows.logsumexp(1) - rows.gather(1, next.unsqueeze(1)).squeeze(1)).mean().item<double>();
  }
  if (std::isfinite(check.largest) && std::isfinite(check.mean_loss)) return check;
  throw Error(
      {.code = ExitCode::kData,
       .what = "the imported model does not compute: its logits are not finite",
       .expected = "finite numbers",
       .found = fmt::format("largest {}", check.largest),
       .where = "the forward check",
       .hint = "the weights are damaged, or were made for another precision (fp16 weights may need fp32)"});
}

}  // namespace

ImportReport import_model(const fs::path& from, const fs::path& out,
                          const std::function<void(int64_t, int64_t)>& progress) {
  storage::FileSystem& files = storage::local_file_system();
  const PublishedModel model = PublishedModel::open(files, from);
  NewFolder folder(files, out, "--out");
  ImportReport report{.model = model.config(),
                      .title = std::string(model.family().title),
                      .parameters = layout::parameter_count(model.config()),
                      .logical_tensors = static_cast<int64_t>(model.specs().size()),
                      .mapped = model.mapped(),
                      .ignored_tensors = model.ignored_tensors(),
                      .ignored_fields = model.ignored_fields(),
                      .dtype = std::string(name_of(model.dtype()))};
  const fs::path beside = folder.path() / kPublishedBeside;
  report.carried = carry_files(files, from, beside);
  const TakenTokenizer tokenizer = take_tokenizer(beside, folder.path(), report.model);
  report.tokenizer = tokenizer.said;

  WeightsFolder weights{.recipe = recipe_of(model, tokenizer.roles),
                        .specs = model.specs(),
                        .dtype_of = [&](const std::string& tensor) { return model.dtype_of(tensor); },
                        .read = [&](const std::string& tensor) { return model.read(tensor); }};
  weights.manifest.run_id = "imported";
  weights.manifest.environment = {{"imported_family", model.family().name},
                                  {"imported_layout", model.layout()}};
  if (!tokenizer.sha256.empty()) weights.manifest.data_position = {{"tokenizer_sha256", tokenizer.sha256}};
  report.bytes = weights.bytes();
  write_weights_folder(files, folder.path(), weights, progress);
  report.check =
      forward_check(folder.path(), report.model, report.parameters, weights.recipe.recipe.train.dtype);
  folder.commit();
  return report;
}

}  // namespace longhaul::checkpoint
