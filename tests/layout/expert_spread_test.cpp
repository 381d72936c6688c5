#include "layout/expert_spread.h"

#include <gtest/gtest.h>

#include <bit>

namespace longhaul::layout {
namespace {

// Every set of `chosen` out of `experts`, counted.
TEST(ExpertSpread, ChanceOfAnyIsWhatCountingGives) {
  for (int64_t experts = 1; experts <= 8; ++experts) {
    for (int64_t of_rank = 1; of_rank <= experts; ++of_rank) {
      for (int64_t chosen = 1; chosen <= experts; ++chosen) {
        int64_t all = 0, with_any = 0;
        for (unsigned set = 0; set < 1u << experts; ++set) {
          if (std::popcount(set) != chosen) continue;
          ++all;
          with_any += (set & ((1u << of_rank) - 1)) != 0 ? 1 : 0;
        }
        EXPECT_NEAR(chance_of_any(experts, of_rank, chosen), static_cast<double>(with_any) / static_cast<double>(all), 1e-14)
            << of_rank << " of " << experts << ", " << chosen;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::layout
