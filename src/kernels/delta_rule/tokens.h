// delta_rule token by token on the CPU, from states that are kept: decoding. Each document and head is
// computed separately, so that a sequence's result does not depend on the other sequences; threads share
// them.
#pragma once

#include "kernels/delta_rule/problem.h"

namespace longhaul::kernels {

// Processes the documents with fewer than `most` tokens and leaves the others alone. Writes their rows of
// o_thd, and the states.
void delta_rule_tokens(const DeltaRuleProblem& problem, const RecurrenceStates& states, int64_t most,
                       const Tensor& o_thd);

}  // namespace longhaul::kernels
