// The two loops that take most of a call's time, compiled for every instruction set (Highway) and chosen when
// the program starts; LONGHAUL_CPU=avx2 or portable restricts them. Machines are the columns: a row is one
// feature of all machines, `stride` floats long, a multiple of kLanes. The floats after the last machine must
// be readable and finite, and are ignored.
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

// sums[i] = Σ_j distance(i, j) over `dims` rows of x; `stride` floats are written, of which those from
// `count` on are undefined.
void distance_sums(Distance distance, const float* x, int64_t dims, int64_t stride, int64_t count,
                   float* sums);

// The reconstruction of windows by the autoencoder with z = mean: input and output are [window ·
// inputs][stride].
void reconstruct(const VaeShape& shape, std::span<const float> parameters, const float* input, int64_t stride,
                 float* output);

std::string_view vector_loops_name();  // "avx512", "avx2", "portable"

}  // namespace longhaul::detect
