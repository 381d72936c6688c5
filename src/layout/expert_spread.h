// The probability that a token's experts are on a rank, if every choice of `chosen` different experts out of
// `experts` is equally likely.
#pragma once

#include <cstdint>

namespace longhaul::layout {

// The probability that any of a token's experts is one of `of_rank` given ones: 1 − C(experts − of_rank,
// chosen) / C(experts, chosen).
inline double chance_of_any(int64_t experts, int64_t of_rank, int64_t chosen) {
  double none = 1;
  for (int64_t i = 0; i < chosen; ++i)
    none *= i < experts - of_rank
                ? static_cast<double>(experts - of_rank - i) / static_cast<double>(experts - i)
                : 0;
  return 1 - none;
}

}  // namespace longhaul::layout
