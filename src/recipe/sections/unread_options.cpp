#include "recipe/sections/unread_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "recipe/optimizers/optimizers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {
namespace {

// An option that is read only if something else is chosen.
struct Condition {
  std::string_view option;
  bool (*read)(const Recipe& recipe);
  std::string_view where;
};

bool has_int8_states(const Recipe& recipe) {
  return recipe.optim.state_dtype == StateDtype::kInt8 ||
         std::ranges::any_of(recipe.optim.groups,
                             [](const OptimGroup& group) { return group.state_dtype == "int8"; });
}
bool has_adapters(const Recipe& recipe) { return recipe.model.lora.wanted(); }
bool distills(const Recipe& recipe) { return recipe.train.distill.wanted(); }
bool has_spikes(const Recipe& recipe) { return recipe.model.spikes.wanted(); }
bool has_windows(const Recipe& recipe) {
  return std::ranges::any_of(recipe.model.softmax.windows, [](int64_t window) { return window > 0; });
}
bool recomputes(const Recipe& recipe) { return recipe.train.recompute != Recompute::kNone; }
bool offloads_to_host(const Recipe& recipe) { return recipe.train.offload == Offload::kHost; }
bool batch_grows(const Recipe& recipe) { return recipe.optim.batch_growth > 0; }
bool rolls_back(const Recipe& recipe) { return recipe.guard.on_spike == OnSpike::kRollBack; }
bool has_outer(const Recipe& recipe) { return recipe.optim.outer.method != Outer::kNone; }
bool is_co2(const Recipe& recipe) { return recipe.optim.outer.method == Outer::kCo2; }
bool is_late_co2(const Recipe& recipe) { return is_co2(recipe) && recipe.optim.outer.overlap; }
bool is_streaming(const Recipe& recipe) { return recipe.optim.outer.method == Outer::kStreaming; }
bool is_wsd(const Recipe& recipe) { return recipe.optim.schedule == Schedule::kWsd; }
bool is_polynomial(const Recipe& recipe) { return recipe.optim.schedule == Schedule::kPolynomial; }
bool is_one_cycle(const Recipe& recipe) { return recipe.optim.schedule == Schedule::kOneCycle; }
bool may_warm_up(const Recipe& recipe) { return !is_one_cycle(recipe); }
bool warms_up(const Recipe& recipe) { return may_warm_up(recipe) && recipe.optim.warmup_steps > 0; }
bool restarts(const Recipe& recipe) { return recipe.optim.schedule == Schedule::kCosineRestarts; }
bool decays_to_fraction(const Recipe& recipe) {
  return recipe.optim.schedule != Schedule::kConstant && !is_one_cycle(recipe);
}
bool decay_has_length(const Recipe& recipe) {
  return decays_to_fraction(recipe) && !restarts(recipe) && recipe.optim.schedule != Schedule::kInverseSqrt;
}
bool weight_decay_changes(const Recipe& recipe) { return recipe.optim.weight_decay_from != 1; }
bool late_work_stays(const Recipe& recipe) { return keeps_local_work(recipe.optim.outer.method); }
bool gap_is_constant(const Recipe& recipe) {
  return is_co2(recipe) && recipe.optim.outer.gap == OuterGap::kConstant;
}

constexpr Condition kConditions[] = {
    {"train.recompute_layers", recomputes, "train.recompute"},
    {"train.offload_share", offloads_to_host, "train.offload = host"},
    {"train.offload_memory", offloads_to_host, "train.offload = host"},
    {"optim.state_block", has_int8_states, "optim.state_dtype = int8"},
    {"optim.state_least", has_int8_states, "optim.state_dtype = int8"},
    {"optim.weight_decay_rise", weight_decay_changes, "optim.weight_decay_from is not 1"},
    {"optim.warmup_steps", may_warm_up, "optim.schedule is not one_cycle"},
    {"optim.warmup_from", warms_up, "optim.warmup_steps is above 0"},
    {"optim.warmup_rise", warms_up, "optim.warmup_steps is above 0"},
    {"optim.wsd_fall", is_wsd, "optim.schedule = wsd"},
    {"optim.decay_power", is_polynomial, "optim.schedule = polynomial"},
    {"optim.decay_steps", decay_has_length, "optim.schedule = linear, cosine, polynomial or wsd"},
    {"optim.final_lr_fraction", decays_to_fraction, "optim.schedule is neither constant nor one_cycle"},
    {"optim.cycle_rise", is_one_cycle, "optim.schedule = one_cycle"},
    {"optim.cycle_start_divisor", is_one_cycle, "optim.schedule = one_cycle"},
    {"optim.cycle_end_divisor", is_one_cycle, "optim.schedule = one_cycle"},
    {"optim.cycle_form", is_one_cycle, "optim.schedule = one_cycle"},
    {"optim.cycle_symmetric", is_one_cycle, "optim.schedule = one_cycle"},
    {"optim.restart_steps", restarts, "optim.schedule = cosine_restarts"},
    {"optim.restart_factor", restarts, "optim.schedule = cosine_restarts"},
    {"optim.batch_most", batch_grows, "optim.batch_growth is above 0"},
    {"optim.batch_lr_power", batch_grows, "optim.batch_growth is above 0"},
    {"optim.outer_momentum", has_outer, "optim.outer is not none"},
    {"optim.outer_lr", has_outer, "optim.outer is not none"},
    {"optim.outer_by_lr", has_outer, "optim.outer is not none"},
    {"optim.outer_clip", is_co2, "optim.outer = co2"},
    {"optim.outer_gap", is_co2, "optim.outer = co2"},
    {"optim.outer_gap_value", gap_is_constant, "optim.outer = co2 and optim.outer_gap = constant"},
    {"optim.outer_overlap", is_co2, "optim.outer = co2"},
    {"optim.outer_guard", is_late_co2, "optim.outer = co2 and optim.outer_overlap = true"},
    {"optim.outer_synchronous_start", is_late_co2, "optim.outer = co2 and optim.outer_overlap = true"},
    {"optim.outer_wire", has_outer, "optim.outer is not none"},
    {"optim.outer_delay", late_work_stays, "optim.outer = delay_corrected or streaming"},
    {"optim.outer_fragments", is_streaming, "optim.outer = streaming"},
    {"optim.outer_mix", is_streaming, "optim.outer = streaming"},
    {"lora.alpha", has_adapters, "lora.rank is above 0"},
    {"lora.targets", has_adapters, "lora.rank is above 0"},
    {"lora.kind", has_adapters, "lora.rank is above 0"},
    {"train.distill.weight", distills, "train.distill.from names a model"},
    {"train.distill.temperature", distills, "train.distill.from names a model"},
    {"train.distill.hidden", distills, "train.distill.from names a model"},
    {"spikes.k", has_spikes, "spikes.coding is not none"},
    {"spikes.weights", has_spikes, "spikes.coding is not none"},
    {"model.softmax.window_plus_one", has_windows, "model.softmax.windows has a window"},
    {"guard.spike_back", rolls_back, "guard.on_spike = roll_back"},
    {"guard.rollbacks", rolls_back, "guard.on_spike = roll_back"},
    {"guard.rate_factor", rolls_back, "guard.on_spike = roll_back"},
};

// The optimizers that read an option of single optimizers; none: all read it, or it is not such an option.
std::vector<std::string_view> readers_of(std::string_view option) {
  std::vector<std::string_view> names;
  for (const OptimizerEntry* entry : optimizers()) {
    if (option.starts_with("optim.") && reads(*entry, option.substr(6))) names.push_back(entry->name);
  }
  return names;
}

// The optimizers to which the recipe gives tensors.
std::set<std::string> names_in(const OptimOptions& optim) {
  std::set<std::string> names = {optim.name};
  for (const OptimGroup& group : optim.groups) {
    if (!group.name.empty()) names.insert(group.name);
  }
  return names;
}

// True for the command line, or the recipe itself: a base file is for other recipes too.
bool said_of_this(const LoadedRecipe& loaded, const Origin& origin) {
  if (origin.kind == Origin::Kind::kCommandLine ||
      origin.earlier == Origin{.kind = Origin::Kind::kCommandLine}.text())
    return true;
  return origin.kind == Origin::Kind::kFile && origin.earlier.empty() &&
         origin.detail.starts_with(loaded.source + ":");
}

void add_unread_of_groups(const OptimOptions& optim, std::vector<std::string>& out) {
  for (size_t g = 0; g < optim.groups.size(); ++g) {
    const OptimGroup& group = optim.groups[g];
    const OptimizerEntry& entry = optimizer_entry(group.name.empty() ? optim.name : group.name);
    for (const auto& [option, given] :
         {std::pair("beta1", group.beta1 >= 0), std::pair("beta2", group.beta2 >= 0)}) {
      if (given && !reads(entry, option))
        out.push_back(fmt::format("{} of optim.group, entry {} ({} has none)", option, g + 1, entry.name));
    }
  }
}

}  // namespace

std::vector<std::string> unread_options(const LoadedRecipe& loaded) {
  Recipe recipe = loaded.recipe, usual;
  const OptionSet options = options_of(recipe), defaults = options_of(usual);
  const std::set<std::string> used = names_in(recipe.optim);
  std::vector<std::string> unread;
  for (size_t i = 0; i < options.all().size(); ++i) {
    const Option& option = options.all()[i];
    if (option.get() == defaults.all()[i].get() || !said_of_this(loaded, loaded.origin(option.name)))
      continue;
    const auto condition = std::ranges::find(kConditions, option.name, &Condition::option);
    if (condition != std::end(kConditions) && !condition->read(recipe))
      unread.push_back(fmt::format("{} (read where {})", option.name, condition->where));
    const std::vector<std::string_view> readers = readers_of(option.name);
    const bool nobody = std::ranges::none_of(
        readers, [&](std::string_view name) { return used.contains(std::string(name)); });
    if (!readers.empty() && nobody)
      unread.push_back(fmt::format("{} (read by {})", option.name, fmt::join(readers, ", ")));
  }
  add_unread_of_groups(recipe.optim, unread);
  return unread;
}

}  // namespace longhaul::recipe
