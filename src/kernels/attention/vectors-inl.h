// The vector code of attention for one instruction set; see vectors.h. Included once per target by
// foreach_target: no ordinary guard.
#if defined(LONGHAUL_ATTENTION_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LONGHAUL_ATTENTION_VECTORS_INL
#undef LONGHAUL_ATTENTION_VECTORS_INL
#else
#define LONGHAUL_ATTENTION_VECTORS_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels::HWY_NAMESPACE {
namespace {

// One column group: at most the 16 columns of a panel.
using Reals = hn::CappedTag<float, 16>;
using Bits = hn::RebindToUnsigned<Reals>;
using Halves = hn::Rebind<uint16_t, Reals>;
using Real = hn::Vec<Reals>;
constexpr Reals kReals;
constexpr Bits kBits;
constexpr Halves kHalves;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The largest score may grow by 2^8 before what is summed so far is rescaled: sums and outputs have room for
// it, and after the first tiles it hardly ever happens.
constexpr float kSlack = 8;

void exp2_all(const float* x, int64_t count, float* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  for (int64_t i = 0; i < count; i += lanes) {
    float values[16] = {};
    const int64_t here = std::min(lanes, count - i);
    std::memcpy(values, x + i, static_cast<size_t>(here) * sizeof(float));
    hn::StoreU(exponential_of_two(kReals, hn::LoadU(kReals, values)), kReals, values);
    std::memcpy(out + i, values, static_cast<size_t>(here) * sizeof(float));
  }
}

// bf16 to nearest, ties away from zero: one addition. NaNs that come from bf16 or from arithmetic keep a bit
// and stay NaN.
HWY_INLINE hn::Vec<Bits> rounded_bits(Real x) {
  return hn::Add(hn::BitCast(kBits, x), hn::Set(kBits, 0x8000u));
}
HWY_INLINE hn::Vec<Halves> upper_halves(hn::Vec<Bits> bits) {
  return hn::DemoteTo(kHalves, hn::BitCast(hn::RebindToSigned<Bits>(), hn::ShiftRight<16>(bits)));
}
template <class Element>
HWY_INLINE Real load(const Element* from) {
  return load_whole(kReals, from);
}
HWY_INLINE void store_row(Real x, uint16_t* to) { hn::StoreU(upper_halves(rounded_bits(x)), kHalves, to); }
HWY_INLINE void store_row(Real x, float* to) { hn::StoreU(x, kReals, to); }

// The first `count` lanes, rounded as results are.
template <class Element>
HWY_INLINE void store_even(Real x, Element* to, int64_t count) {
  if (count == static_cast<int64_t>(hn::Lanes(kReals))) return store_whole(kReals, x, to);
  store(kReals, x, to, Rest{0, count});
}

// Rows `row` (even) and row + 1 of one column group of panels whose k has `padded` rows. `column` is the
// group's first.
HWY_INLINE void store_pair(Real a, Real b, uint16_t* panels, int64_t padded, int64_t row, int64_t column) {
  const auto low = hn::ShiftRight<16>(rounded_bits(a)),
             high = hn::And(rounded_bits(b), hn::Set(kBits, 0xffff0000u));
  uint16_t* const to = panels + (column / 16 * padded + row) * 16 + column % 16 * 2;
  hn::StoreU(hn::Or(low, high), kBits, reinterpret_cast<uint32_t*>(to));
}
HWY_INLINE void store_pair(Real a, Real b, float* panels, int64_t padded, int64_t row, int64_t column) {
  float* const to = panels + (column / 16 * padded + row) * 16 + column % 16;
  hn::StoreU(a, kReals, to);
  if (row + 1 < padded) hn::StoreU(b, kReals, to + 16);
}
HWY_INLINE int64_t padded_rows(const uint16_t*, int64_t rows) { return packed_k(rows); }
HWY_INLINE int64_t padded_rows(const float*, int64_t rows) { return rows; }

// The rows that some column of the group at `column` sees, [begin, end), and those that all of them see,
// [full_begin, full_end).
struct VisibleRows {
  int64_t begin, full_begin, full_end, end;
  VisibleRows(const Tile& tile, int64_t column) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
    begin = std::clamp<int64_t>(column - tile.last + 1, 0, tile.rows);
    end = std::clamp<int64_t>(column + lanes - tile.first, begin, tile.rows);
    full_begin = std::clamp<int64_t>(column + lanes - tile.last, begin, end);
    full_end = std::clamp<int64_t>(column - tile.first + 1, full_begin, end);
  }
  bool full(int64_t row) const { return row >= full_begin && row < full_end; }
};

