// Sets of tensors in the one list of a task: beside the model that is trained a critic, a frozen copy of the
// model, and so on. The tensors of a named set carry its name in front of theirs, "critic.layers.0.…", in
// checkpoints as everywhere; those of the main set are called as if there were no other. All sets share the
// machinery of the list: ZeRO, the memory guard, checkpoints, the norm of the gradient and clipping.
// [[optim.group]] gives a set an optimizer and numbers of its own (recipe/sections/optim_groups.h).
//
//   auto list = policy();
//   append(list, named_set("critic", critic()));
//   append(list, named_set("reference", policy(), SetIs::kFrozenCopy));
#pragma once

#include <string>
#include <vector>

#include "layout/parameters.h"

namespace longhaul::layout {

// kFrozenCopy: nothing changes its tensors, which begin with the values that those of the main set begin
// with.
enum class SetIs { kTrained, kFrozenCopy };

// The name has lower-case letters, digits and "_", and begins with a letter.
std::vector<ParameterSpec> named_set(const std::string& name, std::vector<ParameterSpec> list,
                                     SetIs is = SetIs::kTrained);
void append(std::vector<ParameterSpec>& list, std::vector<ParameterSpec> more);

}  // namespace longhaul::layout
