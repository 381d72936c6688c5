// The bodies behind cpu_loops.h, in plain loops that the compiler turns into vectors. cpu_loops.cpp includes this once per instruction
// set, inside a namespace of its own, between LONGHAUL_BEGIN_TARGET and LONGHAUL_END_TARGET.

#include "kernels/linear_recurrence/cpu_lanes-inl.h"

constexpr int64_t kMaxColumns = 256, kDiagonal = 16;

// e^x for x ≤ 0 (and a little above): 2^n 2^f with n = round(x log2 e), 2^f by its Taylor polynomial (error 5e-9 on |f| ≤ 1/2).
// Below −87 the result is 0; a NaN stays one.
inline float exponential(float x) {
  const float bounded = x < -87.5f ? -87.5f : x > 88.0f ? 88.0f : x;
  const float n = __builtin_rintf(bounded * 1.44269502f);
  const float f = (bounded * 1.44269502f - n) + bounded * 1.92596299e-8f;
  float p = 1.54035304e-4f;
  p = p * f + 1.33335581e-3f;
  p = p * f + 9.61812911e-3f;
  p = p * f + 5.55041087e-2f;
  p = p * f + 2.40226507e-1f;
  p = p * f + 6.93147182e-1f;
  p = p * f + 1.0f;
  const float power = std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
  return x < -87.0f ? 0.0f : p * power;
}

template <class Element>
void copy_rows(const Element* x, int64_t ld, int64_t rows, int64_t columns, Element* out) {
  constexpr int64_t kLine = 64 / sizeof(Element);
  for (int64_t i = 0; i < rows; ++i) {
    const Element* const from = x + i * ld;
    Element* const to = out + i * columns;
    int64_t c = 0;
    for (; c + kLine <= columns; c += kLine) {
      Lanes line;
      std::memcpy(&line, from + c, sizeof line);
      std::memcpy(to + c, &line, sizeof line);
    }
    for (; c < columns; ++c) to[c] = from[c];
  }
}

template <class Element>
void round_state(const PassingState& state, int64_t rows, int64_t columns, Element* out) {
  const auto round = [&](const auto& value) {
    for (int64_t r = 0; r < rows; ++r) {
      for_lanes(columns, [&](int64_t c, auto count) { store(out + r * columns + c, value(r, r * columns + c, count), count); });
    }
  };
  const float *const entered = state.entered, *const sum = state.sum, *const decay = state.decay;
  if (sum == nullptr)
    round([&](int64_t, int64_t at, auto count) { return load(entered + at, count); });
  else if (entered == nullptr)
    round([&](int64_t, int64_t at, auto count) { return load(sum + at, count); });
  else
    round([&](int64_t r, int64_t at, auto count) { return decay[r] * load(entered + at, count) + load(sum + at, count); });
}

// Results lie as far apart as inputs: a cache that cannot hold them all would first read their lines, and lose others to them.
template <class Element>
inline void store_row(const Element* row, int64_t columns, bool past_caches, Element* out) {
  constexpr int64_t kLine = 64 / sizeof(Element);
  if (kStreams && past_caches && columns % kLine == 0 && reinterpret_cast<uintptr_t>(out) % 64 == 0) {
    for (int64_t c = 0; c < columns; c += kLine) stream_line(row + c, out + c);
  } else {
    std::memcpy(out, row, static_cast<size_t>(columns) * sizeof *out);
  }
}

template <class Element>
void scale_rows(const Element* x, int64_t ld, const float* factor, int64_t rows, int64_t columns, Element* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    for_lanes(columns, [&](int64_t c, auto count) { store(out + i * ld_out + c, factor[i] * load(x + i * ld + c, count), count); });
  }
}

template <class Element>
void join_rows(const float* first, const float* second, int64_t ld, const float* factor, int64_t rows, int64_t columns, bool past_caches,
               Element* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* const a = first + i * ld;
    alignas(64) Element row[kMaxColumns];
    if (second == nullptr)
      for_lanes(columns, [&](int64_t c, auto count) { store(row + c, load(a + c, count), count); });
    else
      for_lanes(columns,
                [&](int64_t c, auto count) { store(row + c, load(a + c, count) + factor[i] * load(second + i * ld + c, count), count); });
    store_row(row, columns, past_caches, out + i * ld_out);
  }
}

