// The gates of op.h, on rows of fp32 logits. Included by cpu_loops-inl.h, once per instruction set. Sources: linear-attention.md §5.3; what is small
// is formed as a product or quotient, never as a difference from 1.

struct Sigmoids {
  float of, rest;  // σ(x), σ(−x)
};
inline Sigmoids sigmoids(float x) {
  const float u = exponential(x < 0 ? x : -x), larger = 1.0f / (1.0f + u), smaller = u * larger;
  return {x < 0 ? smaller : larger, x < 0 ? larger : smaller};
}

// log σ(x) = min(x, 0) − log(1 + u), u = e^{−|x|}, by 2 artanh(u / (2 + u)), whose argument is 1/3 at most: the first omitted term is
// 7e-10 of the sum, and the sum is as exact where u is small.
inline float log_sigmoid(float x) {
  const float u = exponential(x < 0 ? x : -x), s = u / (2.0f + u), t = s * s;
  float p = 1.0f / 15;
  p = p * t + 1.0f / 13;
  p = p * t + 1.0f / 11;
  p = p * t + 1.0f / 9;
  p = p * t + 1.0f / 7;
  p = p * t + 1.0f / 5;
  p = p * t + 1.0f / 3;
  p = p * t + 1.0f;
  return (x < 0 ? x : 0.0f) - 2.0f * s * p;
}

template <class Element>
void gate_rows(const HeadGate& gate, const float* x, int64_t ld, int64_t rows, int64_t columns, float* lambda, Element* keys) {
  const float inverse_divisor = gate.inverse_divisor;
  for (int64_t i = 0; i < rows; ++i) {
    alignas(64) float key[kMaxColumns];
    const float* const __restrict from = x + i * ld;
    float* const __restrict to = lambda + i * columns;
    if (gate.lower_bound != nullptr) {
      const float* const __restrict bound = gate.lower_bound;
      for (int64_t c = 0; c < columns; ++c) {
        const Sigmoids s = sigmoids(from[c]);
        to[c] = bound[c] + (1.0f - bound[c]) * s.of;
        key[c] = (1.0f - bound[c]) * s.rest;
      }
    } else {
      alignas(64) float g[kMaxColumns];
      for (int64_t c = 0; c < columns; ++c) g[c] = inverse_divisor * log_sigmoid(from[c]);
      for (int64_t c = 0; c < columns; ++c) to[c] = exponential(g[c]);
      if (keys != nullptr) {
        for (int64_t c = 0; c < columns; ++c) key[c] = one_less_exponential(g[c]);
      }
    }
    if (keys == nullptr) continue;
    for_lanes(columns, [&](int64_t c, auto count) { store(keys + i * columns + c, load(key + c, count), count); });
  }
}

inline void gate_gradient(const HeadGate& gate, const float* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                          float* gradient, float* d_bound) {
  const float inverse_divisor = gate.inverse_divisor;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const __restrict from = x + i * ld, * const __restrict decay = lambda + i * columns;
    float* const __restrict d = gradient + i * columns;
    if (gate.lower_bound == nullptr) {
      for (int64_t c = 0; c < columns; ++c) d[c] *= inverse_divisor * sigmoids(from[c]).rest;
      continue;
    }
    const float* const __restrict bound = gate.lower_bound;
    if (d_bound != nullptr) {
      float* const __restrict sum = d_bound;
      for (int64_t c = 0; c < columns; ++c) {
        const float slope = sigmoids(from[c]).rest * d[c] / decay[c];
        sum[c] += decay[c] < kSmallDecay ? 0.0f : slope;  // channel_slopes takes those
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      const Sigmoids s = sigmoids(from[c]);
      const float share = (1.0f - bound[c]) * s.of / decay[c];
      d[c] *= decay[c] == 0 ? 0.0f : s.rest * share;
    }
  }
}

template <class Element>
void channel_slopes(const float* state, float* gradient, const Element* q, const Element* k, int64_t ld, const Element* v,
                    const Element* d_o, const float* lambda, float scale, int64_t rows, int64_t columns, float* before, float* slope) {
  if (state == nullptr)
    std::fill_n(before, columns, 0.0f);
  else
    std::copy_n(state, columns, before);
  for (int64_t i = 0; i + 1 < rows; ++i) {
    const float decay = lambda[i * ld], key = widen(k[i * ld]);
    for_lanes(columns, [&](int64_t c, auto count) {
      store(before + (i + 1) * columns + c, decay * load(before + i * columns + c, count) + key * load(v + i * columns + c, count), count);
    });
  }
  for (int64_t i = rows - 1; i >= 0; --i) {
    const float decay = i + 1 < rows ? lambda[(i + 1) * ld] : 1.0f, query = scale * widen(q[i * ld]);
    for_lanes(columns, [&](int64_t c, auto count) {
      store(gradient + c, decay * load(gradient + c, count) + query * load(d_o + i * columns + c, count), count);
    });
    slope[i] = sum_over(columns, [&](int64_t c) { return before[i * columns + c] * gradient[c]; });
  }
}
