#include "kernels/experts/loops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/vector/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/experts/loops.cpp"
#include <hwy/foreach_target.h>
#include "kernels/vector/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace longhaul::kernels {
namespace HWY_NAMESPACE {

// A tile of four tokens and two experts: eight sums, and no instruction set runs out of registers. Where
// there are fewer tokens or experts, the tile's last ones are the same one again.
constexpr int64_t kTokens = 4, kExperts = 2;

template <class In>
void logits_of_tile(const RouteForward& p, const std::array<int64_t, kTokens>& token,
                    const std::array<int64_t, kExperts>& expert) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto x = [&](size_t i) { return static_cast<const In*>(p.x_td) + token[i] * p.hidden; };
  const auto w = [&](size_t i) { return static_cast<const Real*>(p.router_ed) + expert[i] * p.hidden; };
  const In *x0 = x(0), *x1 = x(1), *x2 = x(2), *x3 = x(3);
  const Real *w0 = w(0), *w1 = w(1);
  auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  walk(d, p.hidden, [&](auto at) LONGHAUL_VECTOR {
    const auto a = load(d, w0, at), b = load(d, w1, at);
    const auto v0 = load(d, x0, at), v1 = load(d, x1, at), v2 = load(d, x2, at), v3 = load(d, x3, at);
    s00 = hn::MulAdd(v0, a, s00), s01 = hn::MulAdd(v0, b, s01);
    s10 = hn::MulAdd(v1, a, s10), s11 = hn::MulAdd(v1, b, s11);
    s20 = hn::MulAdd(v2, a, s20), s21 = hn::MulAdd(v2, b, s21);
    s30 = hn::MulAdd(v3, a, s30), s31 = hn::MulAdd(v3, b, s31);
  });
  auto* logits = static_cast<Real*>(p.probability_te);  // made probabilities below
  const std::array<std::array<Real, kExperts>, kTokens> sums = {
      {{sum_of_lanes(d, s00), sum_of_lanes(d, s01)},
       {sum_of_lanes(d, s10), sum_of_lanes(d, s11)},
       {sum_of_lanes(d, s20), sum_of_lanes(d, s21)},
       {sum_of_lanes(d, s30), sum_of_lanes(d, s31)}}};
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t e = 0; e < expert.size(); ++e) logits[token[i] * p.experts + expert[e]] = sums[i][e];
  }
}

// Softmax in place; returns log Σ exp.
template <class In>
RealOf<In> softmax_row(RealOf<In>* row, int64_t experts) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const Real largest = *std::max_element(row, row + experts);
  auto sum = hn::Zero(d);
  walk(d, experts, [&](auto at) LONGHAUL_VECTOR {
    const auto e = exponential(d, hn::Sub(load(d, row, at), hn::Set(d, largest)));
    store(d, e, row, at);
    sum = hn::Add(sum, only(d, e, at));
  });
  const Real total = sum_of_lanes(d, sum);
  const auto scale = hn::Set(d, Real(1) / total);
  walk(d, experts, [&](auto at) LONGHAUL_VECTOR { store(d, hn::Mul(load(d, row, at), scale), row, at); });
  return largest + std::log(total);
}

// The k most probable experts, best first, the lower number first where two are equal.
template <class Real>
void choose(const Real* probability, int64_t experts, int64_t k, int64_t* choice) {
  for (int64_t i = 0; i < k; ++i) {
    int64_t best = -1;
    for (int64_t e = 0; e < experts; ++e) {
      if (std::find(choice, choice + i, e) != choice + i) continue;
      if (best < 0 || probability[e] > probability[best]) best = e;
    }
    choice[i] = best;
  }
}

// Shares in the sum of these k; their order is that of the sum.
template <class Real>
void weigh(const Real* probability, int64_t k, const int64_t* choice, Real* weight) {
  Real sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += weight[i] = probability[choice[i]];
  for (int64_t i = 0; i < k; ++i) weight[i] /= sum;
}

// Of the logits of given experts, in their place: the same but for rounding.
template <class Real>
void weigh_by_logits(int64_t k, Real* logits) {
  const Real largest = *std::max_element(logits, logits + k);
  Real sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += logits[i] = std::exp(logits[i] - largest);
  for (int64_t i = 0; i < k; ++i) logits[i] /= sum;
}

