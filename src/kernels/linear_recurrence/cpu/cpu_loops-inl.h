// The bodies behind cpu_loops.h: rows, masks, decays along a block, states. Included by cpu_loops.cpp once
// per instruction set, after vector-inl.h, inside HWY_NAMESPACE; for AVX-512 with bf16 conversions once more.

using Reals = hn::ScalableTag<float>;
using Real = hn::Vec<Reals>;
constexpr Reals kReals;

// The widest head (op.h), and the most tokens of a diagonal block.
constexpr int64_t kMaxColumns = 256, kDiagonal = 16;

HWY_INLINE Real all(float x) { return hn::Set(kReals, x); }
HWY_INLINE float widen(float x) { return x; }
HWY_INLINE float widen(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

// row[at] += v.
template <class At>
HWY_INLINE void add(Real v, float* row, At at) {
  store(kReals, hn::Add(load(kReals, row, at), v), row, at);
}

template <class Element>
void copy_rows(const Element* x, int64_t ld, int64_t rows, int64_t columns, Element* out) {
  const hn::ScalableTag<Element> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i) {
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes)
      hn::StoreU(hn::LoadU(d, x + i * ld + c), d, out + i * columns + c);
    if (c < columns) std::copy_n(x + i * ld + c, columns - c, out + i * columns + c);
  }
}

template <class Element>
void round_state(const PassingState& state, int64_t rows, int64_t columns, Element* out) {
  const float *const entered = state.entered, *const sum = state.sum, *const decay = state.decay;
  const auto round = [&](const auto& value) LONGHAUL_VECTOR {
    for (int64_t r = 0; r < rows; ++r) {
      walk(kReals, columns,
           [&](auto at) LONGHAUL_VECTOR { store(kReals, value(r, r * columns, at), out + r * columns, at); });
    }
  };
  if (sum == nullptr) {
    round([&](int64_t, int64_t row, auto at) LONGHAUL_VECTOR { return load(kReals, entered + row, at); });
  } else if (entered == nullptr) {
    round([&](int64_t, int64_t row, auto at) LONGHAUL_VECTOR { return load(kReals, sum + row, at); });
  } else {
    round([&](int64_t r, int64_t row, auto at) LONGHAUL_VECTOR {
      return hn::MulAdd(all(decay[r]), load(kReals, entered + row, at), load(kReals, sum + row, at));
    });
  }
}

// Results lie as far apart as inputs: a cache that cannot hold them all would first read their lines, and
// lose others to them.
template <class Element>
HWY_INLINE void store_row(const Element* row, int64_t columns, bool past_caches, Element* out) {
  constexpr int64_t kLine = 64 / sizeof(Element);
  const hn::ScalableTag<Element> d;
  if (past_caches && columns % kLine == 0 && reinterpret_cast<uintptr_t>(out) % 64 == 0) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t c = 0; c < columns; c += lanes) hn::Stream(hn::Load(d, row + c), d, out + c);
  } else {
    std::memcpy(out, row, static_cast<size_t>(columns) * sizeof *out);
  }
}

template <class Element>
void scale_rows(const Element* x, int64_t ld, const float* factor, int64_t rows, int64_t columns,
                Element* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const Real by = all(factor[i]);
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, hn::Mul(by, load(kReals, x + i * ld, at)), out + i * ld_out, at);
    });
  }
}

template <class Element>
void join_rows(const float* first, const float* second, int64_t ld, const float* factor, int64_t rows,
               int64_t columns, bool past_caches, Element* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float *const a = first + i * ld, *const b = second + i * ld;
    HWY_ALIGN Element row[kMaxColumns];
    if (second == nullptr) {
      walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR { store(kReals, load(kReals, a, at), row, at); });
    } else {
      const Real f = all(factor[i]);
      walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
        store(kReals, hn::MulAdd(f, load(kReals, b, at), load(kReals, a, at)), row, at);
      });
    }
    store_row(row, columns, past_caches, out + i * ld_out);
  }
}

inline void add_rows(const float* first, const float* second, int64_t ld, const float* factor, int64_t rows,
                     int64_t columns, float* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    const float *const a = first + i * ld, *const b = second + i * ld;
    float* const to = out + i * ld_out;
    if (second == nullptr) {
      walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR { add(load(kReals, a, at), to, at); });
    } else {
      const Real f = all(factor[i]);
      walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
        add(hn::MulAdd(f, load(kReals, b, at), load(kReals, a, at)), to, at);
      });
    }
  }
}

