// Compiled once per instruction set by Highway's foreach_target.
#include "kernels/quantized_state/loops.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/quantized_state/code_map.h"
#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantized_state/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Places = hn::RebindToSigned<Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;
constexpr int64_t kLongestVector = 16;  // so many elements behind a run are written in buffers

// 32 bits for the element at `place`: the finaliser of MurmurHash3, the upper half of the key mixed in on the
// way.
HWY_INLINE hn::Vec<Words> random_bits(uint64_t key, int64_t place) {
  const Words d;
  auto h = hn::Add(hn::Iota(d, static_cast<uint32_t>(place)), hn::Zero(d));
  h = hn::Add(hn::Mul(h, hn::Set(d, 0x9E3779B9u)), hn::Set(d, static_cast<uint32_t>(key)));
  h = hn::Xor(h, hn::ShiftRight<16>(h));
  h = hn::Xor(hn::Mul(h, hn::Set(d, 0x85EBCA6Bu)), hn::Set(d, static_cast<uint32_t>(key >> 32)));
  h = hn::Xor(h, hn::ShiftRight<13>(h));
  h = hn::Mul(h, hn::Set(d, 0xC2B2AE35u));
  return hn::Xor(h, hn::ShiftRight<16>(h));
}

void to_floats(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof *to);
}
void to_floats(const double* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

template <class Real>
void widen(const uint16_t* bf16, int64_t count, Real* to) {
  if constexpr (std::is_same_v<Real, float>) {
    const Floats d;
    walk(d, count, [&](auto at) LONGHAUL_VECTOR { store(d, load(d, bf16, at), to, at); });
  } else {
    float wide[kMostNarrow + kLongestVector];
    widen<float>(bf16, count, wide);
    for (int64_t i = 0; i < count; ++i) to[i] = wide[i];
  }
}

// A random number below one unit of bf16 is added to the bits, and the lower half cut off.
template <class Real>
void narrow(const Real* from, int64_t count, uint64_t key, int64_t first, uint16_t* bf16) {
  const Words words;
  const hn::Rebind<uint16_t, Floats> halves;
  const hn::RebindToSigned<Words> whole;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(words));
  float wide[kMostNarrow + kLongestVector] = {};
  uint16_t narrowed[kMostNarrow + kLongestVector];
  to_floats(from, count, wide);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto bits = hn::BitCast(words, hn::LoadU(Floats(), wide + i));
    const auto sum = hn::Add(bits, hn::ShiftRight<16>(random_bits(key, first + i)));
    hn::StoreU(hn::DemoteTo(halves, hn::BitCast(whole, hn::ShiftRight<16>(sum))), halves, narrowed + i);
  }
  std::memcpy(bf16, narrowed, static_cast<size_t>(count) * sizeof *bf16);
}

template <class Real>
void decode(const uint8_t* codes, float scale, int64_t count, Signs signs, Real* to) {
  const CodeMap& map = signs == Signs::kBoth ? signed_map() : unsigned_map();
  uint8_t padded[kMostNarrow + kLongestVector] = {};
  float values[kMostNarrow + kLongestVector];
  std::memcpy(padded, codes, static_cast<size_t>(count));
  const Floats d;
  const Places places;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto code = hn::PromoteTo(places, hn::LoadU(Bytes(), padded + i));
    hn::StoreU(hn::GatherIndex(d, map.values.data(), code), d, values + i);
  }
  const auto wide = static_cast<Real>(scale);
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<Real>(values[i]) * wide;
}

// The place of a stochastic rounding of |y| among the map's sizes.
HWY_INLINE hn::Vec<Places> rounded_place(const CodeMap& map, hn::Vec<Floats> size, hn::Vec<Words> random) {
  const Floats d;
  const Places places;
  const auto one = hn::Set(places, 1);
  auto bin = hn::Sub(hn::ShiftRight<16>(hn::BitCast(places, size)), hn::Set(places, CodeMap::kFirstBin));
  bin = hn::Min(hn::Max(bin, hn::Zero(places)), hn::Set(places, CodeMap::kBins - 1));
  auto place = hn::GatherIndex(places, map.bins.data(), bin);
  const auto next = hn::GatherIndex(d, map.sizes.data(), hn::Add(place, one));
  place = hn::IfThenElse(hn::RebindMask(places, hn::Ge(size, next)),
                         hn::Min(hn::Add(place, one), hn::Set(places, map.last_size)), place);
  const auto below = hn::GatherIndex(d, map.sizes.data(), place),
             above = hn::GatherIndex(d, map.sizes.data(), hn::Add(place, one));
  const auto share =
      hn::Mul(hn::ConvertTo(d, hn::BitCast(places, hn::ShiftRight<8>(random))), hn::Set(d, 0x1p-24f));
  const auto up = hn::Lt(hn::Mul(share, hn::Sub(above, below)), hn::Sub(size, below));
  return hn::IfThenElse(hn::RebindMask(places, up),
                        hn::Min(hn::Add(place, one), hn::Set(places, map.last_size)), place);
}

void codes_of(const CodeMap& map, Signs signs, const float* scaled, int64_t count, uint64_t key,
              uint8_t* codes) {
  const Floats d;
  const Places places;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  uint8_t padded[kMostNarrow + kLongestVector];
  for (int64_t i = 0; i < count; i += lanes) {
    const auto y = hn::LoadU(d, scaled + i), size = hn::Abs(y);
    auto place = rounded_place(map, size, random_bits(key, i));
    if (signs == Signs::kPositive) {
      place = hn::IfThenElse(hn::RebindMask(places, hn::Gt(size, hn::Zero(d))),
                             hn::Max(place, hn::Set(places, 1)), place);
    } else {
      const auto negative =
          hn::Sub(hn::Set(places, map.zero), hn::Min(place, hn::Set(places, map.last_negative)));
      place = hn::IfThenElse(hn::RebindMask(places, hn::Lt(y, hn::Zero(d))), negative,
                             hn::Add(place, hn::Set(places, map.zero)));
    }
    hn::StoreU(hn::DemoteTo(Bytes(), place), Bytes(), padded + i);
  }
  std::memcpy(codes, padded, static_cast<size_t>(count));
}

template <class Real>
float encode(const Real* from, int64_t count, Signs signs, uint64_t key, uint8_t* codes) {
  Real largest = 0, least = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = from[i] > largest ? from[i] : largest;
    least = from[i] < least ? from[i] : least;
  }
  auto scale = static_cast<float>(largest >= -least ? largest : least);
  if (std::abs(scale) < std::numeric_limits<float>::min()) scale = 0;
  float scaled[kMostNarrow + kLongestVector] = {};
  if (scale != 0) {
    const auto wide = static_cast<Real>(scale);
    for (int64_t i = 0; i < count; ++i) scaled[i] = static_cast<float>(from[i] / wide);
  }
  codes_of(signs == Signs::kBoth ? signed_map() : unsigned_map(), signs, scaled, count, key, codes);
  return scale;
}

template <class Real>
const NarrowLoops<Real>& loops_of_narrow_states() {
  static constexpr NarrowLoops<Real> kFunctions{widen<Real>, narrow<Real>, decode<Real>, encode<Real>};
  return kFunctions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

template <class Real>
const NarrowLoops<Real>& narrow_loops() {
  return LONGHAUL_CHOOSE(loops_of_narrow_states<Real>)();
}
template const NarrowLoops<float>& narrow_loops();
template const NarrowLoops<double>& narrow_loops();

}  // namespace longhaul::kernels
#endif
