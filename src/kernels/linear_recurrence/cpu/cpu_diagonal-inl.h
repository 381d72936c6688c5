// One diagonal block of at most 16 tokens with a decay per channel, pair by pair, so that every decay is a
// product of λ ≤ 1 and exact. Included by cpu_loops-inl.h, once per instruction set.

// Sums of pairs j ≤ i, one vector of sums each, so that lanes are added up once.
struct PairSums {
  Real sums[kDiagonal * (kDiagonal + 1) / 2];
  static constexpr int64_t place(int64_t i, int64_t j) { return i * (i + 1) / 2 + j; }
};

template <class Element>
void diagonal_scores(const Element* q, int64_t ld_q, const Element* k, int64_t ld_k, const float* lambda,
                     int64_t rows, int64_t columns, float* a, int64_t ld_a) {
  PairSums pairs;
  std::fill_n(pairs.sums, PairSums::place(rows, 0), hn::Zero(kReals));
  walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
    Real decayed[kDiagonal];  // k_j Π_{j < s ≤ i} λ_s
    for (int64_t i = 0; i < rows; ++i) {
      const Real query = load(kReals, q + i * ld_q, at), step = load(kReals, lambda + i * columns, at);
      Real* const sums = pairs.sums + PairSums::place(i, 0);
      decayed[i] = load(kReals, k + i * ld_k, at);
      for (int64_t j = 0; j < i; ++j) {
        decayed[j] = hn::Mul(decayed[j], step);
        sums[j] = hn::MulAdd(query, decayed[j], sums[j]);
      }
      sums[i] = hn::MulAdd(query, decayed[i], sums[i]);
    }
  });
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      a[i * ld_a + j] = sum_of_lanes(kReals, pairs.sums[PairSums::place(i, j)]);
  }
}

template <class Element>
void diagonal_gradients(const Element* q, int64_t ld_q, const Element* k, int64_t ld_k, const float* lambda,
                        const float* pt, int64_t ld_pt, float scale, int64_t rows, int64_t columns,
                        float* at_ji, float* dq, float* dk, float* moment) {
  PairSums pairs;
  std::fill_n(pairs.sums, PairSums::place(rows, 0), hn::Zero(kReals));
  walk(kReals, columns, [&](auto at) LONGHAUL_VECTOR {
    Real queries[kDiagonal], steps[kDiagonal], d_queries[kDiagonal];
    for (int64_t i = 0; i < rows; ++i) {
      queries[i] = load(kReals, q + i * ld_q, at);
      steps[i] = load(kReals, lambda + i * columns, at);
      d_queries[i] = hn::Zero(kReals);
    }
    for (int64_t j = 0; j < rows; ++j) {
      const Real key = load(kReals, k + j * ld_k, at);
      const float* const p = pt + j * ld_pt;
      Real decay = all(1), d_key = hn::Zero(kReals);
      for (int64_t i = j; i < rows; ++i) {
        if (i > j) decay = hn::Mul(decay, steps[i]);
        const Real decayed_query = hn::Mul(queries[i], decay), weight = all(scale * p[i]);
        Real& sum = pairs.sums[PairSums::place(i, j)];
        sum = hn::MulAdd(decayed_query, key, sum);
        d_queries[i] = hn::MulAdd(weight, hn::Mul(key, decay), d_queries[i]);
        d_key = hn::MulAdd(weight, decayed_query, d_key);
      }
      add(d_key, dk + j * columns, at);
      add(hn::Neg(hn::Mul(key, d_key)), moment + j * columns, at);
    }
    for (int64_t i = 0; i < rows; ++i) {
      add(d_queries[i], dq + i * columns, at);
      add(hn::Mul(queries[i], d_queries[i]), moment + i * columns, at);
    }
  });
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      at_ji[j * ld_pt + i] = sum_of_lanes(kReals, pairs.sums[PairSums::place(i, j)]);
  }
}
