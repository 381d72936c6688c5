#include "recipe/checks/checks.h"

#include <algorithm>
#include <set>

#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::recipe {
namespace {

// Fragments are sent one after the other, so that each has arrived before the next one goes.
void late_exchanges(const Recipe& recipe, const auto& refuse) {
  const OuterOptions& options = recipe.optim.outer;
  if (options.method != Outer::kNone && recipe.optim.average > 0)
    refuse({"optim.outer", "optim.average"},
           "the weights of workers of an outer loop are not averaged over steps", "optim.average=0");
  const int64_t fragments = outer_fragments_of(options), layers = recipe.model.layers;
  if (fragments > layers) {
    refuse({"optim.outer_fragments", "model.layers"},
           fmt::format("{} fragments of {} layers: some would be empty", fragments, layers),
           fmt::format("optim.outer_fragments={}", layers));
  }
  if (options.delay > 0 && !keeps_local_work(options.method)) {
    refuse({"optim.outer_delay"}, "optim.outer_delay is for delay_corrected and streaming",
           "optim.outer_delay=0");
  } else if (options.delay > 0 && options.every == 0) {
    refuse({"optim.outer_delay", "optim.outer_every"},
           "optim.outer_delay is a part of a round whose length is chosen only later",
           fmt::format("optim.outer_every={}, or optim.outer_delay=0", 2 * options.delay * fragments));
  } else if (options.every % fragments != 0) {
    refuse({"optim.outer_every", "optim.outer_fragments"},
           fmt::format("{} fragments cannot be sent at equal distances within optim.outer_every = {} steps",
                       fragments, options.every),
           fmt::format("optim.outer_every={}", (options.every / fragments + 1) * fragments));
  } else if (options.delay > options.every / fragments) {
    refuse({"optim.outer_delay", "optim.outer_every"},
           fmt::format(
               "an exchange would go on for optim.outer_delay = {} steps, and the next one begins after {}",
               options.delay, options.every / fragments),
           fmt::format("optim.outer_delay={}, or 0", options.every / fragments));
  }
}

// States narrower than the arithmetic (docs/design/optimizers.md).
void narrow_states(const Recipe& recipe, Problems& out) {
  std::set<std::string_view> dtypes = {names_of(StateDtype{})[static_cast<size_t>(recipe.optim.state_dtype)]};
  for (const OptimGroup& group : recipe.optim.groups) dtypes.insert(group.state_dtype);
  dtypes.erase(""), dtypes.erase("float32");
  if (dtypes.empty()) return;
  const std::string states = fmt::format("optim.state_dtype = {}", *dtypes.begin());
  if (recipe.train.dtype == Dtype::kFp64) {
    out.push_back({{"optim.state_dtype", "train.dtype"},
                   states + ": with train.dtype = fp64 all states are fp64, which is for proofs",
                   "optim.state_dtype=float32, or train.dtype=fp32"});
  }
  if (recipe.train.device.starts_with("cuda"))
    out.push_back({{"optim.state_dtype", "train.device"},
                   states + " is for training on the CPU",
                   "optim.state_dtype=float32"});
}

// The options that are impossible with islands that train independently (docs/design/outer-loops.md). Their
// number is known when a run begins.
void outer(const Recipe& recipe, Problems& out) {
  const OuterOptions& options = recipe.optim.outer;
  const auto refuse = [&](std::vector<std::string> keys, std::string reason, std::string hint) {
    keys.insert(keys.begin(), "optim.outer");
    out.push_back({std::move(keys), std::move(reason), std::move(hint)});
  };
  const std::string method(names_of(options.method)[static_cast<size_t>(options.method)]);
  if (options.method == Outer::kNone) {
    if (recipe.parallel.workers == 0 && options.every == 0) return;
    const std::string key = recipe.parallel.workers > 0 ? "parallel.workers" : "optim.outer_every";
    return refuse({key}, fmt::format("{} is for outer loops, and optim.outer = none", key),
                  fmt::format("optim.outer=co2, or {}=0", key));
  }
  if (recipe.train.elastic) {
    refuse(
        {"train.elastic"},
        fmt::format(
            "train.elastic = true: what {} workers learn between two exchanges depends on how many there are",
            method),
        "train.elastic=false, or optim.outer=none");
  }
  if (recipe.train.device.starts_with("cuda"))
    refuse({"train.device"}, "outer loops are for training on the CPU", "train.device=cpu");
  if (recipe.model.router.bias_rate > 0) {
    refuse({"model.router_bias_rate"},
           "routers' biases that follow the choices of one worker's tokens would be each worker's own",
           "model.router_bias_rate=0");
  }
  if (recipe.model.experts > 0 && recipe.model.router.choice == RouterChoice::kQuantile) {
    refuse({"model.router_choice"},
           "routers' thresholds that follow one worker's tokens would be each worker's own",
           "model.router_choice=score");
  }
  if (recipe.guard.on_spike >= OnSpike::kSkip) {
    refuse({"guard.on_spike"}, "workers that train by themselves cannot leave out a step or go back together",
           "guard.on_spike=tell");
  }
  late_exchanges(recipe, refuse);
  if (options.every == 0) return;
  if (2 * options.every > recipe.train.steps) {
    refuse({"optim.outer_every", "train.steps"},
           fmt::format("rounds of optim.outer_every = {} steps do not fit twice into train.steps = {}",
                       options.every, recipe.train.steps),
           fmt::format("optim.outer_every={}", std::max<int64_t>(1, recipe.train.steps / 4)));
  }
  for (const OptimStage& stage : recipe.optim.stages) {
    if (stage.from_step == 0 || (stage.from_step - 1) % options.every == 0) continue;
    const int64_t begin = (stage.from_step - 1) / options.every * options.every + 1;
    refuse({"optim.outer_every", "optim.stages"},
           fmt::format("a stage from step {} begins inside a round of optim.outer_every = {} steps, whose "
                       "workers' gradients count alike",
                       stage.from_step, options.every),
           fmt::format("from_step = {} or {}", begin, begin + options.every));
  }
}

// For muP the change of an optimizer's step with width must be known, which is so for some optimizers only.
void width(const Recipe& recipe, Problems& out) {
  if (recipe.model.mup_base_hidden == 0) return;
  for (size_t number = 0; number <= recipe.optim.groups.size(); ++number) {
    const OptimOptions rule = optim_rule(recipe.optim, number).options;
    if (width_rule_of(rule) != WidthRule::kUnknown) continue;
    out.push_back({{"model.mup_base_hidden", "optim.name"},
                   fmt::format("model.mup_base_hidden = {}: how far {} moves a matrix as the model becomes "
                               "wider has no published rule",
                               recipe.model.mup_base_hidden, rule.name),
                   std::string(optimizer_entry(rule.name).width_hint)});
  }
}

// Numbers with which one of the recipe's optimizers cannot work.
void refusals(const OptimOptions& optim, Problems& out) {
  for (size_t number = 0; number <= optim.groups.size(); ++number) {
    const std::optional<OptimizerRefusal> refusal = refusal_of(optim_rule(optim, number).options);
    if (!refusal) continue;
    return out.push_back({{fmt::format("optim.{}", refusal->option), fmt::format("optim.{}", refusal->with)},
                          std::string(refusal->reason),
                          fmt::format("optim.{}={}", refusal->option, refusal->expected)});
  }
}

// Schedules without what they need.
void schedules(const Recipe& recipe, Problems& out) {
  const OptimOptions& optim = recipe.optim;
  if (optim.schedule == Schedule::kCosineRestarts && optim.restart_steps == 0) {
    const int64_t quarter = (recipe.train.steps - optim.steps_of_warmup()) / 4;
    out.push_back({{"optim.schedule", "optim.restart_steps"},
                   "optim.schedule = cosine_restarts needs the length of its first cycle",
                   fmt::format("optim.restart_steps={}", std::max<int64_t>(1, quarter))});
  }
  if (optim.schedule == Schedule::kOneCycle && optim.cycle_symmetric && optim.cycle_rise > 0.5) {
    out.push_back(
        {{"optim.cycle_rise", "optim.cycle_symmetric"},
         fmt::format("optim.cycle_rise = {:g}: a symmetric cycle falls as long as it rises, and half "
                     "of train.steps is the most that each may have",
                     optim.cycle_rise),
         "optim.cycle_rise=0.45"});
  }
}

}  // namespace

void check_optimizers(const Recipe& recipe, Problems& out) {
  refusals(recipe.optim, out);
  schedules(recipe, out);
  narrow_states(recipe, out);
  outer(recipe, out);
  width(recipe, out);
}

}  // namespace longhaul::recipe