inline void add_rows(const float* first, const float* second, int64_t ld, const float* factor, int64_t rows, int64_t columns, float* out,
                     int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* const __restrict a = first + i * ld;
    float* const __restrict to = out + i * ld_out;
    if (second == nullptr) {
      for (int64_t c = 0; c < columns; ++c) to[c] += a[c];
      continue;
    }
    const float* const __restrict b = second + i * ld;
    const float f = factor[i];
    for (int64_t c = 0; c < columns; ++c) to[c] += a[c] + f * b[c];
  }
}

template <class Element>
void dot_rows(const Element* x, int64_t ld, const float* z, int64_t ld_z, const float* factor, int64_t rows, int64_t columns, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const Element* const a = x + i * ld;
    const float* const b = z + i * ld_z;
    out[i] = factor[i] * sum_over(columns, [&](int64_t c) { return widen(a[c]) * b[c]; });
  }
}

template <class Element>
void mask_scores(const float* scores, const float* mask, int64_t ld, int64_t first, int64_t rows, int64_t columns, Element* out,
                 int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    for_lanes(columns, [&](int64_t j, auto count) {
      const Lanes masked = load(scores + i * ld + j, count) * load(mask + i * ld + j, count);
      store(out + i * ld_out + j, between(masked, 0, first + i + 1 - j), count);
    });
  }
}

template <class Element>
void mask_pair(const float* a, const float* p, const float* mask, int64_t ld, int64_t rows, int64_t columns, Element* a_out, Element* p_out,
               int64_t ld_out, float* key_sum, float* query_sum) {
  for (int64_t j = 0; j < rows; ++j) {
    Lanes sum = {};
    for_lanes(columns, [&](int64_t i, auto count) {
      const Lanes factor = load(mask + j * ld + i, count), aj = load(a + j * ld + i, count), pj = load(p + j * ld + i, count);
      store(a_out + j * ld_out + i, between(aj * factor, j - i, kLanes), count);
      store(p_out + j * ld_out + i, between(pj * factor, j - i, kLanes), count);
      if (key_sum == nullptr) return;
      const Lanes weight = between(aj * pj * factor, j + 1 - i, kLanes);
      store(query_sum + i, load(query_sum + i, count) + weight, count);
      sum += weight;
    });
    if (key_sum != nullptr) key_sum[j] = sum_of(sum);
  }
}

// Runs a product of λ down the rows (or up), with `body(row, factors)` at each.
template <class Body>
inline void walk_forward(const float* lambda, int64_t rows, int64_t columns, bool inclusive, float start, const Body& body) {
  alignas(64) float factor[kMaxColumns];
  for (int64_t c = 0; c < columns; ++c) factor[c] = start;
  for (int64_t i = 0; i < rows; ++i) {
    const float* const __restrict step = lambda + i * columns;
    if (inclusive || i > 0) {
      for (int64_t c = 0; c < columns; ++c) factor[c] *= step[c];
    }
    body(i, factor);
  }
}
template <class Body>
inline void walk_backward(const float* lambda, int64_t rows, int64_t columns, const Body& body) {
  alignas(64) float factor[kMaxColumns];
  for (int64_t c = 0; c < columns; ++c) factor[c] = 1;
  for (int64_t i = rows - 1; i >= 0; --i) {
    body(i, factor);
    const float* const __restrict step = lambda + i * columns;
    for (int64_t c = 0; c < columns; ++c) factor[c] *= step[c];
  }
}
// From the middle row m on, to both ends: `body(row, factors)` with Π λ over m + 1 … i for the rows behind it, and 1 / Π λ over i + 1 … m for those
// before it; with `inverse` the reciprocals of these.
template <class Body>
inline void walk_from_middle(const float* lambda, int64_t rows, int64_t columns, bool inverse, const Body& body) {
  const int64_t middle = rows / 2;
  const auto reciprocal = [&](int64_t i, const float* factor) {
    alignas(64) float inverted[kMaxColumns];
    for (int64_t c = 0; c < columns; ++c) inverted[c] = 1.0f / factor[c];
    body(i, inverted);
  };
  walk_forward(lambda + middle * columns, rows - middle, columns, false, 1, [&](int64_t i, const float* factor) {
    if (inverse)
      reciprocal(middle + i, factor);
    else
      body(middle + i, factor);
  });
  walk_backward(lambda, middle + 1, columns, [&](int64_t i, const float* factor) {
    if (i == middle) return;
    if (inverse)
      body(i, factor);
    else
      reciprocal(i, factor);
  });
}

