// alignment_check: a few training steps of a small model on 8 ranks (threads of this process) with tensor,
// pipeline and data parallelism of 2 each, from fixed weights and texts, in fp32 and in bf16. The results
// (losses, norms, every gradient, every parameter afterwards) have the same bits on all machines of one type,
// however often they are computed: ByteRobust's bit-wise alignment (arXiv 2509.16293;
// docs/sources/reliability.md §4.1). The check computes them twice. A machine whose two results differ
// miscalculates, and so does one whose result differs from that of the other machines.
#pragma once

#include "control/checks/machine_checks.h"

namespace longhaul::prove {

control::CheckFinding alignment_check(const control::CheckContext& context);

// The SHA-256 of one such run. `wrong`: changes one element of one gradient on one rank, for tests.
std::string alignment_bits(const std::string& dtype, bool wrong = false);

}  // namespace longhaul::prove
