#include "cli/models/model_tokenizer.h"

#include "base/log.h"
#include "data/tokenizer/commands.h"
#include "data/tokens/row_check.h"

namespace longhaul::cli {

data::Tokenizer tokenizer_for(const checkpoint::OpenModel& model, const std::string& named) {
  const std::string path = named.empty() ? model.tokenizer.string() : named;
  if (named.empty() && !std::filesystem::exists(model.tokenizer)) {
    throw Error({.code = ExitCode::kData,
                 .what = "the model's tokenizer is not there",
                 .expected = "tokenizer.json in the run folder, two folders above the checkpoint",
                 .found = "no such file",
                 .where = path,
                 .hint = "--tokenizer FILE names it"});
  }
  const recipe::DataOptions& trained = model.recipe.recipe.data;
  data::Tokenizer tokenizer = data::open_tokenizer(path);
  if (named.empty()) tokenizer = tokenizer.with({trained.end_of_document, trained.stop_tokens});
  data::require_rows(tokenizer, model.recipe.recipe.model.vocabulary, path,
                     "use the tokenizer that the model was trained with");
  if (model.tokenizer_sha256.empty() || tokenizer.sha256() == model.tokenizer_sha256) return tokenizer;
  if (!named.empty()) {
    log_warning("{} is not the tokenizer that the model was trained with", path);
    return tokenizer;
  }
  throw Error({.code = ExitCode::kData,
               .what = "the run folder's tokenizer is not the one that the model was trained with",
               .expected = "sha256 " + model.tokenizer_sha256,
               .found = tokenizer.sha256(),
               .where = path,
               .hint = "put the right one there; --tokenizer FILE uses another one all the same"});
}

}  // namespace longhaul::cli