HWY_INLINE hn::Mask<Reals> visible(const Tile& tile, int64_t row, int64_t column) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  const auto from = std::clamp<int64_t>(tile.first + row - column, 0, lanes),
             to = std::clamp<int64_t>(tile.last + row - column, 0, lanes);
  const Real lane = hn::Iota(kReals, 0.0f);
  return hn::And(hn::Ge(lane, hn::Set(kReals, static_cast<float>(from))),
                 hn::Lt(lane, hn::Set(kReals, static_cast<float>(to))));
}

// Raises the column group's largest score to at least those of this tile, less the slack; returns what
// probabilities subtract.
HWY_INLINE Real raise_largest(const SoftmaxTile& tile, int64_t column, const VisibleRows& rows) {
  const Real none = hn::Set(kReals, -kInfinity);
  Real top[4] = {none, none, none, none};
  const auto mask_row = [&](int64_t r) {
    float* const at = tile.scores + r * tile.stride + column;
    const Real x = hn::IfThenElse(visible(tile, r, column), load(at), none);
    hn::StoreU(x, kReals, at);
    top[0] = hn::Max(top[0], x);
  };
  for (int64_t r = rows.begin; r < rows.full_begin; ++r) mask_row(r);
  for (int64_t r = rows.full_end; r < rows.end; ++r) mask_row(r);
  int64_t r = rows.full_begin;
  const float* const scores = tile.scores + column;
  for (; r + 4 <= rows.full_end; r += 4) {
    for (int i = 0; i < 4; ++i) top[i] = hn::Max(top[i], load(scores + (r + i) * tile.stride));
  }
  for (; r < rows.full_end; ++r) top[0] = hn::Max(top[0], load(scores + r * tile.stride));
  const Real factor = hn::Set(kReals, tile.factor);
  const Real block = hn::Mul(hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3])), factor);

  Real largest = load(tile.largest + column);
  const Real zero = hn::Zero(kReals);
  if (!hn::AllFalse(kReals, hn::Gt(block, hn::Add(largest, hn::Set(kReals, kSlack))))) {
    const Real raised = hn::Max(largest, block);
    // A column that has seen no key yet stays at −∞; its sums are 0 and 2^(−∞ − 0) keeps them so.
    const Real shrink =
        exponential_of_two(kReals, hn::Sub(largest, hn::IfThenElse(hn::Eq(raised, none), zero, raised)));
    largest = raised;
    hn::StoreU(largest, kReals, tile.largest + column);
    hn::StoreU(hn::Mul(load(tile.sum + column), shrink), kReals, tile.sum + column);
    float* const outputs = tile.outputs + column;
    for (int64_t d = 0; d < tile.values; ++d) {
      hn::StoreU(hn::Mul(load(outputs + d * tile.outputs_stride), shrink), kReals,
                 outputs + d * tile.outputs_stride);
    }
  }
  return hn::IfThenElse(hn::Eq(largest, none), zero, largest);
}

template <class Element>
void softmax(const SoftmaxTile& tile, Element* panels) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals)), padded = padded_rows(panels, tile.rows);
  const Real factor = hn::Set(kReals, tile.factor), zero = hn::Zero(kReals);
  for (int64_t column = 0; column < tile.columns; column += lanes) {
    const VisibleRows rows(tile, column);
    const Real largest = raise_largest(tile, column, rows);
    const float* const scores = tile.scores + column;
    const auto probability = [&](int64_t r) {
      return exponential_of_two(kReals, hn::MulSub(load(scores + r * tile.stride), factor, largest));
    };
    Real even = zero, odd = zero;
    int64_t r = 0;
    for (; r + 1 < rows.begin; r += 2) store_pair(zero, zero, panels, padded, r, column);
    const auto edge = [&] {
      const Real a = r >= rows.begin && r < rows.end ? probability(r) : zero;
      const Real b = r + 1 >= rows.begin && r + 1 < rows.end ? probability(r + 1) : zero;
      even = hn::Add(even, a);
      odd = hn::Add(odd, b);
      store_pair(a, b, panels, padded, r, column);
      r += 2;
    };
    if (r < rows.begin) edge();
    for (; r + 1 < rows.end; r += 2) {
      const Real a = probability(r), b = probability(r + 1);
      even = hn::Add(even, a);
      odd = hn::Add(odd, b);
      store_pair(a, b, panels, padded, r, column);
    }
    if (r < rows.end) edge();
    for (; r < padded; r += 2) store_pair(zero, zero, panels, padded, r, column);
    hn::StoreU(hn::Add(load(tile.sum + column), hn::Add(even, odd)), kReals, tile.sum + column);
  }
}

