#include "kernels/linear_cross_entropy/loops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_cross_entropy/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

float largest_of(const float* z, int64_t count) {
  const VectorTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float largest = -std::numeric_limits<float>::infinity();
  int64_t i = 0;
  if (count >= lanes) {
    auto most = hn::LoadU(d, z);
    for (i = lanes; i + lanes <= count; i += lanes) most = hn::Max(most, hn::LoadU(d, z + i));
    largest = hn::GetLane(hn::MaxOfLanes(d, most));
  }
  for (; i < count; ++i) largest = std::max(largest, z[i]);
  return largest;
}

// Two sums side by side: the additions do not wait for each other.
template <class Out, bool kStored>
float sum_of_exponentials(const float* z, int64_t count, float base, Out* p) {
  const VectorTag<float> d;
  const auto m = hn::Set(d, base);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), pairs = count / (2 * lanes) * (2 * lanes);
  auto even = hn::Zero(d), odd = hn::Zero(d);
  for (int64_t i = 0; i < pairs; i += 2 * lanes) {
    const auto first = exponential(d, hn::Sub(hn::LoadU(d, z + i), m)),
               second = exponential(d, hn::Sub(hn::LoadU(d, z + i + lanes), m));
    even = hn::Add(even, first);
    odd = hn::Add(odd, second);
    if constexpr (kStored) {
      store_whole(d, first, p + i);
      store_whole(d, second, p + i + lanes);
    }
  }
  walk(d, count - pairs, [&](auto at) LONGHAUL_VECTOR {
    const auto term = exponential(d, hn::Sub(load(d, z + pairs, at), m));
    even = hn::Add(even, only(d, term, at));
    if constexpr (kStored) store(d, term, p + pairs, at);
  });
  return sum_of_lanes(d, hn::Add(even, odd));
}

template <class Out>
void absorb(const LogitBlock& block) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* z = block.z + r * block.ld_z;
    const float before = block.base[r], base = std::max(before, largest_of(z, block.columns));
    const float rescale = base == before ? 1.0f : std::exp(before - base);
    Out* p = block.p == nullptr ? nullptr : static_cast<Out*>(block.p) + r * block.ld_p;
    const float sum = p == nullptr ? sum_of_exponentials<Out, false>(z, block.columns, base, p)
                                   : sum_of_exponentials<Out, true>(z, block.columns, base, p);
    block.base[r] = base;
    block.rescale[r] = rescale;
    block.sum[r] = block.sum[r] * rescale + sum;
  }
}

// The sum of e^{z − base}, and that of e^{z − base} (z − base).
float sums_for_entropy(const float* z, int64_t count, float base, float* weighted) {
  const VectorTag<float> d;
  const auto m = hn::Set(d, base);
  auto sum = hn::Zero(d), of_logits = hn::Zero(d);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    const auto x = hn::Sub(load(d, z, at), m), term = only(d, exponential(d, x), at);
    sum = hn::Add(sum, term);
    of_logits = hn::MulAdd(term, x, of_logits);
  });
  *weighted = sum_of_lanes(d, of_logits);
  return sum_of_lanes(d, sum);
}

void absorb_for_entropy(const LogitBlock& block, double* weighted) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* z = block.z + r * block.ld_z;
    const float before = block.base[r], base = std::max(before, largest_of(z, block.columns));
    const float rescale = base == before ? 1.0f : std::exp(before - base);
    float of_block = 0;
    const float sum = sums_for_entropy(z, block.columns, base, &of_block);
    // Terms relative to the former base, now relative to the new one; there were none where that was −∞.
    const double moved =
        rescale == 0 ? 0 : rescale * (weighted[r] + static_cast<double>(before - base) * block.sum[r]);
    weighted[r] = moved + of_block;
    block.base[r] = base;
    block.rescale[r] = rescale;
    block.sum[r] = block.sum[r] * rescale + sum;
  }
}

template <class Out>
void entropy_gradients_of(const LogitBlock& block, const float* level, const float* slope) {
  const VectorTag<float> d;
  for (int64_t r = 0; r < block.rows; ++r) {
    const float* z = block.z + r * block.ld_z;
    Out* p = static_cast<Out*>(block.p) + r * block.ld_p;
    const auto m = hn::Set(d, block.base[r]), a = hn::Set(d, level[r]), b = hn::Set(d, slope[r]);
    walk(d, block.columns, [&](auto at) LONGHAUL_VECTOR {
      const auto x = hn::Sub(load(d, z, at), m);
      store(d, hn::Mul(exponential(d, x), hn::MulAdd(b, x, a)), p, at);
    });
  }
}

void entropy_gradients_any(const LogitBlock& block, const float* level, const float* slope) {
  block.storage == Storage::kBf16 ? entropy_gradients_of<uint16_t>(block, level, slope)
                                  : entropy_gradients_of<float>(block, level, slope);
}

void absorb_any(const LogitBlock& block) {
  block.storage == Storage::kBf16 ? absorb<uint16_t>(block) : absorb<float>(block);
}

template <class From, class To>
void scaled(const From* from, int64_t count, float factor, To* to) {
  const VectorTag<float> d;
  const auto f = hn::Set(d, factor);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR { store(d, hn::Mul(load(d, from, at), f), to, at); });
}

void scale_any(float* row, int64_t count, float factor) { scaled(row, count, factor, row); }

void scale_stored_any(Storage storage, const void* from, int64_t count, float factor, void* to) {
  if (storage == Storage::kBf16) {
    scaled(static_cast<const uint16_t*>(from), count, factor, static_cast<uint16_t*>(to));
  } else {
    scaled(static_cast<const float*>(from), count, factor, static_cast<float*>(to));
  }
}

template <class Out>
void combine(const float* x, float a, const Out* w, float b, int64_t count, Out* to) {
  const VectorTag<float> d;
  const auto x_factor = hn::Set(d, a), w_factor = hn::Set(d, b);
  walk(d, count, [&](auto at) LONGHAUL_VECTOR {
    store(d, hn::MulAdd(load(d, x, at), x_factor, hn::Mul(load(d, w, at), w_factor)), to, at);
  });
}

void combine_any(Storage storage, const float* x, float a, const void* w, float b, int64_t count, void* to) {
  if (storage == Storage::kBf16) {
    combine(x, a, static_cast<const uint16_t*>(w), b, count, static_cast<uint16_t*>(to));
  } else {
    combine(x, a, static_cast<const float*>(w), b, count, static_cast<float*>(to));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void absorb_logits(const LogitBlock& block) { LONGHAUL_CHOOSE(absorb_any)(block); }

void absorb_logits_for_entropy(const LogitBlock& block, double* weighted) {
  LONGHAUL_CHOOSE(absorb_for_entropy)(block, weighted);
}

void entropy_gradients(const LogitBlock& block, const float* level, const float* slope) {
  LONGHAUL_CHOOSE(entropy_gradients_any)(block, level, slope);
}

void scale_row(float* row, int64_t count, float factor) { LONGHAUL_CHOOSE(scale_any)(row, count, factor); }

void scale_stored_row(Storage storage, const void* from, int64_t count, float factor, void* to) {
  LONGHAUL_CHOOSE(scale_stored_any)(storage, from, count, factor, to);
}

void combine_rows(Storage storage, const float* x, float a, const void* w, float b, int64_t count, void* to) {
  LONGHAUL_CHOOSE(combine_any)(storage, x, a, w, b, count, to);
}

}  // namespace longhaul::kernels
#endif
