// Sixteen numbers at a time: widened from bf16, rounded to it, cut where a row ends. What the loops of cpu_loops-inl.h are written in;
// included by it, once per instruction set. LONGHAUL_CONVERTS_BF16: the set is AVX-512 with VCVTNEPS2BF16.

using Lanes = float __attribute__((vector_size(64)));  // sixteen partial sums
constexpr int64_t kLanes = 16;

inline float widen(float x) { return x; }
inline float widen(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
template <class Element>
inline Element narrow(float x) {
  if constexpr (std::is_same_v<Element, float>) {
    return x;
  } else {
    return bf16_bits(x);
  }
}

// Sixteen elements, widened; and rounded.
inline Lanes load(const float* x) {
  Lanes lanes;
  std::memcpy(&lanes, x, sizeof lanes);
  return lanes;
}
inline Lanes load(const uint16_t* x) {
  float values[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) values[lane] = widen(x[lane]);
  return load(values);
}
inline void store(float* x, const Lanes& lanes) { std::memcpy(x, &lanes, sizeof lanes); }
inline void store(uint16_t* x, const Lanes& lanes) {
#ifdef LONGHAUL_CONVERTS_BF16
  const __m256bh rounded = _mm512_cvtneps_pbh(reinterpret_cast<__m512>(lanes));  // takes denormals as 0, as FlushDenormals does
  std::memcpy(x, &rounded, sizeof rounded);
#else
  float values[kLanes];
  store(values, lanes);
  for (int64_t lane = 0; lane < kLanes; ++lane) x[lane] = narrow<uint16_t>(values[lane]);
#endif
}

// 64 bytes, both sides aligned to as many, to memory past the caches.
#ifdef __x86_64__
constexpr bool kStreams = true;
inline void stream_line(const void* from, void* to) {
#ifdef LONGHAUL_CONVERTS_BF16
  _mm512_stream_si512(static_cast<__m512i*>(to), _mm512_load_si512(from));
#else
  for (int i = 0; i < 4; ++i) _mm_stream_si128(static_cast<__m128i*>(to) + i, _mm_load_si128(static_cast<const __m128i*>(from) + i));
#endif
}
#else
constexpr bool kStreams = false;
inline void stream_line(const void*, void*) {}
#endif

// body(c, sixteen): columns c … c + 15 at a time; then body(c, rest) for those that are left, which load and store with this count.
template <class Body>
inline void for_lanes(int64_t columns, const Body& body) {
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) body(c, std::integral_constant<int64_t, kLanes>());
  if (c < columns) body(c, columns - c);
}
template <class Element>
inline Lanes load(const Element* x, std::integral_constant<int64_t, kLanes>) {
  return load(x);
}
template <class Element>
inline Lanes load(const Element* x, int64_t count) {  // zeros beyond
  float values[kLanes] = {};
  for (int64_t lane = 0; lane < count; ++lane) values[lane] = widen(x[lane]);
  return load(values);
}
template <class Element>
inline void store(Element* x, const Lanes& lanes, std::integral_constant<int64_t, kLanes>) {
  store(x, lanes);
}
template <class Element>
inline void store(Element* x, const Lanes& lanes, int64_t count) {
  Element values[kLanes];
  store(values, lanes);
  std::copy_n(values, count, x);
}

// The lanes from `first` on, and those before `end`; zeros elsewhere.
using LaneNumbers = int32_t __attribute__((vector_size(64)));
inline Lanes between(const Lanes& lanes, int64_t first, int64_t end) {
  constexpr LaneNumbers kNumbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const LaneNumbers inside = (kNumbers >= static_cast<int32_t>(first)) & (kNumbers < static_cast<int32_t>(end));
  return reinterpret_cast<Lanes>(reinterpret_cast<LaneNumbers>(lanes) & inside);
}

inline float sum_of(const Lanes& lanes) {
  float sums[kLanes];
  std::memcpy(sums, &lanes, sizeof sums);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

// Σ value(c) over columns, in sixteen interleaved sums.
template <class Value>
inline float sum_over(int64_t columns, const Value& value) {
  Lanes sums = {};
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    float terms[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) terms[lane] = value(c + lane);
    Lanes add;
    std::memcpy(&add, terms, sizeof add);
    sums += add;
  }
  if (c < columns) {
    float terms[kLanes] = {};
    for (int64_t lane = 0; c + lane < columns; ++lane) terms[lane] = value(c + lane);
    Lanes add;
    std::memcpy(&add, terms, sizeof add);
    sums += add;
  }
  return sum_of(sums);
}
