#include "detect/minder/vector_loops.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/machine/machine.h"

#ifndef LONGHAUL_DETECT_VECTOR_LOOPS_ONCE
#define LONGHAUL_DETECT_VECTOR_LOOPS_ONCE
namespace longhaul::detect {

// The parameters as lstm_vae.h orders them. Minder's hidden 4 and latent 8, any number of inputs and steps.
struct VaePointers {
  const float *encoder_in, *encoder_state, *encoder_bias, *mean, *decoder_in, *decoder_state, *decoder_bias,
      *out;
};
constexpr int kHidden = 4, kLatent = 8, kGates = 4 * kHidden;

}  // namespace longhaul::detect
#endif

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  ((HWY_AVX3 - 1) | HWY_SSE4 | HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detect/minder/vector_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace longhaul::detect {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

template <Distance kind>
HWY_INLINE V add_difference(V sum, V difference) {
  if constexpr (kind == Distance::kEuclidean) return hn::MulAdd(difference, difference, sum);
  if constexpr (kind == Distance::kManhattan) return hn::Add(sum, hn::Abs(difference));
  return hn::Max(sum, hn::Abs(difference));
}

// Distances of `rows` machines from i on to the machines of one vector from j on. kDims 0: known at run time.
template <Distance kind, int kDims, int kRows>
HWY_INLINE void tile(const float* x, int64_t dims, int64_t stride, int64_t i, int64_t j, V* into) {
  const D d;
  for (int r = 0; r < kRows; ++r) into[r] = hn::Zero(d);
  const int64_t count = kDims > 0 ? kDims : dims;
  for (int64_t k = 0; k < count; ++k) {
    const V b = hn::LoadU(d, x + k * stride + j);
    for (int r = 0; r < kRows; ++r)
      into[r] = add_difference<kind>(into[r], hn::Sub(b, hn::Set(d, x[k * stride + i + r])));
  }
  if constexpr (kind == Distance::kEuclidean) {
    for (int r = 0; r < kRows; ++r) into[r] = hn::Sqrt(into[r]);
  }
}

// Each pair is computed once, and added to both machines; pairs within one vector twice, once from each side.
template <Distance kind, int kDims, int kRows>
HWY_INLINE void rows_sums(const float* x, int64_t dims, int64_t stride, int64_t count, int64_t i,
                          float* sums) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V distances[kRows], totals[kRows];
  for (int r = 0; r < kRows; ++r) totals[r] = hn::Zero(d);
  const int64_t own = i / lanes * lanes;
  for (int64_t j = own; j < count; j += lanes) {
    tile<kind, kDims, kRows>(x, dims, stride, i, j, distances);
    if (j + lanes > count) {
      const auto there = hn::FirstN(d, static_cast<size_t>(count - j));
      for (int r = 0; r < kRows; ++r) distances[r] = hn::IfThenElseZero(there, distances[r]);
    }
    V columns = hn::Zero(d);
    for (int r = 0; r < kRows; ++r) {
      totals[r] = hn::Add(totals[r], distances[r]);
      columns = hn::Add(columns, distances[r]);
    }
    if (j != own) hn::StoreU(hn::Add(hn::LoadU(d, sums + j), columns), d, sums + j);
  }
  for (int r = 0; r < kRows; ++r) sums[i + r] += hn::GetLane(hn::SumOfLanes(d, totals[r]));
}

template <Distance kind, int kDims>
void all_sums(const float* x, int64_t dims, int64_t stride, int64_t count, float* sums) {
  std::fill(sums, sums + stride, 0.0f);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) rows_sums<kind, kDims, 4>(x, dims, stride, count, i, sums);
  for (; i < count; ++i) rows_sums<kind, kDims, 1>(x, dims, stride, count, i, sums);
}

void sums_any(Distance distance, const float* x, int64_t dims, int64_t stride, int64_t count, float* sums) {
  switch (distance) {
    case Distance::kEuclidean:
      return dims == 8 ? all_sums<Distance::kEuclidean, 8>(x, dims, stride, count, sums)
                       : all_sums<Distance::kEuclidean, 0>(x, dims, stride, count, sums);
    case Distance::kManhattan:
      return all_sums<Distance::kManhattan, 0>(x, dims, stride, count, sums);
    case Distance::kChebyshev:
      return all_sums<Distance::kChebyshev, 0>(x, dims, stride, count, sums);
  }
}

