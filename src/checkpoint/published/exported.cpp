#include "checkpoint/published/exported.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/published/naming.h"
#include "data/tokens/row_check.h"
#include "recipe/architecture/families.h"

namespace longhaul::checkpoint {

namespace fs = std::filesystem;

recipe::ModelConfig in_its_family(recipe::ModelConfig config, const std::string& asked) {
  if (asked.empty() && config.family != "longhaul") return config;
  if (!asked.empty()) {
    config.family = asked;
    std::vector<recipe::Problem> problems;
    recipe::check_family(config, problems);
    if (problems.empty()) return config;
    std::string reasons;
    for (const recipe::Problem& problem : problems)
      reasons += (reasons.empty() ? "" : "\n  ") + problem.reason;
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("files of the family {} cannot hold this model", asked),
                 .expected = "a model as the family describes it",
                 .found = reasons,
                 .where = "--family",
                 .hint = "without --family the model's own is taken; docs/models says what each family is"});
  }
  std::string reasons;
  for (const model::Family* family : model::families()) {
    config.family = family->name;
    std::vector<recipe::Problem> problems;
    recipe::check_family(config, problems);
    if (problems.empty()) return config;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "\n  ", problems.front().reason);
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "no public family can hold this model",
               .expected = "a model that one of the families describes",
               .found = reasons,
               .where = "model.family",
               .hint = "docs/models says what each family is"});
}

void require_without_adapters(const recipe::ModelConfig& config, const fs::path& checkpoint) {
  if (!config.lora.wanted()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the model has adapters beside its weights",
               .expected = "a model without adapters",
               .found = fmt::format("lora.rank = {}", config.lora.rank),
               .where = checkpoint.string(),
               .hint = "`longhaul checkpoint merge RUN DIR` adds them into the weights; `longhaul export RUN "
                       "--adapter DIR` writes them alone"});
}

namespace {

Tensor read_box(const storage::Checkpoint& checkpoint, const std::string& logical,
                const layout::Rectangle& box) {
  const Tensor out = at::empty(box.length, scalar_type(checkpoint.at(logical).dtype, logical));
  checkpoint.read(logical, box,
                  {static_cast<std::byte*>(out.mutable_data_ptr()), static_cast<size_t>(out.nbytes())});
  return out;
}

}  // namespace

Tensor read_public(const storage::Checkpoint& checkpoint, const model::PublicTensor& tensor,
                   ScalarType dtype) {
  const auto read = [&](const model::PublicPiece& piece) {
    const Tensor box = read_box(checkpoint, piece.logical, piece.of_logical);
    return piece.transposed ? box.t() : box;
  };
  if (tensor.pieces.size() == 1) return read(tensor.pieces.front()).to(dtype).contiguous();
  const Tensor out = at::empty(tensor.rows_and_columns(), dtype);
  for (const model::PublicPiece& piece : tensor.pieces) {
    Tensor into = out;
    for (size_t d = 0; d < piece.of_public.offset.size(); ++d) {
      into = into.narrow(static_cast<int64_t>(d), piece.of_public.offset[d], piece.of_public.length[d]);
    }
    into.copy_(read(piece));
  }
  return out;
}

std::optional<data::Tokenizer> run_tokenizer(const fs::path& run, const recipe::Recipe& recipe) {
  if (!fs::exists(run / "tokenizer.json")) return std::nullopt;
  const data::Tokenizer tokenizer = data::Tokenizer::load(run / "tokenizer.json");
  const data::Tokenizer with_roles = tokenizer.with({recipe.data.end_of_document, recipe.data.stop_tokens});
  return data::role_without_row(with_roles, recipe.model.vocabulary) ? std::nullopt
                                                                     : std::optional(with_roles);
}

}  // namespace longhaul::checkpoint
