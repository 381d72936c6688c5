// ctest: label=full timeout=120
#include "prove/alignment_check.h"

#include <gtest/gtest.h>

#include "base/threads/parallel.h"

namespace longhaul::prove {
namespace {

TEST(AlignmentCheck, GivesTheSameBitsWithAnyNumberOfThreadsAndOthersForAnyError) {
  for (const std::string dtype : {"fp32", "bf16"}) {
    const std::string bits = alignment_bits(dtype);
    const int before = threads();
    set_threads(1);
    EXPECT_EQ(alignment_bits(dtype), bits) << dtype;
    set_threads(before);
    EXPECT_NE(alignment_bits(dtype, true), bits) << "one element of one gradient, on one of 8 ranks";
  }
  EXPECT_NE(alignment_bits("fp32"), alignment_bits("bf16"));
}

}  // namespace
}  // namespace longhaul::prove
