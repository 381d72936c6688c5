// What queries may see of keys, in every form that Visibility has, and attention under an explicit mask in
// fp64, for tests of the raw level.
#pragma once

#include <cmath>

#include "kernels/attention/attention_cases.h"
#include "kernels/attention/raw.h"

namespace longhaul::testing {

using namespace kernels;

struct VisibleCase {
  std::string name;
  Visibility visible;
  int64_t queries, keys;
};
inline void PrintTo(const VisibleCase& c, std::ostream* out) { *out << c.name; }

inline std::vector<VisibleCase> visible_cases() {
  return {
      {"causal", {{{0, 150, 0, 150}}}, 150, 150},
      {"bidirectional", {{{0, 70, 0, 70}, {70, 1, 70, 1}, {71, 140, 71, 140}}, false}, 211, 211},
      {"cross attention",
       {{{0, 70, 0, 200}, {70, 0, 200, 9}, {70, 65, 209, 3}, {135, 9, 212, 0}}, false},
       144,
       212},
      {"window on both sides", {{{0, 300, 0, 300}}, false, 70}, 300, 300},
      {"window on both sides, shifted", {{{0, 90, 0, 300, 100}}, false, 33}, 90, 300},
      {"keys before all queries", {{{0, 100, 0, 140, 140}}}, 100, 140},
      {"keys behind some queries", {{{0, 200, 0, 140, -75}}}, 200, 140},
      {"keys behind all queries", {{{0, 100, 0, 140, -200}}}, 100, 140},
      {"window that has passed the keys", {{{0, 300, 0, 140, 60}}, true, 90}, 300, 140},
      {"prefix", {{{0, 200, 0, 200, 0, 37}, {200, 150, 200, 150, 0, 128}, {350, 9, 350, 9, 0, 9}}}, 359, 359},
      {"prefix that later chunks of queries see", {{{0, 70, 0, 140, -300, 131}}}, 70, 140},
      {"prefix and window", {{{0, 400, 0, 400, 0, 20}, {400, 90, 400, 90, 0, 1}}, true, 50}, 490, 490},
      {"prefix, window on both sides", {{{0, 300, 0, 280, -10, 140}}, false, 50}, 300, 280},
      {"one query",
       {{{0, 1, 0, 300, 299, 5}, {1, 1, 300, 200, 150}, {2, 2, 500, 90, 70, 3}}, true, 60},
       4,
       590},
      {"rows of no document", {{{3, 80, 5, 90, 20}, {99, 30, 140, 30}}}, 140, 200},
      {"several pieces of keys", {{{0, 700, 0, 2300, 1500, 200}}, true, 600}, 700, 2300},
      {"several pieces, bidirectional", {{{0, 200, 0, 2300, 1500}}, false, 900}, 200, 2300}};
}

// The rule of visibility.h, key by key.
inline bool sees(const Visibility& visible, const AttentionDocument& document, int64_t i, int64_t j) {
  const int64_t p = i + document.shift;
  if (j < document.prefix) return true;
  if (visible.causal && j > p) return false;
  if (visible.window == 0) return true;
  return j > p - visible.window && j < p + visible.window;
}

inline Tensor mask_of(const Visibility& visible, int64_t queries, int64_t keys) {
  const Tensor mask = at::zeros({queries, keys}, at::kBool);
  auto at_place = mask.accessor<bool, 2>();
  for (const AttentionDocument& document : visible.documents) {
    for (int64_t i = 0; i < document.queries; ++i) {
      for (int64_t j = 0; j < document.keys; ++j)
        at_place[document.q + i][document.k + j] = sees(visible, document, i, j);
    }
  }
  return mask;
}

struct Evaluated {
  AttentionResult result;
  AttentionGradients gradients;
};

// By a mask, differentiated by LibTorch: o and the log-sum-exp have gradients d_o and d_logsumexp.
inline Evaluated by_mask(const AttentionInputs& values, const Tensor& mask, double scale, const Tensor& d_o,
                         const Tensor& d_logsumexp) {
  AttentionInputs in = values.to(at::kDouble);
  for (Tensor* x : {&in.q, &in.k, &in.v}) *x = x->detach().clone().requires_grad_(true);
  const int64_t group = in.q.size(1) / in.k.size(1);
  const Tensor k = in.k.repeat_interleave(group, 1), v = in.v.repeat_interleave(group, 1);
  // A finite stand-in for −∞ keeps LibTorch's gradients of rows that see nothing finite; the mask makes them
  // 0.
  const Tensor scores =
      at::einsum("thd,shd->hts", {in.q, k}).mul(scale).masked_fill(mask.logical_not(), -1e200);
  const Tensor sees_any = mask.any(1);
  const Tensor o = at::einsum("hts,shd->thd", {scores.softmax(2) * mask, v}),
               lse = scores.logsumexp(2).transpose(0, 1);
  const Tensor of_lse = at::where(sees_any.unsqueeze(1), lse, at::zeros_like(lse));
  ((o * d_o.to(at::kDouble)).sum() + (of_lse * d_logsumexp.to(at::kDouble)).sum()).backward();
  return {{o.detach(), at::where(sees_any.unsqueeze(1), lse, at::full_like(lse, -INFINITY)).detach()},
          {in.q.grad(), in.k.grad(), in.v.grad()}};
}

}  // namespace longhaul::testing
