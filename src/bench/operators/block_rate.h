// What products would reach if their operands came for free: the rate of one block (kernels/block) whose operands stay in the nearest cache,
// on all threads at once. The share of it that whole products reach says what is left to gain by feeding them better.
#pragma once

namespace longhaul::bench {

double block_rate_bf16();  // floating-point operations per second, of the set of block kernels that is in use

}  // namespace longhaul::bench
