// Which optimizer a tensor has, with which numbers. A recipe's [optim] is that of all tensors; entries of optim.group are others' of some roles:
//
//   [[optim.group]]
//   tensors = ["embedding", "head"]
//   name = "adamw"
//   lr_factor = 0.5
//
// The first entry that names a tensor's role has it. Where the optimizer is muon, what is no matrix of a layer (embedding, head, router, norms,
// biases, bounds) has adamw, with the same numbers. Each such choice is a rule; rules are numbered. Plain data; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe/mixers.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::recipe {

std::string_view name_of(Role role);  // "expert_gate"

struct OptimRule {
  OptimOptions options;  // without groups
  double lr_factor = 1;  // on the learning rate of the schedule
};
// The rule a tensor follows: its number, and what each number stands for. `layer`: -1 outside the layers.
size_t rule_of(const OptimOptions& optim, Role role, int64_t layer, const std::vector<int64_t>& shape);
OptimRule optim_rule(const OptimOptions& optim, size_t number);
size_t count_of_rules(const OptimOptions& optim);

// What the states of every element of a tensor of this shape are kept in, under the options of its rule. Only matrices are kept narrow: norms and
// biases are few. Second moments stay wide beside bf16, whose steps are longer than what a step adds to them; in 8 bits they keep their range.
struct StateFormats {
  StateDtype first = StateDtype::kFloat32, second = StateDtype::kFloat32;  // moments
  bool narrow() const { return first != StateDtype::kFloat32 || second != StateDtype::kFloat32; }
};
StateFormats state_formats(const OptimOptions& optim, Role role, const std::vector<int64_t>& shape);

// Bytes of state beside the master of a tensor of this shape, of a share of it (which may be all); the outer loop's counted in. `wide`: bytes of a
// number that is not kept narrow.
int64_t state_bytes(const OptimOptions& optim, Role role, int64_t layer, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& share, int64_t wide);

// kUsage for an entry of optim.group none of whose roles is among `roles`, those of the model's tensors, or that others before it have taken.
void check_groups(const OptimOptions& optim, const std::vector<Role>& roles);

}  // namespace longhaul::recipe
