// Chooses the optimizer of a tensor and its numbers. A recipe's [optim] is for all tensors; entries of
// optim.group are for some roles:
//
//   [[optim.group]]
//   tensors = ["embedding", "head"]
//   name = "adamw"
//   lr_factor = 0.5
//
// The first entry that names a tensor's role applies; one with `set` is about the tensors of that set alone,
// of the roles that it names or of all. If the optimizer takes matrices of layers only (muon), tensors that
// are none (embedding, head, router, norms, biases, bounds) have the optimizer beside it (adamw) with the
// same numbers. Each such choice is a rule, and rules are numbered. Plain data; thread-safe.
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
  double lr_factor = 1;  // factor of the schedule's learning rate
};
// The number of the rule for a tensor, and the rule of each number. `layer`: -1 outside the layers. `set`:
// the tensor's set of the task; empty: the main one.
size_t rule_of(const OptimOptions& optim, Role role, int64_t layer, const std::vector<int64_t>& shape,
               std::string_view set = {});
OptimRule optim_rule(const OptimOptions& optim, size_t number);
size_t count_of_rules(const OptimOptions& optim);

// The formats of the states that exist for every element of a tensor of this shape, under the options of its
// rule. Only matrices have narrow states, because norms and biases have few elements. With bf16 second
// moments stay wide, because the spacing of bf16 exceeds what a step adds to them; in 8 bits they keep their
// range.
struct StateFormats {
  StateDtype first = StateDtype::kFloat32, second = StateDtype::kFloat32;  // moments
  bool narrow() const { return first != StateDtype::kFloat32 || second != StateDtype::kFloat32; }
};
StateFormats state_formats(const OptimOptions& optim, Role role, const std::vector<int64_t>& shape);

// Bytes of state in addition to the master weights, for a share (possibly all) of a tensor of this shape,
// including the outer loop's state. `wide`: bytes of a number that is not stored narrow.
int64_t state_bytes(const OptimOptions& optim, Role role, int64_t layer, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& share, int64_t wide, std::string_view set = {});

// kUsage for an entry of optim.group none of whose roles is in `roles`, those of the model's tensors, or all
// of whose roles earlier entries have taken. sets: of the same tensors, their sets; empty: all of the main
// one.
void check_groups(const OptimOptions& optim, const std::vector<Role>& roles,
                  const std::vector<std::string>& sets = {});

}  // namespace longhaul::recipe