template <class Element>
inline auto scaled_into(const Element* x, int64_t ld, int64_t columns, Element* out) {
  return [=](int64_t i, const float* factor) {
    for_lanes(columns,
              [&](int64_t c, auto count) { store(out + i * columns + c, load(factor + c, count) * load(x + i * ld + c, count), count); });
  };
}
template <class Element>
void scale_forward(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns, float start, Element* out) {
  walk_forward(lambda, rows, columns, true, start, scaled_into(x, ld, columns, out));
}
template <class Element>
void scale_backward(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns, Element* out) {
  walk_backward(lambda, rows, columns, scaled_into(x, ld, columns, out));
}
template <class Element>
void scale_from_middle(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns, bool inverse, Element* out) {
  walk_from_middle(lambda, rows, columns, inverse, scaled_into(x, ld, columns, out));
}

template <class Element>
inline auto added_into(const float* z, const Element* x, int64_t columns, float weight, float* sum, float* moment) {
  return [=](int64_t i, const float* __restrict factor) {
    const float* const __restrict from = z + i * columns;
    const Element* const __restrict seen = x + i * columns;
    float* const __restrict to = sum + i * columns, * const __restrict product = moment + i * columns;
    for (int64_t c = 0; c < columns; ++c) {
      to[c] += factor[c] * from[c];
      product[c] += weight * (widen(seen[c]) * from[c]);
    }
  };
}
template <class Element>
void add_forward(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns, float start, float* sum,
                 float* moment) {
  walk_forward(lambda, rows, columns, true, start, added_into(z, x, columns, 1, sum, moment));
}
template <class Element>
void add_backward(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns, float weight, float* sum,
                  float* moment) {
  walk_backward(lambda, rows, columns, added_into(z, x, columns, weight, sum, moment));
}
template <class Element>
void add_from_middle(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns, bool inverse, float* sum,
                     float* moment) {
  walk_from_middle(lambda, rows, columns, inverse, added_into(z, x, columns, inverse ? -1.0f : 1.0f, sum, moment));
}

// Columns c … c + 15 of a row, zeros beyond the last.
template <class Element>
inline Lanes lanes_at(const Element* row, int64_t c, int64_t columns) {
  return c + kLanes <= columns ? load(row + c) : load(row + c, columns - c);
}
inline void add_lanes(float* row, int64_t c, int64_t columns, const Lanes& lanes) {
  if (c + kLanes <= columns)
    store(row + c, load(row + c) + lanes);
  else
    store(row + c, load(row + c, columns - c) + lanes, columns - c);
}

// Sums of pairs j ≤ i of a diagonal block, one vector of sums each, so that lanes are added up once.
struct PairSums {
  Lanes sums[kDiagonal * (kDiagonal + 1) / 2];
  static constexpr int64_t place(int64_t i, int64_t j) { return i * (i + 1) / 2 + j; }
};

template <class Element>
void diagonal_scores(const Element* q, int64_t ld_q, const Element* k, int64_t ld_k, const float* lambda, int64_t rows, int64_t columns,
                     float* a, int64_t ld_a) {
  PairSums pairs;
  std::fill_n(pairs.sums, PairSums::place(rows, 0), Lanes{});
  for (int64_t c = 0; c < columns; c += kLanes) {
    Lanes decayed[kDiagonal];  // k_j Π_{j < s ≤ i} λ_s
    for (int64_t i = 0; i < rows; ++i) {
      const Lanes query = lanes_at(q + i * ld_q, c, columns), step = lanes_at(lambda + i * columns, c, columns);
      Lanes* const sums = pairs.sums + PairSums::place(i, 0);
      decayed[i] = lanes_at(k + i * ld_k, c, columns);
      for (int64_t j = 0; j < i; ++j) {
        decayed[j] *= step;
        sums[j] += query * decayed[j];
      }
      sums[i] += query * decayed[i];
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j <= i; ++j) a[i * ld_a + j] = sum_of(pairs.sums[PairSums::place(i, j)]);
  }
}

