// The gates of op.h, on rows of fp32 logits. Included by cpu_loops-inl.h, once per instruction set.
// Sources: docs/sources/linear-attention.md §5.3; small values are computed as a product or quotient, never
// as a difference from 1.

struct Sigmoids {
  Real of, rest;  // σ(x), σ(−x)
};
HWY_INLINE Sigmoids sigmoids(Real x) {
  const Real u = exponential(kReals, hn::Neg(hn::Abs(x))), larger = hn::Div(all(1), hn::Add(all(1), u)),
             smaller = hn::Mul(u, larger);
  const auto negative = hn::Lt(x, hn::Zero(kReals));
  return {hn::IfThenElse(negative, smaller, larger), hn::IfThenElse(negative, larger, smaller)};
}

// log σ(x) = min(x, 0) − log(1 + u), u = e^{−|x|}, by 2 artanh(u / (2 + u)), whose argument is 1/3 at most:
// the first omitted term is 7e-10 of the sum, and the sum is as exact where u is small.
HWY_INLINE Real log_sigmoid(Real x) {
  const Real u = exponential(kReals, hn::Neg(hn::Abs(x))), s = hn::Div(u, hn::Add(all(2), u)),
             t = hn::Mul(s, s);
  Real p = all(1.0f / 15);
  for (const float divisor : {13.0f, 11.0f, 9.0f, 7.0f, 5.0f, 3.0f, 1.0f})
    p = hn::MulAdd(p, t, all(1.0f / divisor));
  const Real linear = hn::IfThenElseZero(hn::Lt(x, hn::Zero(kReals)), x);
  return hn::NegMulAdd(hn::Add(s, s), p, linear);
}

// 1 − e^x for x ≤ 0: near 0 by its Taylor polynomial, whose first omitted term is x^7/5040 < 4e-10 of x.
HWY_INLINE Real one_less_exponential(Real x) {
  Real near = all(1);
  for (const float divisor : {6.0f, 5.0f, 4.0f, 3.0f, 2.0f})
    near = hn::MulAdd(hn::Mul(x, all(1.0f / divisor)), near, all(1));
  near = hn::Neg(hn::Mul(x, near));
  return hn::IfThenElse(hn::Gt(x, all(-0.25f)), near, hn::Sub(all(1), exponential(kReals, x)));
}

template <class Element>
void tied_keys(const float* g, int64_t ld, int64_t rows, int64_t columns, Element* out) {
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      store(kReals, one_less_exponential(load(kReals, g + i * ld, at)), out + i * columns, at);
    });
  }
}

template <class Element>
void gate_rows(const HeadGate& gate, const float* x, int64_t ld, int64_t rows, int64_t columns, float* lambda,
               Element* keys) {
  const Real inverse_divisor = all(gate.inverse_divisor);
  for (int64_t i = 0; i < rows; ++i) {
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real logit = load(kReals, x + i * ld, at);
      Real decay, key;
      if (gate.lower_bound != nullptr) {
        const Real bound = load(kReals, gate.lower_bound, at), room = hn::Sub(all(1), bound);
        const Sigmoids s = sigmoids(logit);
        decay = hn::MulAdd(room, s.of, bound);
        key = hn::Mul(room, s.rest);
      } else {
        const Real g = hn::Mul(inverse_divisor, log_sigmoid(logit));
        decay = exponential(kReals, g);
        key = one_less_exponential(g);
      }
      store(kReals, decay, lambda + i * columns, at);
      if (keys != nullptr) store(kReals, key, keys + i * columns, at);
    });
  }
}

inline void gate_gradient(const HeadGate& gate, const float* x, int64_t ld, const float* lambda, int64_t rows,
                          int64_t columns, float* gradient, float* d_bound) {
  const Real inverse_divisor = all(gate.inverse_divisor), zero = hn::Zero(kReals);
  for (int64_t i = 0; i < rows; ++i) {
    float* const to = gradient + i * columns;
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Sigmoids s = sigmoids(load(kReals, x + i * ld, at));
      const Real d = load(kReals, to, at);
      if (gate.lower_bound == nullptr)
        return store(kReals, hn::Mul(d, hn::Mul(inverse_divisor, s.rest)), to, at);
      const Real decay = load(kReals, lambda + i * columns, at),
                 room = hn::Sub(all(1), load(kReals, gate.lower_bound, at));
      // channel_slopes takes what is too small to divide by; lanes beyond a rest are such
      if (d_bound != nullptr) {
        const Real slope = hn::Div(hn::Mul(s.rest, d), decay);
        add(hn::IfThenZeroElse(hn::Lt(decay, all(kSmallDecay)), slope), d_bound, at);
      }
      const Real share = hn::Div(hn::Mul(room, s.of), decay);
      store(kReals, hn::Mul(d, hn::IfThenZeroElse(hn::Eq(decay, zero), hn::Mul(s.rest, share))), to, at);
    });
  }
}

template <class Element>
void channel_slopes(const float* state, float* gradient, const Element* q, const Element* k, int64_t ld,
                    const Element* v, const Element* d_o, const float* lambda, float scale, int64_t rows,
                    int64_t columns, float* before, float* slope) {
  if (state == nullptr)
    std::fill_n(before, columns, 0.0f);
  else
    std::copy_n(state, columns, before);
  for (int64_t i = 0; i + 1 < rows; ++i) {
    const Real decay = all(lambda[i * ld]), key = all(widen(k[i * ld]));
    const int64_t row = i * columns;
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real written = hn::Mul(key, load(kReals, v + row, at));
      store(kReals, hn::MulAdd(decay, load(kReals, before + row, at), written), before + row + columns, at);
    });
  }
  for (int64_t i = rows - 1; i >= 0; --i) {
    const Real decay = all(i + 1 < rows ? lambda[(i + 1) * ld] : 1.0f), query = all(scale * widen(q[i * ld]));
    walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
      const Real read = hn::Mul(query, load(kReals, d_o + i * columns, at));
      store(kReals, hn::MulAdd(decay, load(kReals, gradient, at), read), gradient, at);
    });
    slope[i] = dot(before + i * columns, gradient, columns);
  }
}
