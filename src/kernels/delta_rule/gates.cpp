#include "kernels/delta_rule/gates.h"

#include <cmath>

#include "base/threads/parallel.h"
#include "kernels/differentiable.h"
#include "kernels/norm/op.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// value(x, i) of every element i, in the dtype of sums.
template <class Value>
Tensor each_element(const Tensor& logits, const Value& value) {
  const Tensor x = logits.to(at::kDouble).contiguous(),
               y = at::empty(x.sizes(), logits.options().dtype(wide_type(logits)));
  const double* from = x.const_data_ptr<double>();
  const auto run = [&](auto* to) {
    parallel_for(0, x.numel(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = static_cast<std::remove_reference_t<decltype(*to)>>(value(from[i], i));
    });
  };
  if (y.scalar_type() == at::kDouble) {
    run(y.mutable_data_ptr<double>());
  } else {
    run(y.mutable_data_ptr<float>());
  }
  return y;
}

// −e^{rate}, beside logits [T, H] or [T, H, Dk].
Tensor factor_of(const Tensor& logits, const Tensor& rate) {
  return (logits.dim() == 3 ? rate.unsqueeze(1) : rate).exp().neg();
}

Tensor decays_of(const Tensor& logits, const Tensor& rate, const Tensor& bias) {
  const Tensor x = logits.to(wide_type(logits)).add(bias);
  return at::softplus(x, 1, 40).mul_(factor_of(logits, rate));  // beyond 40 it is x to the last bit of fp64
}

}  // namespace

Tensor write_shares(const Tensor& logits, double most, bool decoding) {
  if (decoding && logits.is_cpu())
    return each_element(logits, [&](double x, int64_t) { return most * sigmoid_of(x); });
  return logits.to(wide_type(logits)).sigmoid().mul(most);
}

Tensor step_decays(const Tensor& logits, const Tensor& rate, const Tensor& bias, bool decoding) {
  if (decoding && logits.is_cpu()) {
    const int64_t channels = bias.numel(), of_head = channels / rate.numel();
    const Tensor rates = rate.to(at::kDouble), biases = bias.to(at::kDouble).contiguous();
    const double *each_rate = rates.const_data_ptr<double>(), *each_bias = biases.const_data_ptr<double>();
    return each_element(logits, [=](double x, int64_t i) {
      const int64_t c = i % channels;
      return -std::exp(each_rate[c / of_head]) * softplus_of(x + each_bias[c]);
    });
  }
  return differentiable("step_decays", {logits, rate, bias}, [&]() -> Recorded {
    return {.results = {decays_of(logits, rate, bias)},
            .saved = {logits, rate, bias},
            .backward = [](const BackwardCall& call) {
              const Tensor &x = call.saved[0], &d_decay = call.gradients[0];
              const Tensor scaled = d_decay.mul(factor_of(x, call.saved[1]));
              const Tensor d_x = x.to(wide_type(x)).add(call.saved[2]).sigmoid_().mul_(scaled);
              Tensor d_rate = decays_of(x, call.saved[1], call.saved[2]).mul_(d_decay).sum(0);
              if (d_rate.dim() == 2) d_rate = d_rate.sum(1);
              return std::vector<Tensor>{d_x.to(x.scalar_type()), d_rate, d_x.sum(0)};
            }};
  })[0];
}

// The RMS norm of a head, whose weight makes a sum of the mean.
Tensor of_length(const Tensor& x, double factor, double eps) {
  const int64_t width = x.size(2);
  const auto channels = static_cast<double>(width);
  const Tensor weight =
      at::full({width}, factor / std::sqrt(channels), x.options().dtype(wide_type(x)).requires_grad(false));
  return rms_norm(x.reshape({x.size(0) * x.size(1), width}), weight, eps / channels)
      .view({x.size(0), x.size(1), width});
}

}  // namespace longhaul::kernels
