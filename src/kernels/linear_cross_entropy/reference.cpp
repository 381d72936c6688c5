// The definition, in fp64 whatever the inputs are:
//
//   z_v = Σ_d W_vd h_d,   L = log Σ_v e^{z_v},   ℓ = L − z_label + ζ L²
//   dz_v = u ((1 + 2 ζ L) e^{z_v − L} − [v = label]),   dh_d = Σ_v dz_v W_vd,   dW_vd += dz_v h_d
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/linear_cross_entropy/problem.h"

namespace longhaul::kernels {
namespace {

// Calls body(t, z) with the logits of every token.
template <class Body>
void for_each_token(const CrossEntropyProblem& problem, const Body& body) {
  const Tensor hidden = problem.hidden_td.to(at::kDouble), weight = problem.weight_vd.to(at::kDouble);
  const auto h = hidden.accessor<double, 2>(), w = weight.accessor<double, 2>();
  std::vector<double> z(static_cast<size_t>(problem.vocabulary()));
  for (int64_t t = 0; t < problem.tokens(); ++t) {
    for (int64_t v = 0; v < problem.vocabulary(); ++v) {
      double& sum = z[static_cast<size_t>(v)] = 0;
      for (int64_t d = 0; d < problem.channels(); ++d) sum += w[v][d] * h[t][d];
      sum *= problem.logit_scale;
    }
    body(t, z);
  }
}

double logsumexp_of(const std::vector<double>& z) {
  const double largest = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double each : z) sum += std::exp(each - largest);
  return largest + std::log(sum);
}

}  // namespace

Tensor cross_entropy_reference(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients) {
  const Tensor hidden = problem.hidden_td.to(at::kDouble), weight = problem.weight_vd.to(at::kDouble);
  const auto h = hidden.accessor<double, 2>(), w = weight.accessor<double, 2>();
  const auto label = problem.labels_t.accessor<int64_t, 1>();
  const int64_t channels = problem.channels(), vocabulary = problem.vocabulary();
  const double zeta = problem.options.z_loss, upstream = problem.options.upstream;
  Tensor each_t = at::empty({problem.tokens()}, at::kDouble);
  Tensor d_hidden = at::zeros(hidden.sizes(), at::kDouble), d_weight = at::zeros(weight.sizes(), at::kDouble);
  auto each = each_t.accessor<double, 1>();
  auto dh = d_hidden.accessor<double, 2>(), dw = d_weight.accessor<double, 2>();
  for_each_token(problem, [&](int64_t t, const std::vector<double>& z) {
    const double lse = logsumexp_of(z);
    each[t] = lse - z[static_cast<size_t>(label[t])] + zeta * lse * lse;
    if (!gradients.wanted()) return;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double dz = upstream * ((1 + 2 * zeta * lse) * std::exp(z[static_cast<size_t>(v)] - lse) -
                                    (v == label[t] ? 1 : 0));
      for (int64_t d = 0; d < channels; ++d) {
        dh[t][d] += dz * w[v][d];
        dw[v][d] += dz * h[t][d];
      }
    }
  });
  if (gradients.hidden_td.defined()) gradients.hidden_td.copy_(d_hidden);
  if (gradients.sink_vd.defined()) gradients.sink_vd.add_(d_weight);
  return each_t.to(problem.sum_type());
}

void token_logits_reference(const CrossEntropyProblem& problem, const TokenLogits& out) {
  const auto label = problem.labels_t.accessor<int64_t, 1>();
  for_each_token(problem, [&](int64_t t, const std::vector<double>& z) {
    const double lse = logsumexp_of(z);
    out.logsumexp_t[t].fill_(lse);
    out.label_t[t].fill_(label[t] < 0 ? 0 : z[static_cast<size_t>(label[t])]);
    if (!out.entropy_t.defined()) return;
    double entropy = 0;
    for (const double each : z) entropy -= std::exp(each - lse) * (each - lse);
    out.entropy_t[t].fill_(entropy);
  });
}

void token_logits_backward_reference(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                     const CrossEntropyGradients& into) {
  const Tensor hidden = problem.hidden_td.to(at::kDouble), weight = problem.weight_vd.to(at::kDouble);
  const Tensor d_hidden = at::zeros_like(hidden), d_weight = at::zeros_like(weight);
  const auto h = hidden.accessor<double, 2>(), w = weight.accessor<double, 2>();
  auto dh = d_hidden.accessor<double, 2>(), dw = d_weight.accessor<double, 2>();
  for_each_token(problem, [&](int64_t t, const std::vector<double>& z) {
    const double lse = of.logsumexp_t[t].item<double>(), d_lse = of.upstream.logsumexp_t[t].item<double>();
    const double d_label = of.upstream.label_t[t].item<double>();
    const bool with_entropy = of.entropy_t.defined();
    const double entropy = with_entropy ? of.entropy_t[t].item<double>() : 0;
    const double d_entropy = with_entropy ? of.upstream.entropy_t[t].item<double>() : 0;
    const int64_t label = problem.labels_t[t].item<int64_t>();
    for (int64_t v = 0; v < problem.vocabulary(); ++v) {
      const double log_p = z[static_cast<size_t>(v)] - lse;
      const double of_all = std::exp(log_p) * (d_lse - d_entropy * (log_p + entropy));
      const double dz = problem.logit_scale * (of_all + (v == label ? d_label : 0));
      for (int64_t d = 0; d < problem.channels(); ++d) {
        dh[t][d] += dz * w[v][d];
        dw[v][d] += dz * h[t][d];
      }
    }
  });
  if (into.hidden_td.defined()) into.hidden_td.copy_(d_hidden);
  if (into.sink_vd.defined()) into.sink_vd.add_(d_weight);
}

}  // namespace longhaul::kernels