// Σ_c x_c y_c.
template <class Element>
HWY_INLINE float dot(const Element* x, const float* y, int64_t columns) {
  Real sum = hn::Zero(kReals);
  walk(kReals, columns,
       [&](auto at) LONGHAUL_VECTOR { sum = hn::MulAdd(load(kReals, x, at), load(kReals, y, at), sum); });
  return sum_of_lanes(kReals, sum);
}
template <class Element>
void dot_rows(const Element* x, int64_t ld, const float* z, int64_t ld_z, const float* factor, int64_t rows,
              int64_t columns, float* out) {
  for (int64_t i = 0; i < rows; ++i) out[i] = factor[i] * dot(x + i * ld, z + i * ld_z, columns);
}

template <class Element>
void mask_scores(const float* scores, const float* mask, int64_t ld, int64_t first, int64_t rows,
                 int64_t columns, Element* out, int64_t ld_out) {
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real masked = hn::Mul(load(kReals, scores + i * ld, at), load(kReals, mask + i * ld, at));
      store(kReals, hn::IfThenElseZero(mask_of_first(kReals, first + i + 1 - at.i), masked), out + i * ld_out,
            at);
    });
  }
}

template <class Element>
void mask_pair(const float* a, const float* p, const float* mask, int64_t ld, int64_t rows, int64_t columns,
               Element* a_out, Element* p_out, int64_t ld_out, float* key_sum, float* query_sum) {
  for (int64_t j = 0; j < rows; ++j) {
    Real sum = hn::Zero(kReals);
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real factor = load(kReals, mask + j * ld, at), aj = load(kReals, a + j * ld, at),
                 pj = load(kReals, p + j * ld, at);
      const auto before = mask_of_first(kReals, j - at.i);
      const Real masked = hn::Mul(pj, factor);
      store(kReals, hn::IfThenZeroElse(before, hn::Mul(aj, factor)), a_out + j * ld_out, at);
      store(kReals, hn::IfThenZeroElse(before, masked), p_out + j * ld_out, at);
      if (key_sum == nullptr) return;
      const Real weight = hn::IfThenZeroElse(mask_of_first(kReals, j + 1 - at.i), hn::Mul(aj, masked));
      add(weight, query_sum, at);
      sum = hn::Add(sum, weight);
    });
    if (key_sum != nullptr) key_sum[j] = sum_of_lanes(kReals, sum);
  }
}

// Runs a product of λ down the rows (or up), with `body(row, factors)` at each.
HWY_INLINE void multiply_row(const float* by, int64_t columns, float* row) {
  walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
    store(kReals, hn::Mul(load(kReals, row, at), load(kReals, by, at)), row, at);
  });
}
template <class Body>
HWY_INLINE void walk_forward(const float* lambda, int64_t rows, int64_t columns, bool inclusive, float start,
                             const Body& body) {
  HWY_ALIGN float factor[kMaxColumns];
  std::fill_n(factor, columns, start);
  for (int64_t i = 0; i < rows; ++i) {
    if (inclusive || i > 0) multiply_row(lambda + i * columns, columns, factor);
    body(i, factor);
  }
}
template <class Body>
HWY_INLINE void walk_backward(const float* lambda, int64_t rows, int64_t columns, const Body& body) {
  HWY_ALIGN float factor[kMaxColumns];
  std::fill_n(factor, columns, 1.0f);
  for (int64_t i = rows - 1; i >= 0; --i) {
    body(i, factor);
    multiply_row(lambda + i * columns, columns, factor);
  }
}
// From the middle row m on, to both ends: `body(row, factors)` with Π λ over m + 1 … i for the rows behind
// it, and 1 / Π λ over i + 1 … m for those before it; with `inverse` the reciprocals of these.
template <class Body>
HWY_INLINE void walk_from_middle(const float* lambda, int64_t rows, int64_t columns, bool inverse,
                                 const Body& body) {
  const int64_t middle = rows / 2;
  const auto inverted = [&](int64_t i, const float* factor) LONGHAUL_VECTOR {
    HWY_ALIGN float reciprocals[kMaxColumns];
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, hn::Div(all(1), load(kReals, factor, at)), reciprocals, at);
    });
    body(i, reciprocals);
  };
  walk_forward(lambda + middle * columns, rows - middle, columns, false, 1,
               [&](int64_t i, const float* factor) LONGHAUL_VECTOR {
                 if (inverse)
                   inverted(middle + i, factor);
                 else
                   body(middle + i, factor);
               });
  walk_backward(lambda, middle + 1, columns, [&](int64_t i, const float* factor) LONGHAUL_VECTOR {
    if (i == middle) return;
    if (inverse)
      body(i, factor);
    else
      inverted(i, factor);
  });
}

