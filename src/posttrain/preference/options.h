// [preference] of a recipe: the loss, its numbers, and where the answers are that it learns from. The task
// "reward" reads the same data. Plain data.
#pragma once

#include <filesystem>

#include "posttrain/preference/losses.h"
#include "recipe/options/option.h"
#include "recipe/recipe.h"

namespace longhaul::posttrain {

struct AnswerDataOptions {
  std::filesystem::path data, held_out;  // held_out empty: held_out_percent of the prompts of `data`
  int64_t held_out_percent = 5;
  std::filesystem::path chat_template;  // empty: the one that lies beside the tokenizer
  bool skip_bad_rows = false;
};

struct PreferenceOptions {
  PreferenceLoss loss = PreferenceLoss::kDpo;
  LossNumbers numbers;
  double most_weight = 20;
  AnswerDataOptions data;
};

void declare_preference(recipe::OptionSet& set, recipe::OutsideOptions& outside);
// Throws kUsage for what cannot be right together.
PreferenceOptions preference_options(const recipe::Recipe& recipe);
// kUsage where preference.data names nothing.
AnswerDataOptions answer_data_options(const recipe::Recipe& recipe);

}  // namespace longhaul::posttrain
