// Copies that bypass the caches, for data that is not read again soon: its cache lines are not fetched
// before they are written, and the contents of the caches stay. Other threads see the data after the
// StreamScope has ended. Data that fits into the caches should not be copied this way, because its next
// reader would find it there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "base/machine/machine.h"

namespace longhaul::kernels {

// Whether results of this many bytes are more than the caches hold: half of the last-level cache, because
// the other half is for data that is read meanwhile.
inline bool past_caches(int64_t bytes, int64_t l2_bytes, int64_t l3_bytes) {
  return 2 * bytes > std::max(l2_bytes, l3_bytes);
}
inline bool past_caches(int64_t bytes) { return past_caches(bytes, machine().l2_bytes, machine().l3_bytes); }

class StreamScope {
 public:
  StreamScope() = default;
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
  ~StreamScope() {
#ifdef __x86_64__
    _mm_sfence();
#endif
  }
};

// Both pointers are aligned to 64 bytes, and the number of bytes is a multiple of 64.
template <class Element>
void stream_copy(const Element* from, Element* to, int64_t count) {
#ifdef __x86_64__
  const auto* source = reinterpret_cast<const __m128i*>(from);
  auto* target = reinterpret_cast<__m128i*>(to);
  for (const auto* const end = source + count * static_cast<int64_t>(sizeof(Element)) / 16; source != end;
       source += 4, target += 4) {
    const __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1), c = _mm_load_si128(source + 2),
                  d = _mm_load_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
#else
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
#endif
}

}  // namespace longhaul::kernels