// The two things that are done with factors: a row of x scaled; or z scaled and added, and what that gives
// the moment.
template <class Element>
struct ScaledInto {
  const Element* x;
  int64_t ld, columns;
  Element* out;
  HWY_INLINE void operator()(int64_t i, const float* factor) const {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, hn::Mul(load(kReals, factor, at), load(kReals, x + i * ld, at)), out + i * columns, at);
    });
  }
};
template <class Element>
void scale_forward(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                   float start, Element* out) {
  walk_forward(lambda, rows, columns, true, start, ScaledInto<Element>{x, ld, columns, out});
}
template <class Element>
void scale_backward(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                    Element* out) {
  walk_backward(lambda, rows, columns, ScaledInto<Element>{x, ld, columns, out});
}
template <class Element>
void scale_from_middle(const Element* x, int64_t ld, const float* lambda, int64_t rows, int64_t columns,
                       bool inverse, Element* out) {
  walk_from_middle(lambda, rows, columns, inverse, ScaledInto<Element>{x, ld, columns, out});
}

template <class Element>
struct AddedInto {
  const float* z;
  const Element* x;
  int64_t columns;
  float weight, *sum, *moment;
  HWY_INLINE void operator()(int64_t i, const float* factor) const {
    const Real w = all(weight);
    const int64_t row = i * columns;
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real from = load(kReals, z + row, at);
      add(hn::Mul(load(kReals, factor, at), from), sum + row, at);
      add(hn::Mul(w, hn::Mul(load(kReals, x + row, at), from)), moment + row, at);
    });
  }
};
template <class Element>
void add_forward(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns,
                 float start, float* sum, float* moment) {
  walk_forward(lambda, rows, columns, true, start, AddedInto<Element>{z, x, columns, 1, sum, moment});
}
template <class Element>
void add_backward(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns,
                  float weight, float* sum, float* moment) {
  walk_backward(lambda, rows, columns, AddedInto<Element>{z, x, columns, weight, sum, moment});
}
template <class Element>
void add_from_middle(const float* z, const Element* x, const float* lambda, int64_t rows, int64_t columns,
                     bool inverse, float* sum, float* moment) {
  walk_from_middle(lambda, rows, columns, inverse,
                   AddedInto<Element>{z, x, columns, inverse ? -1.0f : 1.0f, sum, moment});
}

// Columns outside, rows inside: an output stays in a register over all rows.
template <class Element>
void step(const float* before, const float* lambda, const Element* q, const Element* k, const Element* v,
          float scale, int64_t rows, int64_t columns, float* after, Element* out) {
  walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
    const Real value = load(kReals, v, at);
    Real sum = hn::Zero(kReals);
    for (int64_t r = 0; r < rows; ++r) {
      Real state = hn::Mul(all(widen(k[r])), value);
      if (before != nullptr)
        state = hn::MulAdd(all(lambda[r]), load(kReals, before + r * columns, at), state);
      store(kReals, state, after + r * columns, at);
      sum = hn::MulAdd(all(widen(q[r])), state, sum);
    }
    store(kReals, hn::Mul(all(scale), sum), out, at);
  });
}

inline void advance(float* out, const float* decay, const float* state, const float* added, int64_t rows,
                    int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const Real d = all(decay[r]);
    const int64_t row = r * columns;
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, hn::MulAdd(d, load(kReals, state + row, at), load(kReals, added + row, at)), out + row,
            at);
    });
  }
}

inline void row_dots(const float* x, const float* y, int64_t rows, int64_t columns, float* out) {
  for (int64_t r = 0; r < rows; ++r) out[r] = dot(x + r * columns, y + r * columns, columns);
}

