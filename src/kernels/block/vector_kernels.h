// The multiplications for vector instructions, written once over a small class `Set` of an instruction set (avx512.cpp shows one):
// R rows of A times P panels of B with all sums in registers. Included between LONGHAUL_BEGIN_TARGET and LONGHAUL_END_TARGET, so that
// each file gets its own copies (Set lives in an anonymous namespace).
//
// How a step walks along k is the Step: Fp32Step takes one row of the panels, WidenedStep two interleaved bf16 rows that it widens to
// fp32 and multiplies one after the other, PairStep (where the set has dot_pairs) both at once.

namespace longhaul::kernels {
namespace {

inline uint32_t pair_at(const uint16_t* a) {
  uint32_t pair;
  std::memcpy(&pair, a, sizeof pair);
  return pair;
}

template <class Set>
struct Fp32Step {
  using Element = float;
  static constexpr int kRowsOfB = 1;  // k's one step takes
  static constexpr int kRows = Set::kRows;
  static int64_t panel_stride(int64_t k) { return k * kPanelColumns; }

  template <int R, int V, class Sums>
  static inline void step(Sums& sums, const float* a, int64_t lda, const float* const* panels, int64_t at) {
    typename Set::Real b[V];
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v) b[v] = Set::load(panels[v / Set::kVectors] + at * 16 + v % Set::kVectors * Set::kLanes);
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Real x = Set::broadcast(a[r * lda + at]);
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::multiply_add(x, b[v], sums[r][v]);
    }
  }
  template <int R, int V, class Sums>
  static inline void last(Sums&, const float*, int64_t, const float* const*, int64_t) {}
};

template <class Set>
struct WidenedStep {
  using Element = uint16_t;
  static constexpr int kRowsOfB = 2;
  static constexpr int kRows = Set::kWidenedRows;
  static int64_t panel_stride(int64_t k) { return packed_k(k) * kPanelColumns; }

  template <int R, int V, bool kBoth, class Sums, class Pair>
  static inline void widened(Sums& sums, const Pair& pair_of, const uint16_t* const* panels, int64_t at) {
    typename Set::Real b[V];
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v)
      b[v] = Set::even(Set::load_pairs(panels[v / Set::kVectors] + at * 32 + v % Set::kVectors * Set::kLanes * 2));
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Real x = Set::even(Set::broadcast_pair(pair_of(r)));
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::multiply_add(x, b[v], sums[r][v]);
    }
    if constexpr (!kBoth) return;
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v) b[v] = Set::odd(Set::load_pairs(panels[v / Set::kVectors] + at * 32 + v % Set::kVectors * Set::kLanes * 2));
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Real x = Set::odd(Set::broadcast_pair(pair_of(r)));
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::multiply_add(x, b[v], sums[r][v]);
    }
  }
  template <int R, int V, class Sums>
  static inline void step(Sums& sums, const uint16_t* a, int64_t lda, const uint16_t* const* panels, int64_t at) {
    widened<R, V, true>(
        sums, [&](int r) { return pair_at(a + r * lda + 2 * at); }, panels, at);
  }
  template <int R, int V, class Sums>
  static inline void last(Sums& sums, const uint16_t* a, int64_t lda, const uint16_t* const* panels, int64_t at) {
    widened<R, V, false>(
        sums, [&](int r) { return uint32_t{a[r * lda + 2 * at]}; }, panels, at);
  }
};

template <class Set>
struct PairStep : WidenedStep<Set> {
  static constexpr int kRows = Set::kRows;

  template <int R, int V, class Sums, class Pair>
  static inline void paired(Sums& sums, const Pair& pair_of, const uint16_t* const* panels, int64_t at) {
    typename Set::Pairs b[V];
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v) b[v] = Set::load_pairs(panels[v / Set::kVectors] + at * 32 + v % Set::kVectors * Set::kLanes * 2);
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Pairs x = Set::broadcast_pair(pair_of(r));
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::dot_pairs(sums[r][v], x, b[v]);
    }
  }
  template <int R, int V, class Sums>
  static inline void step(Sums& sums, const uint16_t* a, int64_t lda, const uint16_t* const* panels, int64_t at) {
    paired<R, V>(
        sums, [&](int r) { return pair_at(a + r * lda + 2 * at); }, panels, at);
  }
  // The last k of an odd count: nothing beyond A is read, and the panel holds a zero there.
  template <int R, int V, class Sums>
  static inline void last(Sums& sums, const uint16_t* a, int64_t lda, const uint16_t* const* panels, int64_t at) {
    paired<R, V>(
        sums, [&](int r) { return uint32_t{a[r * lda + 2 * at]}; }, panels, at);
  }
};