// e^−x for |x| up to 40, beyond which gates are 0 or 1 to the last bit of later results.
HWY_INLINE V decay(V x) {
  const D d;
  const hn::RebindToSigned<D> di;
  x = hn::Min(hn::Max(hn::Neg(x), hn::Set(d, -40.0f)), hn::Set(d, 40.0f));
  const auto n = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504088896341f)));
  const V whole = hn::ConvertTo(d, n);
  V r = hn::NegMulAdd(whole, hn::Set(d, 0.693359375f), x);
  r = hn::MulAdd(whole, hn::Set(d, 2.12194440e-4f), r);
  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127)));
  return hn::Mul(p, hn::BitCast(d, power));
}

// One LSTM step from the four gates' sums before their nonlinearities: c = f · c + i · g, h = o · tanh(c),
// with three divisions.
HWY_INLINE void cell(V in, V forget, V candidate, V out, V& c, V& h) {
  const D d;
  const V one = hn::Set(d, 1.0f);
  const V e_in = decay(in), e_forget = decay(forget), e_cell = decay(hn::Add(candidate, candidate)),
          e_out = decay(out);
  c = hn::Add(hn::Div(c, hn::Add(one, e_forget)),
              hn::Div(hn::Sub(one, e_cell), hn::Mul(hn::Add(one, e_in), hn::Add(one, e_cell))));
  const V e_c = decay(hn::Add(c, c));
  h = hn::Div(hn::Sub(one, e_c), hn::Mul(hn::Add(one, e_out), hn::Add(one, e_c)));
}

HWY_INLINE void step(const float* state_weights, const V* base, V* c, V* h) {
  const D d;
  V next[kHidden];
  for (int k = 0; k < kHidden; ++k) {
    V gate[4];
    for (int g = 0; g < 4; ++g) {
      const int r = g * kHidden + k;
      gate[g] = base[r];
      for (int q = 0; q < kHidden; ++q)
        gate[g] = hn::MulAdd(hn::Set(d, state_weights[r * kHidden + q]), h[q], gate[g]);
    }
    cell(gate[0], gate[1], gate[2], gate[3], c[k], next[k]);
  }
  for (int k = 0; k < kHidden; ++k) h[k] = next[k];
}