inline float exponentials(const float* g, int64_t ld, int64_t rows, int64_t columns, float* lambda) {
  HWY_ALIGN float largest[kMaxColumns];
  std::fill_n(largest, kMaxColumns, -std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real x = load(kReals, g + i * ld, at), most = load(kReals, largest, at);
      store(kReals, exponential(kReals, x), lambda + i * columns, at);
      store(kReals, hn::IfThenElse(hn::Gt(x, most), x, most), largest, at);
    });
  }
  return *std::max_element(largest, largest + columns);
}

inline void products(const float* lambda, int64_t rows, int64_t columns, float* total) {
  std::fill_n(total, columns, 1.0f);
  for (int64_t i = 0; i < rows; ++i) multiply_row(lambda + i * columns, columns, total);
}

inline float smallest(const float* x, int64_t count) {
  const Real infinity = all(std::numeric_limits<float>::infinity());
  Real least = infinity;
  walk(kReals, count, [&](auto at) LONGHAUL_VECTOR {
    Real v = load(kReals, x, at);
    if constexpr (std::is_same_v<decltype(at), Rest>)
      v = hn::IfThenElse(mask_of_first(kReals, at.n), v, infinity);
    least = hn::IfThenElse(hn::Lt(v, least), v, least);
  });
  return hn::GetLane(hn::MinOfLanes(kReals, least));
}

inline void decay_mask(const float* lambda, int64_t rows, float scale, float* mask, int64_t ld) {
  for (int64_t i = 0; i < rows; ++i) {
    float* const row = mask + i * ld;
    const Real by = all(lambda[i]);
    walk(kReals, i,
         [&](auto at) LONGHAUL_VECTOR { store(kReals, hn::Mul(load(kReals, row - ld, at), by), row, at); });
    row[i] = scale;
  }
}

inline void decay_gradient(const float* moment, const float* write, const float* total, const float* lambda,
                           const float* tied, int64_t rows, int64_t columns, float* d_g, int64_t ld) {
  HWY_ALIGN float sum[kMaxColumns];
  std::copy_n(total, columns, sum);
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real before = load(kReals, sum, at);
      store(kReals, before, d_g + i * ld, at);
      store(kReals, hn::Add(before, load(kReals, write + i * columns, at)), sum, at);
    });
  }
  std::fill_n(sum, columns, 0.0f);
  for (int64_t i = rows - 1; i >= 0; --i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real later = hn::Add(load(kReals, sum, at), load(kReals, moment + i * columns, at));
      store(kReals, later, sum, at);
      Real gradient = hn::Add(load(kReals, d_g + i * ld, at), later);
      if (tied != nullptr)
        gradient = hn::NegMulAdd(load(kReals, lambda + i * columns, at), load(kReals, tied + i * columns, at),
                                 gradient);
      store(kReals, gradient, d_g + i * ld, at);
    });
  }
}

inline void widen_rows(const uint16_t* x, int64_t ld, int64_t rows, int64_t columns, float* out) {
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, load(kReals, x + i * ld, at), out + i * columns, at);
    });
  }
}

#include "kernels/linear_recurrence/cpu/cpu_diagonal-inl.h"
#include "kernels/linear_recurrence/cpu/cpu_gate-inl.h"

template <class Element>
constexpr RecurrenceLoops<Element> kRecurrenceLoops = {copy_rows<Element>,
                                                       round_state<Element>,
                                                       scale_rows<Element>,
                                                       join_rows<Element>,
                                                       add_rows,
                                                       dot_rows<Element>,
                                                       mask_scores<Element>,
                                                       mask_pair<Element>,
                                                       scale_forward<Element>,
                                                       scale_backward<Element>,
                                                       scale_from_middle<Element>,
                                                       add_forward<Element>,
                                                       add_backward<Element>,
                                                       add_from_middle<Element>,
                                                       diagonal_scores<Element>,
                                                       diagonal_gradients<Element>,
                                                       tied_keys<Element>,
                                                       step<Element>,
                                                       gate_rows<Element>,
                                                       channel_slopes<Element>};
constexpr StateLoops kStateLoops = {advance,    row_dots,       exponentials, products,     smallest,
                                    decay_mask, decay_gradient, widen_rows,   gate_gradient};
