// [reinforce] of a recipe: what train.task = "reinforce" reads beside [model], [train] and [optim]. An
// algorithm sets loss, advantage and how tokens are summed; a number that the recipe leaves at −1 is the
// algorithm's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "posttrain/reinforce/advantages.h"
#include "posttrain/reinforce/policy_loss.h"
#include "recipe/recipe.h"

namespace longhaul::recipe {
class OptionSet;
}

namespace longhaul::posttrain {

void declare_reinforce(recipe::OptionSet& set, recipe::OutsideOptions& outside);

// One entry of reinforce.reward: "format*0.1".
struct RewardPart {
  std::string name;
  double weight = 1;
};

struct ReinforceOptions {
  std::string algorithm;
  PolicyLossOptions loss;
  Aggregation aggregation = Aggregation::kTokens;
  Baseline baseline = Baseline::kDeviation;
  double baseline_eps = 1e-6;
  bool batch_normalised = false;  // the advantages (REINFORCE++)
  bool has_critic = false;        // advantages of tokens, from a model of values (PPO)
  double kl = 0;
  KlEstimator kl_estimator = KlEstimator::kK3;
  double gamma = 1, lambda = 1;  // of generalised advantage estimation
  double critic_lr = 0;          // 0: that of [optim]
  double value_clip = 0;         // how far a value may go from the one of the rollout
  int64_t critic_warmup = 0;     // rollout batches
  double correction = 0;         // most of exp(l_old − l_gen); 0: no correction

  int64_t group = 0, prompts = 0, updates = 0;
  bool dynamic = false;
  int64_t rounds = 0;  // of generation for one rollout batch, at most

  bool ahead = false;           // a batch is generated before the steps on the one before it
  bool exact = false;           // the trainer's log-probabilities have the engine's bits
  bool replays_routes = false;  // the trainer sends tokens to the experts that the engine chose

  int64_t tokens = 0;  // of an answer, at most: the longest window
  // The longest answer from a step on, in order; the first from step 1.
  struct Window {
    int64_t from_step = 1, tokens = 0;
  };
  std::vector<Window> windows;
  int64_t window_at(int64_t step) const;
  double temperature = 1;
  int64_t loop_tokens = 0, sequences = 0;
  int64_t overlong_cache = 0;
  double overlong_weight = 1;
  bool masks_truncated = false;

  std::vector<RewardPart> reward;
  std::string regex, program, http;
  double verifier_seconds = 0;
  int64_t verifier_bytes = 0;

  std::string prompts_file, held_out_file, instruction;
  std::vector<std::string> puzzles;  // "dyck_language", "sudoku:3"
  std::string knobs;                 // "kinds=1,length=6"
  int64_t level = 0;
  bool adaptive = false;
  int64_t evaluate_prompts = 0;
  int64_t rollouts_every = 0;
  uint64_t seed = 0;
};

// kUsage: what cannot be right, with the option that would be. The recipe's [train] is looked at too.
ReinforceOptions reinforce_options(const recipe::Recipe& recipe);

}  // namespace longhaul::posttrain
