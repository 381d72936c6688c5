// alignment_check: a few training steps of a small model on 8 ranks, threads of this process, with tensor, pipeline and data parallelism of 2 each, from
// fixed weights and texts: `prove`'s run, in fp32 and in bf16. What it gives (losses, norms, every gradient, every parameter afterwards) is the same to
// the bit on all machines of a model, however often and whenever it is made: ByteRobust's bit-wise alignment (arXiv 2509.16293;
// docs/sources/reliability.md §4.1). It is made twice; a machine whose two results differ miscalculates, one whose result is not that of the others, too.
#pragma once

#include "control/checks/machine_checks.h"

namespace longhaul::prove {

control::CheckFinding alignment_check(const control::CheckContext& context);

// SHA-256 of one such run. `wrong`: one element of one gradient is off on one rank, for tests.
std::string alignment_bits(const std::string& dtype, bool wrong = false);

}  // namespace longhaul::prove