void reconstruct_any(const VaePointers& p, int64_t inputs, int64_t window, const float* input, int64_t stride,
                     float* output) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < stride; j += lanes) {
    V h[kHidden], c[kHidden], base[kGates], z[kLatent];
    for (int k = 0; k < kHidden; ++k) h[k] = c[k] = hn::Zero(d);
    for (int64_t t = 0; t < window; ++t) {
      for (int r = 0; r < kGates; ++r) {
        base[r] = hn::Set(d, p.encoder_bias[r] + p.encoder_bias[kGates + r]);
        for (int64_t q = 0; q < inputs; ++q) {
          base[r] = hn::MulAdd(hn::Set(d, p.encoder_in[r * inputs + q]),
                               hn::LoadU(d, input + (t * inputs + q) * stride + j), base[r]);
        }
      }
      step(p.encoder_state, base, c, h);
    }
    for (int l = 0; l < kLatent; ++l) {
      z[l] = hn::Set(d, p.mean[kLatent * kHidden + l]);
      for (int k = 0; k < kHidden; ++k) z[l] = hn::MulAdd(hn::Set(d, p.mean[l * kHidden + k]), h[k], z[l]);
    }
    for (int r = 0; r < kGates; ++r) {
      base[r] = hn::Set(d, p.decoder_bias[r] + p.decoder_bias[kGates + r]);
      for (int l = 0; l < kLatent; ++l)
        base[r] = hn::MulAdd(hn::Set(d, p.decoder_in[r * kLatent + l]), z[l], base[r]);
    }
    for (int k = 0; k < kHidden; ++k) h[k] = c[k] = hn::Zero(d);
    for (int64_t t = 0; t < window; ++t) {
      step(p.decoder_state, base, c, h);
      for (int64_t q = 0; q < inputs; ++q) {
        V value = hn::Set(d, p.out[inputs * kHidden + q]);
        for (int k = 0; k < kHidden; ++k) value = hn::MulAdd(hn::Set(d, p.out[q * kHidden + k]), h[k], value);
        hn::StoreU(value, d, output + (t * inputs + q) * stride + j);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::detect
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::detect {
namespace {

enum class LoopSet { kPortable, kAvx2, kAvx512 };

LoopSet chosen_set() {
#ifdef __x86_64__
  const auto& features = machine().features;
  const auto has = [&](const char* name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  const char* held = std::getenv("LONGHAUL_CPU");
  const std::string_view most = held == nullptr ? "" : held;
  if (most == "portable") return LoopSet::kPortable;
  const bool avx2 = has("avx2") && has("fma") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("aes") &&
                    // and f16c, which clang 14 cannot ask for, comes with avx2
                    __builtin_cpu_supports("pclmul");
  const bool avx512 = avx2 && has("avx512f") && has("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && most != "avx2") return LoopSet::kAvx512;
  if (avx2) return LoopSet::kAvx2;
#endif
  return LoopSet::kPortable;
}

LoopSet loop_set() {
  static const LoopSet set = chosen_set();
  return set;
}

#ifdef __x86_64__
#define LONGHAUL_DETECT_LOOP(function)                \
  (loop_set() == LoopSet::kAvx512 ? &N_AVX3::function \
   : loop_set() == LoopSet::kAvx2 ? &N_AVX2::function \
                                  : &HWY_STATIC_DISPATCH(function))
#else
#define LONGHAUL_DETECT_LOOP(function) (&HWY_STATIC_DISPATCH(function))
#endif

}  // namespace

std::string_view name_of(Distance distance) {
  return distance == Distance::kEuclidean   ? "euclidean"
         : distance == Distance::kManhattan ? "manhattan"
                                            : "chebyshev";
}

Distance distance_named(std::string_view name) {
  for (const Distance each : {Distance::kEuclidean, Distance::kManhattan, Distance::kChebyshev}) {
    if (name_of(each) == name) return each;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = "no such distance",
               .expected = "euclidean, manhattan, chebyshev",
               .found = std::string(name)});
}

std::string_view vector_loops_name() {
  return loop_set() == LoopSet::kAvx512 ? "avx512" : loop_set() == LoopSet::kAvx2 ? "avx2" : "portable";
}

void distance_sums(Distance distance, const float* x, int64_t dims, int64_t stride, int64_t count,
                   float* sums) {
  LONGHAUL_ASSERT(stride % kLanes == 0 && count <= stride, "stride {} count {}", stride, count);
  LONGHAUL_DETECT_LOOP(sums_any)(distance, x, dims, stride, count, sums);
}

void reconstruct(const VaeShape& shape, std::span<const float> parameters, const float* input, int64_t stride,
                 float* output) {
  LONGHAUL_ASSERT(stride % kLanes == 0, "stride {}", stride);
  if (shape.hidden != kHidden || shape.latent != kLatent) {
    LstmVae<float> plain(shape, stride);
    const std::vector<float> noise(static_cast<size_t>(shape.latent * stride), 0);
    const auto size = static_cast<size_t>(shape.window * shape.inputs * stride);
    plain.forward(parameters, {input, size}, noise, 0);
    std::copy(plain.output().begin(), plain.output().end(), output);
    return;
  }
  const auto tensors = tensors_of(shape);
  const auto at = [&](size_t tensor) { return parameters.data() + tensors[tensor].offset; };
  const VaePointers pointers{at(0), at(1), at(2), at(4), at(8), at(9), at(10), at(12)};
  LONGHAUL_DETECT_LOOP(reconstruct_any)(pointers, shape.inputs, shape.window, input, stride, output);
}

}  // namespace longhaul::detect
#endif
