#include "posttrain/reinforce/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "posttrain/reinforce/option_checks.h"
#include "recipe/options/option.h"
#include "recipe/sections/outside_lists.h"

namespace longhaul::posttrain {
namespace {

// The parts of an algorithm, and its usual bounds.
struct Algorithm {
  const char* name;
  PolicyLoss loss;
  Aggregation aggregation;
  Baseline baseline;
  double clip_low, clip_high;
  bool batch_normalised = false;
  bool has_critic = false;
};
// That CISPO has no lower bound is its point (arXiv 2506.13585 §3.1); the authors of GSPO take bounds of its
// order (§5.1).
constexpr double kNone = 1e9;
constexpr Algorithm kAlgorithms[] = {
    {"grpo", PolicyLoss::kClip, Aggregation::kAnswers, Baseline::kDeviation, 0.2, 0.2},
    {"dapo", PolicyLoss::kClip, Aggregation::kTokens, Baseline::kDeviation, 0.2, 0.28},
    {"cispo", PolicyLoss::kCispo, Aggregation::kTokens, Baseline::kDeviation, kNone, 0.28},
    {"dr_grpo", PolicyLoss::kClip, Aggregation::kConstant, Baseline::kMean, 0.2, 0.2},
    {"gspo", PolicyLoss::kGspo, Aggregation::kAnswers, Baseline::kDeviation, 3e-4, 4e-4},
    {"rloo", PolicyLoss::kClip, Aggregation::kTokens, Baseline::kOthers, 0.2, 0.2},
    {"reinforce_pp", PolicyLoss::kClip, Aggregation::kTokens, Baseline::kMean, 0.2, 0.2, true},
    {"ppo", PolicyLoss::kClip, Aggregation::kTokens, Baseline::kMean, 0.2, 0.2, false, true},
    {"ecpo", PolicyLoss::kEcpo, Aggregation::kAnswers, Baseline::kDeviation, 0.2, 0.2},
    {"gbpo", PolicyLoss::kGbpo, Aggregation::kAnswers, Baseline::kDeviation, kNone, kNone},
};
// the last: as the algorithm has it
constexpr const char* kAggregations[] = {"tokens", "answers", "constant", ""};
constexpr const char* kEstimators[] = {"k1", "k2", "k3"};
constexpr const char* kRewards[] = {"puzzle", "puzzle_answer", "puzzle_parts", "format", "exact",
                                    "prefix", "regex",         "program",      "http"};

std::vector<std::string> names_of_algorithms() {
  std::vector<std::string> names;
  for (const Algorithm& each : kAlgorithms) names.emplace_back(each.name);
  return names;
}

size_t place_in(auto&& names, const std::string& name) {
  return static_cast<size_t>(std::ranges::find(names, name) - std::begin(names));
}

RewardPart reward_part(const std::string& text) {
  RewardPart part;
  const size_t star = text.find('*');
  part.name = text.substr(0, star);
  if (star != std::string::npos) {
    part.weight = parse_number<double>(std::string_view(text).substr(star + 1)).value_or(std::nan(""));
    if (!std::isfinite(part.weight))
      refuse_option("the weight of a reward is no number", "NAME or NAME*WEIGHT, as format*0.1", text,
                    "reinforce.reward", "reinforce.reward='[\"exact\"]'");
  }
  if (place_in(kRewards, part.name) == std::size(kRewards))
    refuse_option("there is no reward of this name", fmt::format("{}", fmt::join(kRewards, ", ")), part.name,
                  "reinforce.reward", "reinforce.reward='[\"exact\"]'");
  return part;
}

// reinforce.tokens, and what reinforce.stages make of it.
std::vector<ReinforceOptions::Window> windows_of(const recipe::OutsideOptions& outside) {
  std::vector<ReinforceOptions::Window> windows = {{1, outside.whole("reinforce.tokens")}};
  for (const std::string& text : recipe::list_of(outside, "reinforce.stages")) {
    const size_t colon = std::min(text.find(':'), text.size());
    const auto number = [&](std::string_view part) { return parse_number<int64_t>(part).value_or(0); };
    const std::string_view all = text;
    const ReinforceOptions::Window window{number(all.substr(0, colon)),
                                          number(all.substr(std::min(colon + 1, all.size())))};
    const ReinforceOptions::Window& before = windows.back();
    if (window.from_step <= before.from_step || window.tokens <= before.tokens)
      refuse_option("a stage of answers does not follow the one before it",
                    fmt::format("STEP:TOKENS with a step above {} and more than {} tokens", before.from_step,
                                before.tokens),
                    text, "reinforce.stages",
                    fmt::format("reinforce.stages='[\"{}:{}\"]'", before.from_step + 100, 2 * before.tokens));
    windows.push_back(window);
  }
  return windows;
}

void declare_algorithm(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  set.add("reinforce.algorithm", outside.text("reinforce.algorithm", "dapo"),
          "Loss, advantage and sum over tokens: grpo, dapo (clip-higher, all tokens alike), cispo (the "
          "weight is clipped, never the "
          "gradient), dr_grpo, gspo, rloo, reinforce_pp, ppo (with a critic), ecpo, gbpo; "
          "docs/guides/reinforcement.md has their "
          "formulas.")
      .one_of(names_of_algorithms());
  set.add("reinforce.clip_low", outside.number("reinforce.clip_low", -1),
          "Ratios below 1 − this are clipped; -1: as the algorithm has it.")
      .at_least(-1);
  set.add("reinforce.clip_high", outside.number("reinforce.clip_high", -1),
          "Ratios above 1 + this are clipped; -1: as the algorithm has it.")
      .at_least(-1);
  set.add("reinforce.dual_clip", outside.number("reinforce.dual_clip", 0),
          "For answers below the mean the loss is at most this times the advantage; 0: no such bound, else "
          "above 1.")
      .at_least(0);
  set.add("reinforce.sum", outside.text("reinforce.sum", ""),
          "How tokens become the loss: tokens (all alike), answers (all answers alike), constant (as "
          "answers, over reinforce.tokens); "
          "empty: as the algorithm has it.")
      .one_of({std::begin(kAggregations), std::end(kAggregations)})
      .also_called({"loss_agg_mode", "aggregation"});
  set.add("reinforce.kl", outside.number("reinforce.kl", 0),
          "Coefficient of the divergence from the model that the run began with, of which a copy is kept; 0: "
          "none.")
      .at_least(0)
      .also_called({"beta", "kl_coef", "kl_loss_coef"});
  set.add("reinforce.kl_estimator", outside.text("reinforce.kl_estimator", "k3"),
          "Its estimate from one token: k1, k2 or k3.")
      .one_of({std::begin(kEstimators), std::end(kEstimators)});
  set.add("reinforce.correction", outside.number("reinforce.correction", 0),
          "Tokens weigh exp(l_old - l_gen), at most this: for rollouts whose log-probabilities differ from "
          "the trainer's; 0: off.")
      .at_least(0)
      .also_called({"tis", "rollout_correction"});
}

void declare_critic(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  set.add("reinforce.gamma", outside.number("reinforce.gamma", 1),
          "Of ppo: what the value of the next token counts (generalised advantage estimation).")
      .at_least(0)
      .at_most(1);
  set.add("reinforce.lambda", outside.number("reinforce.lambda", 1),
          "Of ppo: what the advantage of the next token counts; 1: returns are the answer's reward.")
      .at_least(0)
      .at_most(1)
      .also_called({"gae_lambda", "lam"});
  set.add("reinforce.critic_lr", outside.number("reinforce.critic_lr", 0),
          "Of ppo: learning rate of the critic, in place of optim.lr in the same schedule; 0: optim.lr.")
      .at_least(0);
  set.add("reinforce.value_clip", outside.number("reinforce.value_clip", 0.2),
          "Of ppo: beyond this distance from the value at the rollout, the critic's loss has no gradient.")
      .above(0)
      .also_called({"cliprange_value"});
  set.add("reinforce.critic_warmup", outside.whole("reinforce.critic_warmup", 0),
          "Of ppo: rollout batches that train the critic alone, before the first step.")
      .unit("batches")
      .at_least(0);
}

void declare_rollouts(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  set.add("reinforce.rollouts", outside.text("reinforce.rollouts", "now"),
          "When a rollout batch is generated: now (with the weights that are about to be trained) or ahead "
          "(before the steps on the batch before it, one batch off; ratios are taken from the engine's "
          "log-probabilities).")
      .one_of({"now", "ahead"});
  set.add("reinforce.exact", outside.flag("reinforce.exact", false),
          "The trainer's forward pass has the bits that the engine had: sequence mixers and the head are "
          "computed a second time, in the engine's order. On the CPU, bf16 or fp32.");
  set.add("reinforce.replay_routes", outside.flag("reinforce.replay_routes", false),
          "Experts: the trainer sends every token where the engine sent it.")
      .also_called({"router_replay", "routing_replay"});
  set.add("reinforce.group", outside.whole("reinforce.group", 8), "Answers to each prompt.")
      .unit("answers")
      .at_least(1)
      .at_most(4096)
      .also_called({"num_generations", "n", "samples_per_prompt"});
  set.add("reinforce.prompts", outside.whole("reinforce.prompts", 16), "Prompts of a rollout batch.")
      .unit("prompts")
      .at_least(1)
      .at_most(1 << 20)
      .also_called({"train_batch_size", "rollout_batch_size"});
  set.add("reinforce.updates", outside.whole("reinforce.updates", 1),
          "Optimizer steps on each rollout batch, each on its part of the prompts.")
      .unit("steps")
      .at_least(1)
      .at_most(1024);
  set.add("reinforce.dynamic", outside.flag("reinforce.dynamic", true),
          "Dynamic sampling: groups whose answers all have the same reward are left out, and others "
          "generated in their place. With a critic (ppo) all answers teach, and none is left out.")
      .also_called({"filter_groups", "dynamic_sampling"});
  set.add("reinforce.rounds", outside.whole("reinforce.rounds", 10),
          "Rounds of generation for one rollout batch, at most; what is missing then is missing, and told.")
      .unit("rounds")
      .at_least(1);
  set.add("reinforce.tokens", outside.whole("reinforce.tokens", 256),
          "Longest answer; the token that ends it counts.")
      .unit("tokens")
      .at_least(1)
      .also_called({"max_completion_length", "max_response_length"});
  recipe::add_outside_list(set, "reinforce.stages", recipe::outside_list(outside, "reinforce.stages", {}),
                           "Longer answers from a step on, as STEP:TOKENS, in order: [\"200:512\", "
                           "\"400:1024\"]; reinforce.tokens is what the run begins with.");
  set.add("reinforce.temperature", outside.number("reinforce.temperature", 1),
          "Of sampling, and of every log-probability that the losses take.")
      .above(0);
  set.add("reinforce.loop_tokens", outside.whole("reinforce.loop_tokens", 0),
          "An answer ends after so many tokens in a row of probability above 0.99; 0: it goes on.")
      .unit("tokens")
      .at_least(0);
  set.add("reinforce.sequences", outside.whole("reinforce.sequences", 256),
          "Answers that a rank generates at once, at most.")
      .unit("answers")
      .at_least(1)
      .may_change();
  set.add("reinforce.overlong_cache", outside.whole("reinforce.overlong_cache", 0),
          "Answers lose reward over the last so many of reinforce.tokens, down to -1; 0: none does.")
      .unit("tokens")
      .at_least(0);
  set.add("reinforce.overlong_weight", outside.number("reinforce.overlong_weight", 1),
          "What that penalty is multiplied by.")
      .at_least(0);
  set.add("reinforce.mask_truncated", outside.flag("reinforce.mask_truncated", false),
          "Answers that did not end are not trained on.");
  set.add("reinforce.rollouts_every", outside.whole("reinforce.rollouts_every", 1),
          "Steps from one file rollouts/STEP.jsonl to the next; 0: none is written.")
      .unit("steps")
      .at_least(0)
      .may_change();
}

void declare_prompts(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  set.add("reinforce.prompts_file", outside.text("reinforce.prompts_file", ""),
          "Prompts as JSONL: \"prompt\", and \"answer\" (or \"completion\") where the reward compares with "
          "one; \"task\" names it in metrics.")
      .path();
  set.add("reinforce.held_out_file", outside.text("reinforce.held_out_file", ""),
          "Prompts to evaluate on, in the same form; empty: those of training.")
      .path()
      .may_change();
  recipe::add_outside_list(set, "reinforce.puzzles", recipe::outside_list(outside, "reinforce.puzzles", {}),
                           "Puzzles to solve, as NAME or NAME:LEVEL (longhaul puzzles list); their prompts "
                           "are made as the run goes.");
  set.add("reinforce.knobs", outside.text("reinforce.knobs", ""),
          "Knobs of the puzzles that differ from their level's: \"kinds=1,length=6\".");
  set.add("reinforce.level", outside.whole("reinforce.level", 0),
          "Level of puzzles without one; with reinforce.adaptive the first that is open.")
      .at_least(0)
      .at_most(10);
  set.add("reinforce.adaptive", outside.flag("reinforce.adaptive", false),
          "Levels follow what the model solves: they weigh as the variance of their reward, and the next "
          "opens when one is mastered.");
  set.add("reinforce.instruction", outside.text("reinforce.instruction", ""),
          "Text around each prompt, with {prompt} where it goes; empty: the prompt alone.")
      .also_called({"template", "system_prompt"});
  set.add("reinforce.evaluate_prompts", outside.whole("reinforce.evaluate_prompts", 64),
          "Prompts that an evaluation answers, each once and with its likeliest tokens; puzzles are of a "
          "part that is never trained on.")
      .unit("prompts")
      .at_least(1)
      .may_change();
}

void declare_rewards(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  recipe::add_outside_list(set, "reinforce.reward",
                           recipe::outside_list(outside, "reinforce.reward", {"exact"}),
                           "Rewards that are added up, as NAME or NAME*WEIGHT: puzzle (format and answer "
                           "right), puzzle_answer (the text is the answer), "
                           "puzzle_parts (quarters), format (think and answer tags), exact, prefix (share of "
                           "the answer that is right from its beginning), regex, "
                           "program, http.");
  set.add("reinforce.regex", outside.text("reinforce.regex", ""),
          "Of the reward regex: its last match in the text is the answer, or the first group of it.");
  set.add("reinforce.program", outside.text("reinforce.program", ""),
          "Of the reward program: a command of the shell that reads one JSON object a line (prompt, "
          "response, answer, task) and writes one "
          "number a line.")
      .may_change();
  set.add("reinforce.http", outside.text("reinforce.http", ""),
          "Of the reward http: URL that takes {\"data_sources\", \"solution_strs\", \"ground_truths\", "
          "\"extra_infos\"} and answers "
          "{\"scores\"}, as puzzles serve-rewards does.")
      .may_change();
  set.add("reinforce.verifier_seconds", outside.number("reinforce.verifier_seconds", 60),
          "A program or server that takes longer has failed.")
      .unit("seconds")
      .above(0)
      .may_change();
  set.add("reinforce.verifier_bytes", outside.whole("reinforce.verifier_bytes", int64_t{2} << 30),
          "Address space of a process of the program.")
      .unit("bytes")
      .at_least(1 << 20)
      .may_change();
}

void read_algorithm(const recipe::OutsideOptions& outside, ReinforceOptions& options) {
  options.algorithm = outside.text("reinforce.algorithm");
  const auto& entry = *std::ranges::find_if(
      kAlgorithms, [&](const Algorithm& each) { return each.name == options.algorithm; });
  const auto or_own = [&](const char* name, double own) {
    const double given = outside.number(name);
    return given < 0 ? own : given;
  };
  options.loss = {.loss = entry.loss,
                  .clip_low = or_own("reinforce.clip_low", entry.clip_low),
                  .clip_high = or_own("reinforce.clip_high", entry.clip_high),
                  .dual_clip = outside.number("reinforce.dual_clip")};
  if (options.loss.dual_clip > 0 && options.loss.dual_clip <= 1)
    refuse_option("the dual clip would take the gradient of the first update", "0, or above 1",
                  fmt::format("{}", options.loss.dual_clip), "reinforce.dual_clip", "reinforce.dual_clip=3");
  options.baseline = entry.baseline;
  options.batch_normalised = entry.batch_normalised;
  options.has_critic = entry.has_critic;
  options.aggregation = entry.aggregation;
  const std::string sum = outside.text("reinforce.sum");
  const bool whole_answers = entry.loss == PolicyLoss::kGspo || entry.loss == PolicyLoss::kEcpo;
  if (!sum.empty()) {
    if (whole_answers && sum != "answers")
      refuse_option(fmt::format("{} is a loss of whole answers", options.algorithm),
                    "reinforce.sum = answers", sum, "reinforce.sum", "reinforce.sum=answers");
    options.aggregation = static_cast<Aggregation>(place_in(kAggregations, sum));
  }
  options.kl = outside.number("reinforce.kl");
  options.kl_estimator =
      static_cast<KlEstimator>(place_in(kEstimators, outside.text("reinforce.kl_estimator")));
  options.correction = outside.number("reinforce.correction");
  options.gamma = outside.number("reinforce.gamma");
  options.lambda = outside.number("reinforce.lambda");
  options.critic_lr = outside.number("reinforce.critic_lr");
  options.value_clip = outside.number("reinforce.value_clip");
  options.critic_warmup = outside.whole("reinforce.critic_warmup");
}

}  // namespace

void declare_reinforce(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  declare_algorithm(set, outside);
  declare_critic(set, outside);
  declare_rollouts(set, outside);
  declare_prompts(set, outside);
  declare_rewards(set, outside);
}

ReinforceOptions reinforce_options(const recipe::Recipe& recipe) {
  const recipe::OutsideOptions& outside = recipe.outside;
  ReinforceOptions options;
  read_algorithm(outside, options);
  options.group = outside.whole("reinforce.group");
  options.prompts = outside.whole("reinforce.prompts");
  options.updates = outside.whole("reinforce.updates");
  options.dynamic = outside.flag("reinforce.dynamic") && options.group > 1 && !options.has_critic;
  options.rounds = outside.whole("reinforce.rounds");
  options.ahead = outside.text("reinforce.rollouts") == "ahead";
  options.exact = outside.flag("reinforce.exact");
  options.replays_routes = outside.flag("reinforce.replay_routes");
  options.windows = windows_of(outside);
  options.tokens = options.windows.back().tokens;
  options.temperature = outside.number("reinforce.temperature");
  options.loop_tokens = outside.whole("reinforce.loop_tokens");
  options.sequences = outside.whole("reinforce.sequences");
  options.overlong_cache = outside.whole("reinforce.overlong_cache");
  options.overlong_weight = outside.number("reinforce.overlong_weight");
  options.masks_truncated = outside.flag("reinforce.mask_truncated");
  for (const std::string& text : recipe::list_of(outside, "reinforce.reward"))
    options.reward.push_back(reward_part(text));
  options.regex = outside.text("reinforce.regex");
  options.program = outside.text("reinforce.program");
  options.http = outside.text("reinforce.http");
  options.verifier_seconds = outside.number("reinforce.verifier_seconds");
  options.verifier_bytes = outside.whole("reinforce.verifier_bytes");
  options.prompts_file = outside.text("reinforce.prompts_file");
  options.held_out_file = outside.text("reinforce.held_out_file");
  options.instruction = outside.text("reinforce.instruction");
  options.puzzles = recipe::list_of(outside, "reinforce.puzzles");
  options.knobs = outside.text("reinforce.knobs");
  options.level = outside.whole("reinforce.level");
  options.adaptive = outside.flag("reinforce.adaptive");
  options.evaluate_prompts = outside.whole("reinforce.evaluate_prompts");
  options.rollouts_every = outside.whole("reinforce.rollouts_every");
  options.seed = static_cast<uint64_t>(recipe.train.seed);
  check_options(options, recipe);
  return options;
}

int64_t ReinforceOptions::window_at(int64_t step) const {
  const Window* now = &windows.front();
  for (const Window& window : windows) {
    if (window.from_step <= step) now = &window;
  }
  return now->tokens;
}

}  // namespace longhaul::posttrain
