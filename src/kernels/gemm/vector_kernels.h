// The multiplications for vector instructions, written once over a small class `Set` of an instruction set
// (avx512.cpp shows one): R rows of A times P panels of B with all sums in registers. Included between
// LONGHAUL_BEGIN_TARGET and LONGHAUL_END_TARGET, so that each file gets its own copies (Set lives in an
// anonymous namespace).
//
// How a step walks along k is the Step: Fp32Step takes one row of the panels, WidenedStep two interleaved
// bf16 rows that it widens to fp32 and multiplies one after the other, PairStep (where the set has dot_pairs)
// both at once. B is stored as the product's elements or, where the set loads them, in eight bits (int8.h),
// widened as it is loaded: the order of sums is the Step's either way.

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

  template <int R, int V, class Sums, class Stored>
  static inline void step(Sums& sums, const float* a, int64_t lda, const Stored* const* panels, int64_t at) {
    typename Set::Real b[V];
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v)
      b[v] = Set::load(panels[v / Set::kVectors] + at * 16 + v % Set::kVectors * Set::kLanes);
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Real x = Set::broadcast(a[r * lda + at]);
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::multiply_add(x, b[v], sums[r][v]);
    }
  }
  template <int R, int V, class Sums, class Stored>
  static inline void last(Sums&, const float*, int64_t, const Stored* const*, int64_t) {}
};

template <class Set>
struct WidenedStep {
  using Element = uint16_t;
  static constexpr int kRowsOfB = 2;
  static constexpr int kRows = Set::kWidenedRows;
  static int64_t panel_stride(int64_t k) { return packed_k(k) * kPanelColumns; }

  template <int R, int V, bool kBoth, class Sums, class Pair, class Stored>
  static inline void widened(Sums& sums, const Pair& pair_of, const Stored* const* panels, int64_t at) {
    typename Set::Real b[V];
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v)
      b[v] = Set::even(
          Set::load_pairs(panels[v / Set::kVectors] + at * 32 + v % Set::kVectors * Set::kLanes * 2));
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Real x = Set::even(Set::broadcast_pair(pair_of(r)));
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::multiply_add(x, b[v], sums[r][v]);
    }
    if constexpr (!kBoth) return;
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v)
      b[v] = Set::odd(
          Set::load_pairs(panels[v / Set::kVectors] + at * 32 + v % Set::kVectors * Set::kLanes * 2));
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Real x = Set::odd(Set::broadcast_pair(pair_of(r)));
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::multiply_add(x, b[v], sums[r][v]);
    }
  }
  template <int R, int V, class Sums, class Stored>
  static inline void step(Sums& sums, const uint16_t* a, int64_t lda, const Stored* const* panels,
                          int64_t at) {
    widened<R, V, true>(
        sums, [&](int r) { return pair_at(a + r * lda + 2 * at); }, panels, at);
  }
  template <int R, int V, class Sums, class Stored>
  static inline void last(Sums& sums, const uint16_t* a, int64_t lda, const Stored* const* panels,
                          int64_t at) {
    widened<R, V, false>(
        sums, [&](int r) { return uint32_t{a[r * lda + 2 * at]}; }, panels, at);
  }
};

template <class Set>
struct PairStep : WidenedStep<Set> {
  static constexpr int kRows = Set::kRows;

  template <int R, int V, class Sums, class Pair, class Stored>
  static inline void paired(Sums& sums, const Pair& pair_of, const Stored* const* panels, int64_t at) {
    typename Set::Pairs b[V];
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v)
      b[v] = Set::load_pairs(panels[v / Set::kVectors] + at * 32 + v % Set::kVectors * Set::kLanes * 2);
    LONGHAUL_UNROLL
    for (int r = 0; r < R; ++r) {
      const typename Set::Pairs x = Set::broadcast_pair(pair_of(r));
      LONGHAUL_UNROLL
      for (int v = 0; v < V; ++v) sums[r][v] = Set::dot_pairs(sums[r][v], x, b[v]);
    }
  }
  template <int R, int V, class Sums, class Stored>
  static inline void step(Sums& sums, const uint16_t* a, int64_t lda, const Stored* const* panels,
                          int64_t at) {
    paired<R, V>(
        sums, [&](int r) { return pair_at(a + r * lda + 2 * at); }, panels, at);
  }
  // The last k of an odd count: nothing beyond A is read, and the panel holds a zero there.
  template <int R, int V, class Sums, class Stored>
  static inline void last(Sums& sums, const uint16_t* a, int64_t lda, const Stored* const* panels,
                          int64_t at) {
    paired<R, V>(
        sums, [&](int r) { return uint32_t{a[r * lda + 2 * at]}; }, panels, at);
  }
};

