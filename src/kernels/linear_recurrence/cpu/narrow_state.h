// The recurrence with a fixed decay for each head, S_t = e^{−s} S_{t−1} + k_tᵀ v_t, o_t = q_t S_t, as
// transformers' MiniMax computes it: slopes, decays and states are rounded to the dtype of q, k and v
// wherever that program stores them (docs/sources/minimax-01.md §2.2, §12). In bf16 this is a different
// model: e^{−256 s} of the slowest published head is 0.98828 where it should be 0.98741, and e^{−s} is 1
// for every s < 0.00195. In fp32 and fp64 it equals linear_recurrence except for rounding.
//
// The tokens of a document are processed in blocks of 256 from its first token on. Tables are computed from
// the unrounded slopes and rounded once, except the decay over a whole block, which is computed from the
// rounded slope. One further token of a document that has a state is one step: S ← round(e^{−s}) S + kᵀ v.
// Uses LibTorch's operators under autograd, on any device: the fast forms of linear_recurrence keep wide
// states, and refuse with that reason.
#pragma once

#include "kernels/linear_recurrence/op.h"

namespace longhaul::kernels {

inline constexpr int64_t kNarrowStateBlock = 256;

// q, k, v [tokens, H, D], one dtype; log_decay_h [H] = −s, fp32 (fp64 for fp64 inputs); offsets as of
// linear_recurrence. states: in the dtype of q, which the call continues and changes (then without a
// gradient); undefined: documents begin at zero. → o [tokens, H, D].
Tensor narrow_state_recurrence(const Tensor& q_thd, const Tensor& k_thd, const Tensor& v_thd,
                               const Tensor& log_decay_h, const RecurrenceStates& states,
                               const Tensor& offsets, int64_t block = kNarrowStateBlock);

}  // namespace longhaul::kernels