// One block of C: R rows, P panels; `columns` of the last panel exist.
template <class Set, template <class> class Step, int R, int P>
void block(const typename Step<Set>::Element* a, int64_t lda, const typename Step<Set>::Element* b, int64_t k, float* c, int64_t ldc,
           int64_t columns, bool accumulate) {
  constexpr int V = P * Set::kVectors;
  const typename Step<Set>::Element* panels[P];
  LONGHAUL_UNROLL
  for (int p = 0; p < P; ++p) panels[p] = b + p * Step<Set>::panel_stride(k);
  typename Set::Real sums[R][V];
  LONGHAUL_UNROLL
  for (int r = 0; r < R; ++r) {
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v) sums[r][v] = Set::zero();
  }
  const int64_t steps = k / Step<Set>::kRowsOfB;
  for (int64_t at = 0; at < steps; ++at) Step<Set>::template step<R, V>(sums, a, lda, panels, at);
  if (steps * Step<Set>::kRowsOfB < k) Step<Set>::template last<R, V>(sums, a, lda, panels, steps);

  LONGHAUL_UNROLL
  for (int r = 0; r < R; ++r) {
    LONGHAUL_UNROLL
    for (int p = 0; p < P; ++p) {
      float* const to = c + r * ldc + p * kPanelColumns;
      if (p < P - 1 || columns == kPanelColumns) {
        LONGHAUL_UNROLL
        for (int v = 0; v < Set::kVectors; ++v) {
          const typename Set::Real sum = sums[r][p * Set::kVectors + v];
          Set::store(to + v * Set::kLanes, accumulate ? Set::add(Set::load(to + v * Set::kLanes), sum) : sum);
        }
      } else {
        float row[kPanelColumns];
        LONGHAUL_UNROLL
        for (int v = 0; v < Set::kVectors; ++v) Set::store(row + v * Set::kLanes, sums[r][p * Set::kVectors + v]);
        for (int64_t j = 0; j < columns; ++j) to[j] = accumulate ? to[j] + row[j] : row[j];
      }
    }
  }
}

template <class Set, template <class> class Step, int P, int... R>
constexpr auto blocks_of(std::integer_sequence<int, R...>) {
  return std::array{&block<Set, Step, R + 1, P>...};
}

// All rows against P panels.
template <class Set, template <class> class Step, int P>
void column_of_blocks(const typename Step<Set>::Element* a, int64_t lda, const typename Step<Set>::Element* b, int64_t m, int64_t k,
                      float* c, int64_t ldc, int64_t columns, bool accumulate) {
  static constexpr auto kBlocks = blocks_of<Set, Step, P>(std::make_integer_sequence<int, Step<Set>::kRows>());
  for (int64_t i = 0; i < m; i += Step<Set>::kRows) {
    const int64_t rows = std::min<int64_t>(Step<Set>::kRows, m - i);
    kBlocks[static_cast<size_t>(rows - 1)](a + i * lda, lda, b, k, c + i * ldc, ldc, columns, accumulate);
  }
}

template <class Set, template <class> class Step, int... P>
constexpr auto columns_of(std::integer_sequence<int, P...>) {
  return std::array{&column_of_blocks<Set, Step, P + 1>...};
}

template <class Set, template <class> class Step>
void multiply(const typename Step<Set>::Element* a, int64_t lda, const typename Step<Set>::Element* b, int64_t m, int64_t n, int64_t k,
              float* c, int64_t ldc, bool accumulate) {
  LONGHAUL_ASSERT(in_block_scope(), "no BlockScope is open");
  static constexpr auto kColumns = columns_of<Set, Step>(std::make_integer_sequence<int, Set::kPanels>());
  for (int64_t j = 0; j < n; j += Set::kPanels * kPanelColumns) {
    const int64_t columns = std::min<int64_t>(Set::kPanels * kPanelColumns, n - j), panels = packed_n(columns) / kPanelColumns;
    kColumns[static_cast<size_t>(panels - 1)](a, lda, b + j / kPanelColumns * Step<Set>::panel_stride(k), m, k, c + j, ldc,
                                              columns - (panels - 1) * kPanelColumns, accumulate);
  }
}

inline void nothing() {}

}  // namespace
}  // namespace longhaul::kernels
