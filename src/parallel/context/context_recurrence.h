// The linear recurrence over context ranks: what crosses is the state of one document a piece of the row, [H, Dk, Dv] in fp32 (fp64), however
// long the row is. Each piece is folded to what it writes, (S, Λ) with S_out = Λ ⊙ S_in + S, before anything has come, so a state waits at no rank
// for more than that line; then the piece runs from its own S_in. Backward is the mirror, dS_in = Λ ⊙ dS_out + D, from the last piece to the
// first; S_in is kept, so nothing is sent twice.
//
//   ring         S_out goes to the rank of the next piece                                LASP (arXiv 2404.02882)
//   all-scan     the same in slices of Dk: a rank hands on one while the next comes      ZeCO (arXiv 2507.01004)
//   all-gather   all S (and Λ where it depends on tokens) go to all ranks, which compose LASP-2 (arXiv 2502.07563)
//                In two halves of the heads, where these are even: the second half is folded while the states of the first are on their way, and
//                while the first runs those of the second are; pieces that nothing enters run before anything has come. A rank whose pieces
//                nobody waits for has nothing to fold, and waits: of a contiguous split the last rank (backward the first), of zig-zag none. LASP-2 computes what needs no state meanwhile, and adds the state's share to the
//                outputs; that is a pass more over the tokens, this is none, and the same bits.
//
// A piece in which a document begins lets nothing through; one whose first document begins with it gets nothing: there the ring sends nothing.
// Bytes: docs/sources/long-context-parallelism.md A8. Zig-zag costs twice of each. A collective call of the group.
#pragma once

#include "comm/communicator.h"
#include "kernels/linear_recurrence/op.h"
#include "layout/sequence_view.h"

namespace longhaul::parallel {

inline constexpr int64_t kScanSlices = 4;
inline constexpr int64_t kGatheredHalves = 2;

// → o of this rank's tokens. Arguments as those of linear_recurrence, of this rank's tokens.
Tensor context_recurrence(recipe::LinearContextMethod method, comm::Communicator& group, const Tensor& q_thd, const Tensor& k_thd,
                          const Tensor& v_thd, const Tensor& log_decay, const layout::SequenceView& view,
                          const kernels::LinearRecurrenceOptions& options);

}  // namespace longhaul::parallel
