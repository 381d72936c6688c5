#include "run/start_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/progress.h"
#include "optim/schedule.h"
#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::run {
namespace {

std::string about_tokens(const recipe::TrainOptions& train, int64_t tokens) {
  if (tokens < train.sequence) {
    return fmt::format(
        "the corpus has {} training tokens, fewer than one sequence of {}: the rest of every sequence is "
        "padding. "
        "Name more text (data.source), or shorten train.sequence",
        count_text(tokens), count_text(train.sequence));
  }
  if (tokens < train.tokens_per_step()) {
    return fmt::format(
        "the corpus has {} training tokens, fewer than the {} of one step: every step reads all of them more "
        "than once. "
        "Name more text (data.source), or lower train.batch",
        count_text(tokens), count_text(train.tokens_per_step()));
  }
  return "";
}

// Compute threads never sleep: those that have no core keep the others from theirs.
std::string about_threads(const recipe::TrainOptions& train, int64_t cores) {
  if (cores == 0 || train.threads <= cores) return "";
  return fmt::format(
      "train.threads is {}, and this process may use {}: threads that wait for a core make every step "
      "slower. train.threads=0 takes all cores there are",
      count_text(train.threads), cores == 1 ? "one core" : fmt::format("{} cores", cores));
}

std::string about_adapters(const recipe::Recipe& recipe, const StartFacts& facts) {
  if (!recipe.model.lora.wanted() || facts.begins_with_weights) return "";
  return "the adapters ([lora]) stand beside weights that nobody has trained, and that stay as they are "
         "drawn. "
         "--from names a run, a checkpoint or a Hugging Face folder to begin with";
}

std::string about_warmup(const recipe::Recipe& recipe) {
  if (recipe.optim.steps_of_warmup() < recipe.train.steps) return "";
  return fmt::format(
      "the learning rate rises until the end: optim.warmup_steps is {}, train.steps {}. "
      "Fewer of the former, or more of the latter, leave steps at the full rate",
      count_text(recipe.optim.warmup_steps), count_text(recipe.train.steps));
}

// Steps that are as long as the weights of their tensor already (docs/sources/optimizers.md §13, of lamb).
std::string about_factors(const recipe::OptimOptions& optim) {
  for (const recipe::OptimGroup& group : optim.groups) {
    const recipe::OptimizerEntry& entry =
        recipe::optimizer_entry(group.name.empty() ? optim.name : group.name);
    if (!entry.scales_to_weights || group.lr_factor == 1 || group.tensors.empty()) continue;
    return fmt::format(
        "{} already makes the steps of each tensor as long as its weights are, and an entry of optim.group "
        "gives {} a lr_factor of {:g} besides: "
        "the two multiply, and are not meant for each other. Leave out one of them",
        entry.name, recipe::name_of(group.tensors.front()), group.lr_factor);
  }
  return "";
}

// A schedule that ran to its end has brought the rate down; another length stretches it, and the rate is up
// again.
std::string about_rate(const recipe::Recipe& recipe, const StartFacts& facts) {
  if (!facts.earlier || facts.resume_step < facts.earlier->train.steps) return "";
  // A warm-up that was cut off goes on as it was meant to; and a constant rate has come to no end: whoever
  // raised it has done so by hand. Restarts are meant to raise the rate.
  const recipe::Schedule before = facts.earlier->optim.schedule;
  if (facts.resume_step < recipe.optim.steps_of_warmup() || before == recipe::Schedule::kConstant ||
      before == recipe::Schedule::kCosineRestarts)
    return "";
  const double ended_at =
      optim::TrainSchedule(facts.earlier->optim, facts.earlier->train).learning_rate(facts.resume_step);
  const double goes_on_at =
      optim::TrainSchedule(recipe.optim, recipe.train).learning_rate(facts.resume_step + 1);
  if (goes_on_at <= ended_at * 1.01) return "";
  return fmt::format(
      "the learning rate rises again, from {:.3g} at step {} to {:.3g}: the schedule had come to its end at "
      "train.steps={}, and is now "
      "stretched to {}. The loss will rise with it; optim.schedule=constant optim.lr={:.3g} goes on as it "
      "ended",
      ended_at, count_text(facts.resume_step), goes_on_at, facts.earlier->train.steps, recipe.train.steps,
      ended_at);
}

std::string about_unread(const std::vector<std::string>& unread) {
  if (unread.empty()) return "";
  return fmt::format("this run does not read: {}. Leave out what is not meant, or choose what reads it",
                     fmt::join(unread, "; "));
}

// Packed weights are what it multiplies with, and they must be whole.
std::string about_products(const recipe::Recipe& recipe) {
  if (recipe.guard.products_every == 0) return "";
  const auto nothing = [](const std::string& why) {
    return fmt::format(
        "guard.products_every checks nothing {}. guard.replay_every does, where a micro-batch is computed "
        "twice",
        why);
  };
  const recipe::ParallelOptions& parallel = recipe.parallel;
  if (parallel.zero == 3 && parallel.world() > parallel.tp * parallel.pp)
    return nothing("with parallel.zero = 3: nobody has a layer's weights whole between steps");
  if (recipe.train.dtype == recipe::Dtype::kFp64)
    return nothing("with train.dtype = fp64: there are no packed weights");
  if (recipe.train.device.starts_with("cuda")) return nothing("on a GPU: there are no packed weights");
  return "";
}

// A mean over a handful of masked tokens says little, and a step without one has loss 0 and learns nothing.
std::string about_masks(const recipe::Recipe& recipe) {
  constexpr double kFew = 16;
  const double masked = recipe.train.masked_share * static_cast<double>(recipe.train.tokens_per_step());
  if (recipe.train.objective != recipe::Objective::kMasked || masked >= kFew) return "";
  return fmt::format(
      "about {:.2g} tokens of a step are masked (train.masked_share = {:g} of {}): a step in which none is "
      "has loss 0 and changes nothing. "
      "Raise train.masked_share, or train.batch",
      masked, recipe.train.masked_share, count_text(recipe.train.tokens_per_step()));
}

std::string about_validation(const recipe::Recipe& recipe, const StartFacts& facts) {
  if (!facts.earlier || facts.earlier->data.validation == recipe.data.validation) return "";
  return "data.validation names other paths than before: evaluations can be compared with earlier ones only "
         "if the same texts lie there";
}

}  // namespace

std::vector<std::string> start_warnings(const recipe::Recipe& recipe, const StartFacts& facts) {
  std::vector<std::string> warnings;
  if (facts.resume_step >= recipe.train.steps) return warnings;
  for (const std::string& text :
       {facts.reads_text ? about_tokens(recipe.train, facts.training_tokens) : "",
        about_threads(recipe.train, facts.cores), about_adapters(recipe, facts), about_warmup(recipe),
        about_factors(recipe.optim), about_rate(recipe, facts), about_unread(facts.unread),
        about_products(recipe), about_masks(recipe), about_validation(recipe, facts)}) {
    if (!text.empty()) warnings.push_back(text);
  }
  return warnings;
}

}  // namespace longhaul::run