template <class Element>
void diagonal_gradients(const Element* q, int64_t ld_q, const Element* k, int64_t ld_k, const float* lambda, const float* pt, int64_t ld_pt,
                        float scale, int64_t rows, int64_t columns, float* at, float* dq, float* dk, float* moment) {
  PairSums pairs;
  std::fill_n(pairs.sums, PairSums::place(rows, 0), Lanes{});
  for (int64_t c = 0; c < columns; c += kLanes) {
    Lanes queries[kDiagonal], steps[kDiagonal], d_queries[kDiagonal];
    for (int64_t i = 0; i < rows; ++i) {
      queries[i] = lanes_at(q + i * ld_q, c, columns);
      steps[i] = lanes_at(lambda + i * columns, c, columns);
      d_queries[i] = Lanes{};
    }
    for (int64_t j = 0; j < rows; ++j) {
      const Lanes key = lanes_at(k + j * ld_k, c, columns);
      const float* const p = pt + j * ld_pt;
      Lanes decay = Lanes{} + 1.0f, d_key = {};
      for (int64_t i = j; i < rows; ++i) {
        if (i > j) decay *= steps[i];
        const Lanes decayed_query = queries[i] * decay;
        pairs.sums[PairSums::place(i, j)] += decayed_query * key;
        d_queries[i] += (scale * p[i]) * (key * decay);
        d_key += (scale * p[i]) * decayed_query;
      }
      add_lanes(dk + j * columns, c, columns, d_key);
      add_lanes(moment + j * columns, c, columns, -(key * d_key));
    }
    for (int64_t i = 0; i < rows; ++i) {
      add_lanes(dq + i * columns, c, columns, d_queries[i]);
      add_lanes(moment + i * columns, c, columns, queries[i] * d_queries[i]);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j <= i; ++j) at[j * ld_pt + i] = sum_of(pairs.sums[PairSums::place(i, j)]);
  }
}

// 1 − e^x for x ≤ 0: near 0 by its Taylor polynomial, whose first omitted term is x^7/5040 < 4e-10 of x.
inline float one_less_exponential(float x) {
  const float near = -x * (1 + x * (1.0f / 2) * (1 + x * (1.0f / 3) * (1 + x * (1.0f / 4) * (1 + x * (1.0f / 5) * (1 + x * (1.0f / 6))))));
  return x > -0.25f ? near : 1 - exponential(x);
}

template <class Element>
void tied_keys(const float* g, int64_t ld, int64_t rows, int64_t columns, Element* out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* const __restrict from = g + i * ld;
    Element* const __restrict to = out + i * columns;
    for (int64_t c = 0; c < columns; ++c) to[c] = narrow<Element>(one_less_exponential(from[c]));
  }
}

template <class Element>
void step(const float* before, const float* lambda, const Element* q, const Element* k, const Element* v, float scale, int64_t rows,
          int64_t columns, float* after, Element* out) {
  alignas(64) float value[kMaxColumns], sum[kMaxColumns];
  for (int64_t c = 0; c < columns; ++c) {
    value[c] = widen(v[c]);
    sum[c] = 0;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const float query = widen(q[r]), key = widen(k[r]), decay = lambda[r];
    float* const to = after + r * columns;
    if (before == nullptr) {
      for (int64_t c = 0; c < columns; ++c) to[c] = key * value[c];
    } else {
      const float* const from = before + r * columns;
#pragma GCC ivdep
      for (int64_t c = 0; c < columns; ++c) to[c] = decay * from[c] + key * value[c];
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) sum[c] += query * to[c];
  }
  for (int64_t c = 0; c < columns; ++c) out[c] = narrow<Element>(scale * sum[c]);
}