template <class In>
void route(const RouteForward& p, int64_t begin, int64_t end, void* sums_any) {
  using Real = RealOf<In>;
  auto* probability = static_cast<Real*>(p.probability_te);
  auto* sums = static_cast<Real*>(sums_any);
  std::fill_n(sums, p.experts + 1, Real(0));
  for (int64_t t = begin; t < end; t += kTokens) {
    const std::array<int64_t, kTokens> tokens = {t, std::min(t + 1, end - 1), std::min(t + 2, end - 1),
                                                 std::min(t + 3, end - 1)};
    for (int64_t e = 0; e < p.experts; e += kExperts)
      logits_of_tile<In>(p, tokens, {e, std::min(e + 1, p.experts - 1)});
    for (int64_t i = t; i < std::min(t + kTokens, end); ++i) {
      Real *row = probability + i * p.experts, *weight = static_cast<Real*>(p.weight_tk) + i * p.k;
      int64_t* choice = p.choice_tk + i * p.k;
      if (p.given) std::transform(choice, choice + p.k, weight, [&](int64_t e) { return row[e]; });
      const Real log_sum = softmax_row<In>(row, p.experts);
      static_cast<Real*>(p.log_sum_t)[i] = log_sum;
      if (!p.given) choose(row, p.experts, p.k, choice);
      constexpr Real kLeast =
          sizeof(Real) == sizeof(float) ? static_cast<Real>(kVanishing) : static_cast<Real>(kVanishingWide);
      const bool lost =
          p.given && std::all_of(choice, choice + p.k, [&](int64_t e) { return row[e] < kLeast; });
      if (lost)
        weigh_by_logits(p.k, weight);
      else
        weigh(row, p.k, choice, weight);
      for (int64_t e = 0; e < p.experts; ++e) sums[e] += row[e];
      sums[p.experts] += log_sum * log_sum;
    }
  }
}

// d_logit_e = p_e (dP_e − Σ_j p_j dP_j) + 2 dz log_sum p_e, and for the chosen + w (dw − Σ_j w_j dw_j)
// (docs/sources/minimax-01.md §2.6)
// dP is that of the token's sequence.
template <class Real>
void logit_gradients(const RouteBackward& p, int64_t t) {
  const Real* probability = static_cast<const Real*>(p.probability_te) + t * p.experts;
  Real* d_logits = static_cast<Real*>(p.d_logits_te) + t * p.experts;
  std::fill_n(d_logits, p.experts, Real(0));
  if (p.d_probability_sum_se != nullptr) {
    const auto* d_sum = static_cast<const Real*>(p.d_probability_sum_se) + p.sequence_t[t] * p.experts;
    Real mean = 0;
    for (int64_t e = 0; e < p.experts; ++e) mean += probability[e] * d_sum[e];
    for (int64_t e = 0; e < p.experts; ++e) d_logits[e] = probability[e] * (d_sum[e] - mean);
  }
  if (p.d_log_sum_square != nullptr) {
    const Real z =
        2 * *static_cast<const Real*>(p.d_log_sum_square) * static_cast<const Real*>(p.log_sum_t)[t];
    for (int64_t e = 0; e < p.experts; ++e) d_logits[e] += z * probability[e];
  }
  if (p.d_weight_tk != nullptr) {
    const Real *weight = static_cast<const Real*>(p.weight_tk) + t * p.k,
               *d_weight = static_cast<const Real*>(p.d_weight_tk) + t * p.k;
    Real mean = 0;
    for (int64_t i = 0; i < p.k; ++i) mean += weight[i] * d_weight[i];
    for (int64_t i = 0; i < p.k; ++i) d_logits[p.choice_tk[t * p.k + i]] += weight[i] * (d_weight[i] - mean);
  }
}

// dx = d_logits · router, four tokens at a time.
template <class In>
void route_backward(const RouteBackward& p, int64_t begin, int64_t end) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto* router = static_cast<const Real*>(p.router_ed);
  for (int64_t t = begin; t < end; ++t) logit_gradients<Real>(p, t);
  for (int64_t t = begin; t < end; t += kTokens) {
    const std::array<int64_t, kTokens> token = {t, std::min(t + 1, end - 1), std::min(t + 2, end - 1),
                                                std::min(t + 3, end - 1)};
    std::array<const Real*, kTokens> g;
    std::array<In*, kTokens> dx;
    for (size_t i = 0; i < token.size(); ++i) {
      g[i] = static_cast<const Real*>(p.d_logits_te) + token[i] * p.experts;
      dx[i] = static_cast<In*>(p.dx_td) + token[i] * p.hidden;
    }
    walk(d, p.hidden, [&](auto at) LONGHAUL_VECTOR {
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int64_t e = 0; e < p.experts; ++e) {
        const auto w = load(d, router + e * p.hidden, at);
        s0 = hn::MulAdd(hn::Set(d, g[0][e]), w, s0);
        s1 = hn::MulAdd(hn::Set(d, g[1][e]), w, s1);
        s2 = hn::MulAdd(hn::Set(d, g[2][e]), w, s2);
        s3 = hn::MulAdd(hn::Set(d, g[3][e]), w, s3);
      }
      store(d, s0, dx[0], at);
      store(d, s1, dx[1], at);
      store(d, s2, dx[2], at);
      store(d, s3, dx[3], at);
    });
  }
}

