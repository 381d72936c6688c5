// The two loops in which a call's time goes, for every instruction set (Highway), chosen when the program starts; LONGHAUL_CPU=avx2 or portable
// holds them to less. Machines stand side by side: a row is one feature of all machines, `stride` floats long, a multiple of kLanes; what lies
// behind the last machine must be readable and finite, and is not counted.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "detect/minder/lstm_vae.h"

namespace longhaul::detect {

inline constexpr int64_t kLanes = 16;
inline int64_t padded(int64_t machines) { return (machines + kLanes - 1) / kLanes * kLanes; }

enum class Distance { kEuclidean, kManhattan, kChebyshev };
std::string_view name_of(Distance distance);
Distance distance_named(std::string_view name);  // euclidean, manhattan, chebyshev; Error (64)

// sums[i] = Σ_j distance(i, j) over `dims` rows of x; `stride` floats are written, those from `count` on are rubbish.
void distance_sums(Distance distance, const float* x, int64_t dims, int64_t stride, int64_t count, float* sums);

// What the autoencoder makes of windows with z = mean: input and output are [window · inputs][stride].
void reconstruct(const VaeShape& shape, std::span<const float> parameters, const float* input, int64_t stride, float* output);

std::string_view vector_loops_name();  // "avx512", "avx2", "portable"

}  // namespace longhaul::detect
