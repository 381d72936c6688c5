#include "posttrain/preference/entries.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text/text.h"
#include "language/decoder_plan.h"
#include "posttrain/preference/preference.h"
#include "posttrain/preference/reward.h"
#include "train/offload.h"

namespace longhaul::posttrain {
namespace {

void require_next_tokens(const recipe::Recipe& recipe) {
  if (recipe.train.objective == recipe::Objective::kNext) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = fmt::format(
           "train.task = {} compares the probabilities of answers, which a masked model does not give",
           recipe.train.task),
       .expected = "train.objective = next",
       .found = std::string(recipe::name_of_value(recipe.train.objective)),
       .where = "train.objective",
       .hint = "train.objective=next, with a model that was trained so"});
}

std::unique_ptr<train::ModelPlan> plan_preference(const recipe::Recipe& recipe) {
  require_next_tokens(recipe);
  preference_options(recipe);  // refuses before anything is touched
  return std::make_unique<language::DecoderPlan>(recipe);
}

data::RunData open_answers(const train::DataRequest& request) {
  const recipe::Recipe& recipe = request.recipe;
  if (recipe.data.tokenizer == "train") {
    throw Error(
        {.code = ExitCode::kUsage,
         .what =
             "answers are read with the tokenizer of the model that the run begins with, and none is named",
         .expected = "--from with a run or a published model, or data.tokenizer",
         .found = "data.tokenizer = train",
         .where = "data.tokenizer",
         .hint = "--from RUN, or data.tokenizer=bytes for a model that begins untrained"});
  }
  return {.corpus = {}, .tokenizer = data::open_tokenizer(recipe.data, {}, request.cache), .sources = {}};
}

SampleWish wish_of(const recipe::Recipe& recipe, SampleWish::Unit unit) {
  return {.unit = unit, .sequence = recipe.train.sequence, .vocabulary = recipe.model.vocabulary};
}

std::unique_ptr<train::Task> make_preference(const train::TaskRequest& request) {
  const recipe::Recipe& recipe = request.recipe;
  const PreferenceOptions options = preference_options(recipe);
  const AnswerEncoder encoder = AnswerEncoder::of(request.data.tokenizer, recipe.data, options.data);
  auto task = std::make_unique<Preference>(
      recipe, options,
      open_samples(options.data, encoder, wish_of(recipe, unit_of(options.loss)), request.ranks.rank() == 0),
      request.device, request.ranks);
  task->set_offload(train::make_offload(recipe.train, request.cache, task->parameters()));
  return task;
}

std::unique_ptr<train::ModelPlan> plan_reward(const recipe::Recipe& recipe) {
  require_next_tokens(recipe);
  reward_options(recipe);
  return std::make_unique<language::DecoderPlan>(recipe);
}

std::unique_ptr<train::Task> make_reward(const train::TaskRequest& request) {
  const recipe::Recipe& recipe = request.recipe;
  const RewardOptions options = reward_options(recipe);
  const bool pairs = options.loss == RewardLoss::kPairwise;
  const AnswerEncoder encoder = AnswerEncoder::of(request.data.tokenizer, recipe.data, options.data);
  SampleWish wish = wish_of(recipe, pairs ? SampleWish::Unit::kPairs : SampleWish::Unit::kScored);
  wish.sequence -= pairs ? 2 : 1;  // answers are read to their last token
  const int32_t token = score_token(options.token, request.data.tokenizer, recipe.model.vocabulary);
  auto task = std::make_unique<Reward>(recipe, options, token,
                                       open_samples(options.data, encoder, wish, request.ranks.rank() == 0),
                                       request.device, request.ranks);
  task->set_offload(train::make_offload(recipe.train, request.cache, task->parameters()));
  return task;
}

std::string use_reward(const recipe::Recipe& recipe, const std::string& run, const std::string& /*prompt*/) {
  return fmt::format("rewards {} --data {}", run, shell_quoted(recipe.outside.text("preference.data")));
}

// There is no text of [data] that could serve as a prompt.
std::string use_preferred(const recipe::Recipe& /*recipe*/, const std::string& run,
                          const std::string& /*prompt*/) {
  return fmt::format("sample {} --prompt TEXT --tokens 100", run);
}

}  // namespace

train::TaskEntry preference_entry() {
  return {.name = "preference",
          .reads_text = false,
          .open_data = open_answers,
          .plan = plan_preference,
          .make = make_preference,
          .write_beside = train::save_tokenizer,
          .next_command = use_preferred,
          .declare_options = declare_preference};
}

train::TaskEntry reward_entry() {
  return {.name = "reward",
          .reads_text = false,
          .open_data = open_answers,
          .plan = plan_reward,
          .make = make_reward,
          .write_beside = train::save_tokenizer,
          .next_command = use_reward,
          .declare_options = declare_reward};
}

}  // namespace longhaul::posttrain
