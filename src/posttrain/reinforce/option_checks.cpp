#include "posttrain/reinforce/option_checks.h"

#include <fmt/format.h>

#include "base/error.h"
#include "model/experts/routes.h"

namespace longhaul::posttrain {

void refuse_option(const std::string& what, const std::string& expected, const std::string& found,
                   const std::string& where, const std::string& hint) {
  throw Error({.code = ExitCode::kUsage,
               .what = what,
               .expected = expected,
               .found = found,
               .where = where,
               .hint = hint});
}

namespace {

void check_rewards(const ReinforceOptions& options) {
  if (options.reward.empty())
    refuse_option("answers have no reward", "at least one", "none", "reinforce.reward",
                  "reinforce.reward='[\"exact\"]'");
  for (const RewardPart& part : options.reward) {
    const bool of_puzzles = part.name.starts_with("puzzle");
    if (of_puzzles && options.puzzles.empty())
      refuse_option("only puzzles can be judged as puzzles", "reinforce.puzzles", "prompts of a file",
                    "reinforce.reward",
                    "reinforce.puzzles='[\"sudoku\"]', or reinforce.reward='[\"exact\"]'");
    const auto needs = [&](const char* name, const std::string& option) {
      if (part.name == name && option.empty())
        refuse_option(fmt::format("the reward \"{}\" has nothing to judge with", name),
                      fmt::format("reinforce.{}", name), "none", "reinforce.reward",
                      fmt::format("reinforce.{}=…", name));
    };
    needs("regex", options.regex);
    needs("program", options.program);
    needs("http", options.http);
  }
}

void check_sizes(const ReinforceOptions& options, const recipe::TrainOptions& train) {
  if (options.prompts % options.updates != 0)
    refuse_option(
        "the prompts of a rollout batch cannot be dealt out to its updates",
        "reinforce.prompts divisible by reinforce.updates",
        fmt::format("{} prompts, {} updates", options.prompts, options.updates), "[reinforce]",
        fmt::format("reinforce.prompts={}", (options.prompts / options.updates + 1) * options.updates));
  if (options.tokens >= train.sequence)
    refuse_option("an answer and its prompt are longer than a row of the trainer",
                  fmt::format("reinforce.tokens (and reinforce.stages) below {}", train.sequence),
                  std::to_string(options.tokens), "reinforce.tokens and train.sequence",
                  fmt::format("train.sequence={}", 2 * options.tokens));
  if (options.overlong_cache > options.windows.front().tokens)
    refuse_option("the penalty of long answers begins before they do",
                  fmt::format("at most reinforce.tokens = {}", options.windows.front().tokens),
                  std::to_string(options.overlong_cache), "reinforce.overlong_cache",
                  "reinforce.overlong_cache=0");
  if (options.group == 1 && !options.batch_normalised && !options.has_critic)
    refuse_option("a group of one answer has nothing to be compared with",
                  "reinforce.group of at least 2, or algorithm = reinforce_pp or ppo", "1", "reinforce.group",
                  "reinforce.group=8");
}

// Elsewhere products depend on the rows beside, or the mixer is added up with what stands beside it.
void check_exact(const recipe::Recipe& recipe) {
  const recipe::ModelConfig& model = recipe.model;
  const std::string dtype(recipe::name_of_value(recipe.train.dtype));
  const auto refuse_model = [](const std::string& expected, const std::string& found) {
    refuse_option("the trainer cannot have the engine's bits", expected, found, "reinforce.exact",
                  "reinforce.exact=false");
  };
  if (recipe.train.dtype != recipe::Dtype::kFp32 && recipe.train.dtype != recipe::Dtype::kBf16)
    refuse_model("train.dtype = fp32 or bf16", dtype);
  if (recipe.train.device.starts_with("cuda")) refuse_model("train.device = cpu", recipe.train.device);
  if (model.wiring == recipe::Wiring::kParallel && model.channel != recipe::Channel::kNone)
    refuse_model("another model.wiring", "parallel");
  if (model.toeplitz > 0) refuse_model("model.toeplitz = 0", std::to_string(model.toeplitz));
}

void check_rollouts(const ReinforceOptions& options, const recipe::ModelConfig& model) {
  if (options.ahead && options.correction > 0)
    refuse_option(
        "rollouts that are generated ahead take their ratios from the engine: nothing is left to correct",
        "reinforce.correction = 0", fmt::format("{}", options.correction),
        "reinforce.rollouts = ahead and reinforce.correction", "reinforce.correction=0");
  if (options.replays_routes && model::blocks_with_routers(model).empty())
    refuse_option("there are no routes to replay", "a model with experts", "model.experts = 0",
                  "reinforce.replay_routes", "reinforce.replay_routes=false");
}

void check_prompts(const ReinforceOptions& options) {
  const bool from_file = !options.prompts_file.empty();
  if (from_file == options.puzzles.empty()) return;
  refuse_option(from_file ? "prompts come from a file or are puzzles, not both" : "there are no prompts",
                "one of both", from_file ? "both" : "neither", "reinforce.prompts_file and reinforce.puzzles",
                from_file
                    ? "reinforce.puzzles='[]'"
                    : "reinforce.puzzles='[\"dyck_language\"]', or reinforce.prompts_file=prompts.jsonl");
}

}  // namespace

void check_options(const ReinforceOptions& options, const recipe::Recipe& recipe) {
  check_prompts(options);
  check_rewards(options);
  check_sizes(options, recipe.train);
  check_rollouts(options, recipe.model);
  if (options.exact) check_exact(recipe);
}

}  // namespace longhaul::posttrain
