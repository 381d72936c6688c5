// Delta rules in plain fp64 ATen, one token of one head after the other: DeltaNet (2406.06484), Gated
// DeltaNet (2412.06464), Kimi Delta Attention (2510.26692).
#pragma once

#include "support/plain_parts.h"

namespace longhaul::testing {

class PlainDeltaRule : PlainParts {
 public:
  explicit PlainDeltaRule(const PlainParts& parts) : PlainParts(parts) {}

  Tensor gated_deltanet(const Tensor& h, const std::string& name) const {
    const auto& own = c.gated_deltanet;
    const int64_t heads = own.heads > 0 ? own.heads : c.heads,
                  values = own.head_dim > 0 ? own.head_dim : c.head_dim;
    const DeltaSizes sizes{heads, own.key_heads > 0 ? own.key_heads : heads,
                           own.key_dim > 0 ? own.key_dim : values, values};
    const Tensor o = delta_rule(h, name, sizes, own.negative_eigenvalues ? 2 : 1, own.norm_eps,
                                linear(h, name + "forget"));
    return linear(o * at::silu(linear(h, name + "gate")), name + "output");
  }
  Tensor deltanet(const Tensor& h, const std::string& name) const {
    const auto& own = c.deltanet;
    const DeltaSizes sizes{c.heads, c.heads, own.key_dim > 0 ? own.key_dim : c.head_dim, c.head_dim};
    const Tensor o = delta_rule(h, name, sizes, own.negative_eigenvalues ? 2 : 1, own.norm_eps, Tensor());
    return linear(own.output_gate ? o * at::silu(linear(h, name + "gate")) : o, name + "output");
  }
  Tensor kda(const Tensor& h, const std::string& name) const {
    const DeltaSizes sizes{c.heads, c.heads, c.kda.key_dim > 0 ? c.kda.key_dim : c.head_dim, c.head_dim};
    const Tensor o = delta_rule(h, name, sizes, c.kda.negative_eigenvalues ? 2 : 1, c.kda.norm_eps,
                                linear(linear(h, name + "forget_down"), name + "forget"));
    return linear(o * at::sigmoid(linear(linear(h, name + "gate_down"), name + "gate")), name + "output");
  }

 private:
  // silu of a causal convolution of each channel, whose last tap applies to the token itself.
  Tensor convolved(const Tensor& x, const std::string& name) const {
    const Tensor taps = weight(name);
    std::vector<Tensor> rows;
    for (int64_t d = 0; d < layout_.documents(); ++d) {
      const auto document = layout_.document(d);
      for (int64_t t = 0; t < document.length; ++t) {
        Tensor sum = at::zeros({x.size(1)}, at::kDouble);
        for (int64_t back = 0; back < std::min(taps.size(1), t + 1); ++back)
          sum = sum + taps.select(1, taps.size(1) - 1 - back) * x[document.begin + t - back];
        rows.push_back(at::silu(sum));
      }
    }
    return at::stack(rows);
  }

  // S_t = (1 − β k kᵀ) diag(λ) S_{t−1} + β k vᵀ (2406.06484, 2412.06464, 2510.26692), with a decay for the
  // head, for each of its channels, or none; each head is normed separately.
  struct DeltaSizes {
    int64_t heads, key_heads, keys, values;
  };
  Tensor delta_rule(const Tensor& h, const std::string& name, const DeltaSizes& sizes, double most,
                    double eps, const Tensor& forget) const {
    const int64_t keys = sizes.keys, values = sizes.values;
    const Tensor q = convolved(linear(h, name + "query"), name + "query_convolution"),
                 k = convolved(linear(h, name + "key"), name + "key_convolution"),
                 v = convolved(linear(h, name + "value"), name + "value_convolution"),
                 beta = most * at::sigmoid(linear(h, name + "write"));
    return by_document_and_head(sizes.heads, [&](int64_t begin, int64_t count, int64_t n) {
      const int64_t width = forget.defined() ? forget.size(1) / sizes.heads : 0,
                    from = n / (sizes.heads / sizes.key_heads) * keys;
      Tensor state = at::zeros({keys, values}, at::kDouble);
      std::vector<Tensor> rows;
      for (int64_t t = begin; t < begin + count; ++t) {
        const auto unit = [&](const Tensor& x) { return x / (x.square().sum() + 1e-6).sqrt(); };
        const Tensor key = unit(k[t].narrow(0, from, keys)),
                     query = unit(q[t].narrow(0, from, keys)) / std::sqrt(static_cast<double>(keys));
        if (forget.defined()) {
          const Tensor step = at::softplus(forget[t].narrow(0, n * width, width) +
                                           weight(name + "step").narrow(0, n * width, width));
          state = at::exp(-weight(name + "rate")[n].exp() * step).unsqueeze(1) * state;
        }
        const Tensor wrong = v[t].narrow(0, n * values, values) - at::mv(state.t(), key);
        state = state + beta[t][n] * at::outer(key, wrong);
        rows.push_back(at::mv(state.t(), query));
      }
      return rms(at::stack(rows), eps) * weight(name + "norm");
    });
  }
};

}  // namespace longhaul::testing