template <class Step, class Stored>
inline int64_t stride_of_panels(int64_t k) {
  return sizeof(Stored) == 1 ? packed_k(k) * kPanelColumns : Step::panel_stride(k);
}

// Piece i of so many bytes, on its way into the second-level cache. They may lie outside of what there is.
template <int kBytes>
inline void prefetch(const void* from, int64_t i) {
  for (int line = 0; line < kBytes; line += 64)
    __builtin_prefetch(static_cast<const char*>(from) + i * kBytes + line, 0, 2);
}

// One block of C: R rows, P panels; `columns` of the last panel exist.
template <class Set, template <class> class Step, class Stored, int R, int P>
void block(const typename Step<Set>::Element* a, int64_t lda, const Stored* b, int64_t k, float* c,
           int64_t ldc, int64_t columns, bool accumulate) {
  constexpr int V = P * Set::kVectors;
  const Stored* panels[P];
  LONGHAUL_UNROLL
  for (int p = 0; p < P; ++p) panels[p] = b + p * stride_of_panels<Step<Set>, Stored>(k);
  typename Set::Real sums[R][V];
  LONGHAUL_UNROLL
  for (int r = 0; r < R; ++r) {
    LONGHAUL_UNROLL
    for (int v = 0; v < V; ++v) sums[r][v] = Set::zero();
  }
  const int64_t steps = k / Step<Set>::kRowsOfB;
  for (int64_t at = 0; at < steps; ++at) {
    // Eight bits are used up faster than the processor asks for the pages that follow: the next panels are
    // asked for here.
    if constexpr (sizeof(Stored) == 1)
      prefetch<P * kPanelColumns * Step<Set>::kRowsOfB>(b + P * stride_of_panels<Step<Set>, Stored>(k), at);
    Step<Set>::template step<R, V>(sums, a, lda, panels, at);
  }
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
        for (int v = 0; v < Set::kVectors; ++v)
          Set::store(row + v * Set::kLanes, sums[r][p * Set::kVectors + v]);
        for (int64_t j = 0; j < columns; ++j) to[j] = accumulate ? to[j] + row[j] : row[j];
      }
    }
  }
}

template <class Set, template <class> class Step, class Stored, int P, int... R>
constexpr auto blocks_of(std::integer_sequence<int, R...>) {
  return std::array{&block<Set, Step, Stored, R + 1, P>...};
}

// All rows against P panels.
template <class Set, template <class> class Step, class Stored, int P>
void column_of_blocks(const typename Step<Set>::Element* a, int64_t lda, const Stored* b, int64_t m,
                      int64_t k, float* c, int64_t ldc, int64_t columns, bool accumulate) {
  static constexpr auto kBlocks =
      blocks_of<Set, Step, Stored, P>(std::make_integer_sequence<int, Step<Set>::kRows>());
  for (int64_t i = 0; i < m; i += Step<Set>::kRows) {
    const int64_t rows = std::min<int64_t>(Step<Set>::kRows, m - i);
    kBlocks[static_cast<size_t>(rows - 1)](a + i * lda, lda, b, k, c + i * ldc, ldc, columns, accumulate);
  }
}

template <class Set, template <class> class Step, class Stored, int... P>
constexpr auto columns_of(std::integer_sequence<int, P...>) {
  return std::array{&column_of_blocks<Set, Step, Stored, P + 1>...};
}

template <class Set, template <class> class Step, class Stored = typename Step<Set>::Element>
void multiply(const typename Step<Set>::Element* a, int64_t lda, const Stored* b, int64_t m, int64_t n,
              int64_t k, float* c, int64_t ldc, bool accumulate) {
  LONGHAUL_ASSERT(in_block_scope(), "no BlockScope is open");
  static constexpr auto kColumns =
      columns_of<Set, Step, Stored>(std::make_integer_sequence<int, Set::kPanels>());
  for (int64_t j = 0; j < n; j += Set::kPanels * kPanelColumns) {
    const int64_t columns = std::min<int64_t>(Set::kPanels * kPanelColumns, n - j),
                  panels = packed_n(columns) / kPanelColumns;
    kColumns[static_cast<size_t>(panels - 1)](
        a, lda, b + j / kPanelColumns * stride_of_panels<Step<Set>, Stored>(k), m, k, c + j, ldc,
        columns - (panels - 1) * kPanelColumns, accumulate);
  }
}

inline void nothing() {}

}  // namespace
}  // namespace longhaul::kernels
