#include "recipe/check.h"

#include <algorithm>

#include "base/text/text.h"
#include "recipe/architecture/families.h"
#include "recipe/checks/checks.h"
#include "recipe/mixers.h"

namespace longhaul::recipe {

namespace {

// Parameters of a layer's mixers, in doubles, because sizes are checked before anything multiplies them.
double elements(const ModelConfig& model, const std::vector<MixerTensor>& tensors) {
  double sum = 0;
  for (const MixerTensor& tensor : tensors) {
    const double each =
        static_cast<double>(tensor.out) * static_cast<double>(std::max<int64_t>(1, tensor.in));
    sum += tensor.of_expert ? each * static_cast<double>(model.experts) : each;
  }
  return sum;
}

void parameter_limit(const ModelConfig& model, Problems& out) {
  double of_layer = 0;
  for (const Mixer mixer : mixers_used(model))
    of_layer = std::max(of_layer, elements(model, entry_of(mixer).tensors(model)));
  double of_channel = 0;
  for (const ChannelMixer mixer : model.channel_mixers_used())
    of_channel = std::max(of_channel, elements(model, entry_of(mixer).tensors(model)));
  of_layer += of_channel;
  const double parameters = static_cast<double>(model.layers + model.predict_ahead) * of_layer +
                            2.0 * static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
  if (parameters > 1e15) {
    out.push_back({{"model.layers", "model.hidden", "model.experts", "model.intermediate"},
                   fmt::format("the model would have about {:.1e} parameters; sizes are counted up to 1e15",
                               parameters),
                   "check for a zero too many"});
  }
}

void positions(const ModelConfig& model, Problems& out) {
  if (model.position == Position::kLearned && model.max_positions == 0) {
    out.push_back({{"model.position", "model.max_positions"},
                   "learned positions need a table: model.max_positions is 0",
                   "model.max_positions=1024"});
  }
}

void refuse_all(const Problems& found, const LoadedRecipe* loaded) {
  if (found.empty()) return;
  std::string reasons, where, hints;
  for (const Problem& problem : found) {
    reasons += (reasons.empty() ? "" : "\n  ") + problem.reason;
    hints += (hints.empty() ? "" : "; ") + problem.hint;
    if (!loaded) continue;
    for (const std::string& key : problem.keys) {
      const std::string origin = fmt::format("{}: {}", key, loaded->origin(key).text());
      if (where.find(origin) == std::string::npos) where += (where.empty() ? "" : ", ") + origin;
    }
  }
  throw Error({.code = ExitCode::kUsage,
               .what = found.size() == 1
                           ? "the recipe asks for the impossible"
                           : fmt::format("the recipe asks for {} impossible things", found.size()),
               .expected = "",
               .found = reasons,
               .where = where,
               .hint = hints});
}

}  // namespace

std::vector<Problem> problems(const ModelConfig& model) {
  Problems out;
  check_mixers(model, out);
  check_adapters(model, out);
  parameter_limit(model, out);
  positions(model, out);
  check_family(model, out);
  return out;
}

std::vector<Problem> problems(const Recipe& recipe) {
  Problems out = problems(recipe.model);
  check_training(recipe, out);
  check_spikes(recipe, out);
  check_sharing(recipe, out);
  check_optimizers(recipe, out);
  check_data(recipe, out);
  check_batches(recipe, out);
  return out;
}

void check(const LoadedRecipe& loaded) { refuse_all(problems(loaded.recipe), &loaded); }
void check(const Recipe& recipe) { refuse_all(problems(recipe), nullptr); }

}  // namespace longhaul::recipe
