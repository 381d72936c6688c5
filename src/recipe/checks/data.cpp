#include "recipe/checks/checks.h"

#include <algorithm>

#include "base/text/text.h"
#include "recipe/mixers.h"

namespace longhaul::recipe {
namespace {

constexpr int64_t kByteTokens = 257;  // 256 bytes and the end of a document

void mix(const DataOptions& options, Problems& out) {
  const std::vector<DataMixPoint>& points = options.mix;
  if (!points.empty() && !options.weights.empty())
    out.push_back({{"data.mix", "data.weights"},
                   "data.mix and data.weights both say how sources are blended",
                   "leave one of them out"});
  std::vector<double> most(options.source.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const auto refuse = [&](const std::string& reason, const std::string& hint) {
      out.push_back({{"data.mix"}, fmt::format("point {} of data.mix: {}", i + 1, reason), hint});
    };
    const std::vector<double>& weights = points[i].weights;
    if (weights.size() != options.source.size()) {
      refuse(fmt::format("{} for {} of data.source", counted(static_cast<int64_t>(weights.size()), "weight"),
                         counted(static_cast<int64_t>(options.source.size()), "entry", "entries")),
             "give one weight per source");
      return;
    }
    if (std::ranges::none_of(weights, [](double weight) { return weight > 0; }))
      refuse("no weight is above 0", "give one source a weight");
    if (i > 0 && points[i].at_tokens < points[i - 1].at_tokens)
      refuse("is before the point before it", "list points in order");
    for (size_t s = 0; s < most.size(); ++s) most[s] = std::max(most[s], weights[s]);
  }
  for (size_t s = 0; s < most.size() && !points.empty(); ++s) {
    if (most[s] > 0) continue;
    out.push_back({{"data.mix", "data.source"},
                   fmt::format("{} of data.source has no weight at any point of data.mix",
                               Value(options.source[s]).described()),
                   "leave it out of data.source, or give it a weight"});
  }
}

void data(const Recipe& recipe, Problems& out) {
  const DataOptions& options = recipe.data;
  if (options.source.empty() || std::ranges::any_of(options.source, &std::string::empty)) {
    out.push_back({{"data.source"},
                   "data.source names nothing to train on",
                   "data.source=/a/folder/of/text, or data.source=libtorch"});
  }
  if (std::ranges::any_of(options.validation, &std::string::empty)) {
    out.push_back({{"data.validation"},
                   "data.validation has an entry that names nothing",
                   "data.validation=/a/folder/of/text, or leave it out"});
  }
  if (std::ranges::any_of(options.include, &std::string::empty)) {
    out.push_back({{"data.include"},
                   "data.include has an empty entry: every name ends so",
                   "data.include=.py,.md, or leave it out"});
  }
  if (!options.weights.empty() && options.weights.size() != options.source.size()) {
    out.push_back({{"data.weights", "data.source"},
                   fmt::format("data.weights has {} for {} of data.source",
                               counted(static_cast<int64_t>(options.weights.size()), "number"),
                               counted(static_cast<int64_t>(options.source.size()), "entry", "entries")),
                   "give one weight per source, or none"});
  }
  mix(options, out);
  if (recipe.train.task == "recall") return;  // reads no text
  // A row of the embedding after the tokenizer's.
  const int64_t mask = recipe.train.objective == Objective::kMasked ? 1 : 0;
  if (options.tokenizer.empty()) {
    out.push_back({{"data.tokenizer"},
                   "data.tokenizer is empty",
                   "data.tokenizer=train, bytes, or the path of a tokenizer.json"});
  } else if (options.tokenizer == "train" && options.vocabulary + mask > recipe.model.vocabulary) {
    out.push_back(
        {{"data.vocabulary", "model.vocabulary"},
         fmt::format(
             "data.vocabulary = {} tokens{} do not fit the model.vocabulary = {} rows of the embedding",
             options.vocabulary, mask > 0 ? " and a mask token" : "", recipe.model.vocabulary),
         fmt::format("data.vocabulary={}", std::max<int64_t>(recipe.model.vocabulary - mask, kByteTokens))});
  } else if (options.tokenizer == "bytes" && recipe.model.vocabulary < kByteTokens + mask) {
    out.push_back(
        {{"data.tokenizer", "model.vocabulary"},
         fmt::format("data.tokenizer = bytes needs {} rows{}; model.vocabulary = {}", kByteTokens + mask,
                     mask > 0 ? ", one of them for train.objective = masked" : "", recipe.model.vocabulary),
         fmt::format("model.vocabulary={}", kByteTokens + mask)});
  }
}

// Documents that are grids are whole in a row: after a cut a token's place on the grid would be unknown.
void grid(const Recipe& recipe, Problems& out) {
  if (grid_of(recipe.model).empty() || recipe.train.task != "pretrain") return;
  const int64_t each = recipe.model.lightnet.tokens_of_grid() + 1;
  if (recipe.train.sequence % each != 0) {
    out.push_back(
        {{"train.sequence", "model.lightnet.grid"},
         fmt::format("train.sequence = {} is no multiple of {}: a grid of model.lightnet.grid and its "
                     "separator, which no row may cut",
                     recipe.train.sequence, each),
         fmt::format("train.sequence={}", std::max<int64_t>(1, recipe.train.sequence / each) * each)});
  }
  if (!recipe.data.document_boundaries) {
    out.push_back({{"data.document_boundaries", "model.lightnet.grid"},
                   "data.document_boundaries = false: of several grids in one document nobody would know "
                   "where a token stands",
                   "data.document_boundaries=true"});
  }
}

}  // namespace

void check_data(const Recipe& recipe, Problems& out) {
  data(recipe, out);
  grid(recipe, out);
}

}  // namespace longhaul::recipe