inline void advance(float* out, const float* decay, const float* state, const float* add, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const float d = decay[r];
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = d * state[r * columns + c] + add[r * columns + c];
  }
}

inline void row_dots(const float* x, const float* y, int64_t rows, int64_t columns, float* out) {
  for (int64_t r = 0; r < rows; ++r) out[r] = sum_over(columns, [&](int64_t c) { return x[r * columns + c] * y[r * columns + c]; });
}

inline float exponentials(const float* g, int64_t ld, int64_t rows, int64_t columns, float* lambda) {
  alignas(64) float largest[kMaxColumns];
  std::fill_n(largest, kMaxColumns, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < rows; ++i) {
    const float* const __restrict from = g + i * ld;
    float* const __restrict to = lambda + i * columns;
    for (int64_t c = 0; c < columns; ++c) {
      to[c] = exponential(from[c]);
      largest[c] = from[c] > largest[c] ? from[c] : largest[c];
    }
  }
  return *std::max_element(largest, largest + columns);
}

inline void products(const float* lambda, int64_t rows, int64_t columns, float* total) {
  std::fill_n(total, columns, 1.0f);
  for (int64_t i = 0; i < rows; ++i) {
    const float* const __restrict row = lambda + i * columns;
    float* const __restrict to = total;
    for (int64_t c = 0; c < columns; ++c) to[c] *= row[c];
  }
}

inline float smallest(const float* x, int64_t count) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane] < lanes[lane] ? x[i + lane] : lanes[lane];
  }
  for (int64_t lane = 0; i + lane < count; ++lane) lanes[lane] = x[i + lane] < lanes[lane] ? x[i + lane] : lanes[lane];
  return *std::min_element(lanes, lanes + kLanes);
}

inline void decay_mask(const float* lambda, int64_t rows, float scale, float* mask, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    float* const __restrict row = mask + i * ld;
    const float* const __restrict before = row - ld;
    for (int64_t j = 0; j < i; ++j) row[j] = before[j] * lambda[i];
    row[i] = scale;
  }
}

inline void decay_gradient(const float* moment, const float* write, const float* total, const float* lambda, const float* tied,
                           int64_t rows, int64_t columns, float* d_g, int64_t ld) {
  alignas(64) float sum[kMaxColumns];
  std::copy_n(total, columns, sum);
  for (int64_t i = 0; i < rows; ++i) {
    float* const __restrict to = d_g + i * ld;
    for (int64_t c = 0; c < columns; ++c) {
      to[c] = sum[c];
      sum[c] += write[i * columns + c];
    }
  }
  std::fill_n(sum, columns, 0.0f);
  for (int64_t i = rows - 1; i >= 0; --i) {
    float* const __restrict to = d_g + i * ld;
    for (int64_t c = 0; c < columns; ++c) {
      sum[c] += moment[i * columns + c];
      to[c] += sum[c];
    }
    if (tied == nullptr) continue;
    for (int64_t c = 0; c < columns; ++c) to[c] -= lambda[i * columns + c] * tied[i * columns + c];
  }
}

inline void widen_rows(const uint16_t* x, int64_t ld, int64_t rows, int64_t columns, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    for_lanes(columns, [&](int64_t c, auto count) { store(out + i * columns + c, load(x + i * ld + c, count), count); });
  }
}

#include "kernels/linear_recurrence/cpu_gate-inl.h"

template <class Element>
constexpr RecurrenceLoops<Element> kRecurrenceLoops = {
    copy_rows<Element>,          round_state<Element>, scale_rows<Element>,   join_rows<Element>,       add_rows,
    dot_rows<Element>,           mask_scores<Element>, mask_pair<Element>,    scale_forward<Element>,   scale_backward<Element>,
    scale_from_middle<Element>,  add_forward<Element>, add_backward<Element>, add_from_middle<Element>, diagonal_scores<Element>,
    diagonal_gradients<Element>, tied_keys<Element>,   step<Element>,         gate_rows<Element>,       channel_slopes<Element>};
constexpr StateLoops kStateLoops = {advance,    row_dots,       exponentials, products,     smallest,
                                    decay_mask, decay_gradient, widen_rows,   gate_gradient};
