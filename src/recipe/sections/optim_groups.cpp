#include "recipe/sections/optim_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "recipe/optimizers/optimizers.h"
#include "recipe/options/option.h"

namespace longhaul::recipe {

std::vector<std::string_view> names_of(Role) {
  return {"embedding", "position",    "norm",         "query",      "key",          "value",
          "gate",      "forget",      "lower_bound",  "output",     "router",       "expert_gate",
          "expert_up", "expert_down", "channel_gate", "channel_up", "channel_down", "head",
          "bias",      "convolution", "coefficient",  "write",      "prediction"};
}

std::string_view name_of(Role role) { return name_of_value(role); }

void declare(OptionSet& set, OptimGroup& group) {
  std::vector<std::string> names = {""};
  for (const OptimizerEntry* entry : optimizers()) names.emplace_back(entry->name);
  set.add("tensors", group.tensors,
          "Roles of the tensors that the entry is about; none, where set is named: all of that set.");
  set.add("set", group.set,
          "The set of the task's tensors that the entry is about, such as \"critic\"; empty: any.");
  set.add("name", group.name, "Their optimizer; empty: optim.name.").one_of(names);
  set.add("lr_factor", group.lr_factor, "On the learning rate.").at_least(0).at_most(1e6);
  set.add("weight_decay", group.weight_decay, "Of their matrices; -1: optim.weight_decay.")
      .at_least(-1)
      .at_most(100);
  set.add("beta1", group.beta1, "Decay of the first moment per step; -1: optim.beta1.")
      .at_least(-1)
      .at_most(0.999999999);
  set.add("beta2", group.beta2, "Decay of the second moment per step; -1: optim.beta2.")
      .at_least(-1)
      .at_most(0.999999999);
  set.add("state_dtype", group.state_dtype, "What their states are kept in; empty: optim.state_dtype.")
      .one_of({"", "float32", "bfloat16", "int8"});
}

namespace {

// Matrices that an optimizer of whole matrices takes: those of a layer, except tables of routers, bounds and
// taps.
bool is_whole_matrix(Role role, int64_t layer, const std::vector<int64_t>& shape) {
  return layer >= 0 && shape.size() == 2 && role != Role::kRouter && role != Role::kLowerBound &&
         role != Role::kPosition && role != Role::kConvolution && role != Role::kCoefficient;
}

bool is_about(const OptimGroup& group, Role role, std::string_view set) {
  if (!group.set.empty() && group.set != set) return false;
  if (group.tensors.empty()) return !group.set.empty();
  return std::ranges::find(group.tensors, role) != group.tensors.end();
}

size_t group_of(const OptimOptions& optim, Role role, std::string_view set) {
  for (size_t g = 0; g < optim.groups.size(); ++g) {
    if (is_about(optim.groups[g], role, set)) return g + 1;
  }
  return 0;
}

// For group number - 1, or 0: for the rest.
OptimRule rule_of_group(const OptimOptions& optim, size_t number) {
  OptimRule rule{.options = optim};
  rule.options.groups.clear();
  if (number == 0) return rule;
  const OptimGroup& group = optim.groups[number - 1];
  if (!group.name.empty()) rule.options.name = group.name;
  if (group.weight_decay >= 0) rule.options.weight_decay = group.weight_decay;
  if (group.beta1 >= 0) rule.options.beta1 = group.beta1;
  if (group.beta2 >= 0) rule.options.beta2 = group.beta2;
  if (!group.state_dtype.empty()) {
    const std::vector<std::string_view> names = names_of(StateDtype{});
    rule.options.state_dtype =
        static_cast<StateDtype>(std::ranges::find(names, group.state_dtype) - names.begin());
  }
  rule.lr_factor = group.lr_factor;
  return rule;
}

}  // namespace

// Rules: for the rest and for each group; then the same again, with the optimizer that stands beside that
// one.
size_t rule_of(const OptimOptions& optim, Role role, int64_t layer, const std::vector<int64_t>& shape,
               std::string_view set) {
  const size_t group = group_of(optim, role, set);
  const bool beside = optimizer_entry(rule_of_group(optim, group).options.name).whole_matrices &&
                      !is_whole_matrix(role, layer, shape);
  return beside ? optim.groups.size() + 1 + group : group;
}

OptimRule optim_rule(const OptimOptions& optim, size_t number) {
  const size_t groups = optim.groups.size() + 1;
  OptimRule rule = rule_of_group(optim, number % groups);
  if (number >= groups) rule.options.name = optimizer_entry(rule.options.name).beside;
  return rule;
}

size_t count_of_rules(const OptimOptions& optim) { return 2 * (optim.groups.size() + 1); }

StateFormats state_formats(const OptimOptions& optim, Role role, const std::vector<int64_t>& shape) {
  if (optim.state_dtype == StateDtype::kFloat32 || shape.size() != 2) return {};
  if (optim.state_dtype == StateDtype::kBfloat16) return {.first = StateDtype::kBfloat16};
  const bool table = role == Role::kEmbedding || role == Role::kPosition;
  if (table || shape[0] * shape[1] < optim.state_least) return {};
  return {StateDtype::kInt8, StateDtype::kInt8};
}

int64_t state_bytes(const OptimOptions& optim, Role role, int64_t layer, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& share, int64_t wide, std::string_view set) {
  const OptimRule rule = optim_rule(optim, rule_of(optim, role, layer, shape, set));
  const StateElements elements = state_elements(rule.options, share);
  const StateFormats formats = state_formats(rule.options, role, shape);
  int64_t outer = outer_state_bytes(optim.outer, wide) + (optim.average > 0 ? wide : 0);
  for (const int64_t size : share) outer *= size;
  const auto of_each = [&](StateDtype dtype, int64_t count) {
    if (dtype == StateDtype::kFloat32 || count == 0) return wide * count;
    if (dtype == StateDtype::kBfloat16) return 2 * count;
    return count + 4 * share[0] * ((share[1] + optim.state_block - 1) / optim.state_block);
  };
  return of_each(formats.first, elements.first) + of_each(formats.second, elements.second) +
         wide * elements.factors + outer;
}

void check_groups(const OptimOptions& optim, const std::vector<Role>& roles,
                  const std::vector<std::string>& sets) {
  std::vector<bool> taken(roles.size(), false);
  for (size_t g = 0; g < optim.groups.size(); ++g) {
    const OptimGroup& group = optim.groups[g];
    bool matches = false;
    for (size_t i = 0; i < roles.size(); ++i) {
      if (taken[i] || !is_about(group, roles[i], sets.empty() ? std::string_view() : sets[i])) continue;
      matches = taken[i] = true;
    }
    if (matches) continue;
    std::set<std::string_view> present, known_sets;
    for (const Role role : roles) present.insert(name_of(role));
    for (const std::string& set : sets) known_sets.insert(set.empty() ? "\"\"" : std::string_view(set));
    std::vector<std::string_view> named;
    for (const Role role : group.tensors) named.push_back(name_of(role));
    const std::string of_set = group.set.empty() ? "" : fmt::format(", of the set \"{}\"", group.set);
    throw Error({.code = ExitCode::kUsage,
                 .what = "an entry of optim.group is about no tensor of this model",
                 .expected = fmt::format(
                     "roles that it has and no entry before names: {}{}", fmt::join(present, ", "),
                     group.set.empty() ? "" : fmt::format("; sets: {}", fmt::join(known_sets, ", "))),
                 .found = (named.empty() ? "no roles" : fmt::format("{}", fmt::join(named, ", "))) + of_set,
                 .where = fmt::format("optim.group, entry {}", g + 1),
                 .hint = "take the entry out"});
  }
}

}  // namespace longhaul::recipe
