#include "posttrain/preference/options.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/path_text.h"

namespace longhaul::posttrain {
namespace {

PreferenceLoss loss_named(const std::string& name) {
  const auto names = names_of(PreferenceLoss{});
  return static_cast<PreferenceLoss>(std::ranges::find(names, name) - names.begin());
}

}  // namespace

void declare_preference(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  const LossNumbers numbers;
  const auto names = names_of(PreferenceLoss{});
  const auto number = [&](const std::string& name, double otherwise, const char* help) {
    return set.add(name, outside.number(name, otherwise), help);
  };
  set.add("preference.data", outside.text("preference.data", ""),
          "File of JSON lines, or folder of such files, with the answers to learn from: pairs, labelled or "
          "scored answers "
          "(docs/guides/preferences.md).")
      .path();
  set.add("preference.held_out", outside.text("preference.held_out", ""),
          "File or folder of the same form to judge by, never trained on; empty: preference.held_out_percent "
          "of the prompts of preference.data.")
      .path();
  set.add("preference.held_out_percent", outside.whole("preference.held_out_percent", 5),
          "Share of the prompts that are held out, chosen by a hash of the prompt; not read where "
          "preference.held_out is given.")
      .unit("%")
      .at_least(0)
      .at_most(99);
  set.add("preference.template", outside.text("preference.template", ""),
          "File with the chat template for conversations; empty: the one that lies beside the tokenizer of "
          "the model that the run begins with.")
      .path();
  set.add("preference.skip_bad_rows", outside.flag("preference.skip_bad_rows", false),
          "Leave out rows that cannot be read, and count them; false: the first one is an error.");
  set.add("preference.loss", outside.text("preference.loss", "dpo"),
          "dpo, ipo, orpo and simpo compare a chosen answer with a rejected one; kto learns from answers "
          "that are labelled good or bad; "
          "reward_weighted weighs answers by their rewards; rejection learns the best answer of each prompt.")
      .one_of({names.begin(), names.end()});
  number("preference.beta", numbers.beta,
         "How strongly the reference holds the policy in dpo, ipo and kto; factor of the odds ratio in orpo, "
         "of the difference in simpo; "
         "temperature of the rewards in reward_weighted.")
      .above(0)
      .also_called({"orpo_lambda", "lambda"});
  number("preference.label_smoothing", numbers.label_smoothing,
         "Probability that a pair is the wrong way round; read by dpo and simpo.")
      .at_least(0)
      .at_most(0.5);
  number("preference.gamma", numbers.gamma, "The margin by which simpo wants the chosen answer ahead.")
      .at_least(0)
      .also_called({"simpo_gamma"});
  number("preference.desirable_weight", numbers.desirable_weight,
         "Weight in kto of answers that are labelled good.")
      .at_least(0);
  number("preference.undesirable_weight", numbers.undesirable_weight,
         "Weight in kto of answers that are labelled bad.")
      .at_least(0);
  set.add("preference.per_token", outside.flag("preference.per_token", false),
          "dpo and ipo take the mean over the tokens of an answer for its log-probability, not the sum.");
  number("preference.most_weight", 20, "Greatest weight that a reward gives an answer in reward_weighted.")
      .above(0);
}

AnswerDataOptions answer_data_options(const recipe::Recipe& recipe) {
  const recipe::OutsideOptions& outside = recipe.outside;
  if (outside.text("preference.data").empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("train.task = {} has nothing to learn from", recipe.train.task),
                 .expected = "a file of JSON lines, as {\"prompt\": …, \"chosen\": …, \"rejected\": …}",
                 .found = "none",
                 .where = "preference.data",
                 .hint = "preference.data=PAIRS.jsonl (docs/guides/preferences.md has the forms)"});
  }
  const auto path = [&](const char* name) {
    return outside.text(name).empty() ? std::filesystem::path() : path_of_text(outside.text(name));
  };
  return {.data = path("preference.data"),
          .held_out = path("preference.held_out"),
          .held_out_percent = outside.whole("preference.held_out_percent"),
          .chat_template = path("preference.template"),
          .skip_bad_rows = outside.flag("preference.skip_bad_rows")};
}

PreferenceOptions preference_options(const recipe::Recipe& recipe) {
  const recipe::OutsideOptions& outside = recipe.outside;
  PreferenceOptions options{.loss = loss_named(outside.text("preference.loss")),
                            .numbers = {.beta = outside.number("preference.beta"),
                                        .label_smoothing = outside.number("preference.label_smoothing"),
                                        .gamma = outside.number("preference.gamma"),
                                        .desirable_weight = outside.number("preference.desirable_weight"),
                                        .undesirable_weight = outside.number("preference.undesirable_weight"),
                                        .per_token = outside.flag("preference.per_token")},
                            .most_weight = outside.number("preference.most_weight"),
                            .data = answer_data_options(recipe)};
  const bool averages = options.loss == PreferenceLoss::kDpo || options.loss == PreferenceLoss::kIpo;
  if (options.numbers.per_token && !averages) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "this loss does not choose between the sum and the mean of an answer's tokens",
                 .expected = "preference.loss = dpo or ipo",
                 .found = outside.text("preference.loss"),
                 .where = "preference.per_token",
                 .hint = "preference.per_token=false: orpo and simpo take the mean anyway"});
  }
  return options;
}

}  // namespace longhaul::posttrain