template <class Element>
void gradient(const GradientTile& tile, Element* probabilities, Element* d_scores, Element* panels) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals)), padded = padded_rows(panels, tile.rows);
  const Real factor = hn::Set(kReals, tile.factor), zero = hn::Zero(kReals);
  for (int64_t column = 0; column < tile.columns; column += lanes) {
    const VisibleRows rows(tile, column);
    const Real logsumexp = load(tile.logsumexp2 + column), common = load(tile.common + column);
    struct Pair {
      Real p, ds;
    };
    const auto at = [&](int64_t r) {
      const Real p = exponential_of_two(
          kReals, hn::MulSub(load(tile.scores + r * tile.stride + column), factor, logsumexp));
      return Pair{p, hn::Mul(p, hn::Sub(load(tile.d_probabilities + r * tile.stride + column), common))};
    };
    const auto store = [&](int64_t r, const Pair& pair) {
      store_row(pair.p, probabilities + r * tile.out_stride + column);
      store_row(pair.ds, d_scores + r * tile.out_stride + column);
    };
    const auto edge = [&](int64_t r) {
      Pair pair{zero, zero};
      if (r >= rows.begin && r < rows.end) {
        pair = at(r);
        if (!rows.full(r)) {
          const auto mask = visible(tile, r, column);
          pair = {hn::IfThenElseZero(mask, pair.p), hn::IfThenElseZero(mask, pair.ds)};
        }
      }
      if (r < tile.rows) store(r, pair);
      return pair.ds;
    };
    int64_t r = 0;
    const auto edges_until = [&](int64_t end) {
      for (; r < end; r += 2) {
        const Real first = edge(r);
        store_pair(first, edge(r + 1), panels, padded, r, column);
      }
    };
    edges_until(rows.full_begin);
    for (; r + 1 < rows.full_end; r += 2) {
      const Pair a = at(r), b = at(r + 1);
      store(r, a);
      store(r + 1, b);
      store_pair(a.ds, b.ds, panels, padded, r, column);
    }
    edges_until(padded);
  }
}

// square[j][i] = in[i][j] for `lanes` rows and columns, a multiple of 4: four by four.
HWY_INLINE void turn_square(const float* in, int64_t stride, int64_t lanes, float (*square)[16]) {
  using Four = float __attribute__((vector_size(16)));
  for (int64_t i = 0; i < lanes; i += 4) {
    for (int64_t j = 0; j < lanes; j += 4) {
      Four row[4];
      for (int r = 0; r < 4; ++r) std::memcpy(&row[r], in + (i + r) * stride + j, sizeof(Four));
      const Four low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
                 high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
      const Four low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
                 high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
      const Four turned[4] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                              __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                              __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                              __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
      for (int r = 0; r < 4; ++r) std::memcpy(square[j + r] + i, &turned[r], sizeof(Four));
    }
  }
}

template <class Element>
void leave(const float* in, int64_t stride, int64_t rows, int64_t columns, const float* factors, Element* out,
           int64_t out_stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  // A square of both sides at a time: it stays in the nearest cache while it is turned.
  float square[16][16];
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t width = std::min(lanes, columns - c);
    for (int64_t r = 0; r < rows; r += lanes) {
      const int64_t height = std::min(lanes, rows - r);
      if (width == lanes && height == lanes) {
        turn_square(in + r * stride + c, stride, lanes, square);
      } else {
        for (int64_t i = 0; i < height; ++i) {
          for (int64_t j = 0; j < width; ++j) square[j][i] = in[(r + i) * stride + c + j];
        }
      }
      for (int64_t j = 0; j < width; ++j) {
        store_even(hn::Mul(load(square[j]), hn::Set(kReals, factors[c + j])), out + (c + j) * out_stride + r,
                   height);
      }
    }
  }
}

HWY_INLINE float as_float(float x) { return x; }
HWY_INLINE float as_float(uint16_t x) {
  const uint32_t bits = uint32_t{x} << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

template <class Element>
void row_dots(const Element* a, int64_t a_stride, const Element* b, int64_t b_stride, int64_t rows,
              int64_t columns, float* out) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  for (int64_t r = 0; r < rows; ++r) {
    const Element *x = a + r * a_stride, *y = b + r * b_stride;
    Real sum = hn::Zero(kReals);
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) sum = hn::MulAdd(load(x + c), load(y + c), sum);
    float total = hn::GetLane(hn::SumOfLanes(kReals, sum));
    for (; c < columns; ++c) total += as_float(x[c]) * as_float(y[c]);
    out[r] = total;
  }
}