// d_router += d_logitsᵀ · x for columns [begin, end): four experts at a time, tokens in runs that stay in
// cache, in order.
template <class In>
void route_backward_some_columns(const RouteBackward& p, int64_t begin, int64_t end) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  constexpr int64_t kRun = 256, kRows = 4;
  const auto* x = static_cast<const In*>(p.x_td) + begin;
  const auto* d_logits = static_cast<const Real*>(p.d_logits_te);
  auto* d_router = static_cast<Real*>(p.d_router_ed) + begin;
  for (int64_t from = 0; from < p.tokens; from += kRun) {
    const int64_t to = std::min(p.tokens, from + kRun);
    for (int64_t e = 0; e < p.experts; e += kRows) {
      const int64_t rows = std::min(kRows, p.experts - e);
      const int64_t e1 = e + std::min<int64_t>(1, rows - 1), e2 = e + std::min<int64_t>(2, rows - 1),
                    e3 = e + rows - 1;
      walk(d, end - begin, [&](auto at) LONGHAUL_VECTOR {
        auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
        for (int64_t t = from; t < to; ++t) {
          const auto v = load(d, x + t * p.hidden, at);
          const Real* g = d_logits + t * p.experts;
          s0 = hn::MulAdd(hn::Set(d, g[e]), v, s0);
          s1 = hn::MulAdd(hn::Set(d, g[e1]), v, s1);
          s2 = hn::MulAdd(hn::Set(d, g[e2]), v, s2);
          s3 = hn::MulAdd(hn::Set(d, g[e3]), v, s3);
        }
        const auto add = [&](int64_t row, auto sum) LONGHAUL_VECTOR {
          Real* to_row = d_router + row * p.hidden;
          store(d, hn::Add(load(d, to_row, at), sum), to_row, at);
        };
        add(e, s0);
        if (rows > 1) add(e1, s1);
        if (rows > 2) add(e2, s2);
        if (rows > 3) add(e3, s3);
      });
    }
  }
}

template <class In>
void combine(const Combine& p, int64_t begin, int64_t end) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  const auto* y = static_cast<const In*>(p.y_rd);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t* place = p.place_tk + t * p.k;
    const Real* weight = p.weight_tk != nullptr ? static_cast<const Real*>(p.weight_tk) + t * p.k : nullptr;
    In* out = static_cast<In*>(p.out_td) + t * p.hidden;
    walk(d, p.hidden, [&](auto at) LONGHAUL_VECTOR {
      auto sum = hn::Zero(d);
      for (int64_t i = 0; i < p.k; ++i) {
        const auto v = load(d, y + place[i] * p.hidden, at);
        sum = weight != nullptr ? hn::MulAdd(hn::Set(d, weight[i]), v, sum) : hn::Add(sum, v);
      }
      store(d, sum, out, at);
    });
  }
}

template <class In>
void combine_backward(const Combine& p, int64_t begin, int64_t end) {
  using Real = RealOf<In>;
  const VectorTag<In> d;
  for (int64_t t = begin; t < end; ++t) {
    const In* d_out = static_cast<const In*>(p.d_out_td) + t * p.hidden;
    for (int64_t i = t * p.k; i < (t + 1) * p.k; ++i) {
      const In* y = static_cast<const In*>(p.y_rd) + p.place_tk[i] * p.hidden;
      In* dy = static_cast<In*>(p.dy_rd) + p.place_tk[i] * p.hidden;
      const auto weight = hn::Set(d, static_cast<const Real*>(p.weight_tk)[i]);
      auto dot = hn::Zero(d);
      walk(d, p.hidden, [&](auto at) LONGHAUL_VECTOR {
        const auto g = load(d, d_out, at);
        dot = hn::MulAdd(g, load(d, y, at), dot);
        store(d, hn::Mul(weight, g), dy, at);
      });
      static_cast<Real*>(p.d_weight_tk)[i] = sum_of_lanes(d, dot);
    }
  }
}

void route_any(const RouteForward& p, int64_t begin, int64_t end, void* sums) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { route<decltype(in)>(p, begin, end, sums); });
}
void route_backward_any(const RouteBackward& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { route_backward<decltype(in)>(p, begin, end); });
}
void route_columns_any(const RouteBackward& p, int64_t begin, int64_t end) {
  with_storage(p.storage,
               [&](auto in) HWY_ATTR { route_backward_some_columns<decltype(in)>(p, begin, end); });
}
void combine_any(const Combine& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { combine<decltype(in)>(p, begin, end); });
}
void combine_backward_any(const Combine& p, int64_t begin, int64_t end) {
  with_storage(p.storage, [&](auto in) HWY_ATTR { combine_backward<decltype(in)>(p, begin, end); });
}

}  // namespace HWY_NAMESPACE
}  // namespace longhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longhaul::kernels {

void route_rows(const RouteForward& p, int64_t begin, int64_t end, void* sums) {
  LONGHAUL_CHOOSE(route_any)(p, begin, end, sums);
}
void route_backward_rows(const RouteBackward& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(route_backward_any)(p, begin, end);
}
void route_backward_columns(const RouteBackward& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(route_columns_any)(p, begin, end);
}
void combine_rows(const Combine& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(combine_any)(p, begin, end);
}
void combine_backward_rows(const Combine& p, int64_t begin, int64_t end) {
  LONGHAUL_CHOOSE(combine_backward_any)(p, begin, end);
}

}  // namespace longhaul::kernels
#endif