template <class Element>
void scale_rows(const float* in, int64_t rows, int64_t columns, float factor, Element* out,
                int64_t out_stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  const Real by = hn::Set(kReals, factor);
  for (int64_t r = 0; r < rows; ++r) {
    const float* const from = in + r * columns;
    Element* const to = out + r * out_stride;
    for (int64_t c = 0; c < columns; c += lanes) {
      const int64_t here = std::min(lanes, columns - c);
      float values[16] = {};
      if (here < lanes) std::memcpy(values, from + c, static_cast<size_t>(here) * sizeof(float));
      store_even(hn::Mul(load(here < lanes ? values : from + c), by), to + c, here);
    }
  }
}

void widen(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = as_float(from[i]);
}

// The dot products of the query with the keys, times the factor.
template <class Element>
void decode_scores(const DecodeRow<Element>& row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  // four at a time hide each other's latency; the last one stands in for those beyond
  for (int64_t r = 0; r < row.rows; r += 4) {
    const Element* key[4];
    for (int64_t i = 0; i < 4; ++i) key[i] = row.k + std::min(r + i, row.rows - 1) * row.k_stride;
    Real sums[4];
    for (Real& sum : sums) sum = hn::Zero(kReals);
    int64_t c = 0;
    for (; c + lanes <= row.channels; c += lanes) {
      const Real q = load(row.q + c);
      for (int i = 0; i < 4; ++i) sums[i] = hn::MulAdd(q, load(key[i] + c), sums[i]);
    }
    for (int64_t i = 0; i < std::min<int64_t>(4, row.rows - r); ++i) {
      float sum = hn::GetLane(hn::SumOfLanes(kReals, sums[i]));
      for (int64_t d = c; d < row.channels; ++d) sum += row.q[d] * as_float(key[i][d]);
      row.scores[r + i] = sum * row.factor;
    }
  }
}

template <class Element>
void decode(const DecodeRow<Element>& row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kReals));
  decode_scores(row);
  float top = *row.largest;
  for (int64_t r = 0; r < row.rows; ++r) top = std::max(top, row.scores[r]);
  if (top > *row.largest) {
    float shrink = *row.largest - top;
    exp2_all(&shrink, 1, &shrink);
    *row.largest = top;
    *row.sum *= shrink;
    for (int64_t d = 0; d < row.values; ++d) row.outputs[d] *= shrink;
  }
  for (int64_t r = 0; r < row.rows; ++r) row.scores[r] -= top;
  exp2_all(row.scores, row.rows, row.scores);
  for (int64_t r = 0; r < row.rows; ++r) *row.sum += row.scores[r];
  int64_t d = 0;
  for (; d + 4 * lanes <= row.values; d += 4 * lanes) {  // these outputs stay in registers over all keys
    Real o[4];
    for (int i = 0; i < 4; ++i) o[i] = load(row.outputs + d + i * lanes);
    for (int64_t r = 0; r < row.rows; ++r) {
      const Real p = hn::Set(kReals, row.scores[r]);
      for (int i = 0; i < 4; ++i) o[i] = hn::MulAdd(p, load(row.v + r * row.v_stride + d + i * lanes), o[i]);
    }
    for (int i = 0; i < 4; ++i) hn::StoreU(o[i], kReals, row.outputs + d + i * lanes);
  }
  for (; d < row.values; ++d) {
    for (int64_t r = 0; r < row.rows; ++r)
      row.outputs[d] += row.scores[r] * as_float(row.v[r * row.v_stride + d]);
  }
}

const AttentionVectors& vectors() {
  static const AttentionVectors functions = {hwy::TargetName(HWY_TARGET),
                                             softmax<uint16_t>,
                                             softmax<float>,
                                             gradient<uint16_t>,
                                             gradient<float>,
                                             leave<uint16_t>,
                                             leave<float>,
                                             row_dots<uint16_t>,
                                             row_dots<float>,
                                             scale_rows<uint16_t>,
                                             scale_rows<float>,
                                             widen,
                                             decode<uint16_t>,
                                             decode<float>,
                                             exp2_all};
  return functions;
}

}  // namespace
}  // namespace longhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
