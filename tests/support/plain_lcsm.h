// LCSM (2405.17383) in plain fp64 ATen, one entry of the memory after the other, with the types of its
// public code.
#pragma once

#include "support/plain_parts.h"

namespace longhaul::testing {

class PlainLcsm : PlainParts {
 public:
  explicit PlainLcsm(const PlainParts& parts) : PlainParts(parts) {}

  Tensor mixed(const Tensor& h, const std::string& name) const {
    using enum recipe::LcsmOscillation;
    const int64_t k = c.lcsm.state, d = c.heads * c.head_dim;
    const auto source = [&](recipe::LcsmSource from, const char* part, int64_t t) {  // [k, d]
      const Tensor made = from == recipe::LcsmSource::kFixed
                              ? weight(name + part)
                              : linear(h.narrow(0, t, 1), name + part)[0].unsqueeze(1);
      return activated(made) * at::ones({k, d}, at::kDouble);
    };
    std::vector<Tensor> rows;
    for (int64_t n = 0; n < layout_.documents(); ++n) {
      const auto document = layout_.document(n);
      const bool turns = c.lcsm.oscillation == kRotation;
      Tensor memory = at::zeros({turns ? 2 * k : k, d}, at::kDouble);
      for (int64_t t = document.begin; t < document.begin + document.length; ++t) {
        Tensor e = source(c.lcsm.expand, "expand", t), s = source(c.lcsm.shrink, "shrink", t),
               i = linear(h.narrow(0, t, 1), name + "input")[0];
        if (c.lcsm.oscillation == kStateSpace)
          i = i *
              at::softplus(linear(linear(h.narrow(0, t, 1), name + "step_down"), name + "forget_value")[0]);
        if (c.lcsm.oscillation == kCumulative) e = e * share(name, h, document.begin, t).unsqueeze(1);
        if (turns) {
          const Tensor angle =
              (static_cast<double>(t - document.begin) *
               at::pow(at::Scalar(10000.0), at::arange(k, at::kDouble) * (-2.0 / static_cast<double>(d))))
                  .unsqueeze(1);
          e = at::cat({e * angle.cos(), e * angle.sin()});
          s = at::cat({s * angle.cos(), s * angle.sin()});
          memory = memory + e * i;
        } else {
          memory = oscillation(name, h, document.begin, t, d) * memory + e * i;
        }
        rows.push_back((s * memory).sum(0));
      }
    }
    const Tensor y = at::stack(rows), centred = y - y.mean(1, true);
    return linear(rms(centred, c.lcsm.norm_eps) * weight(name + "norm") + weight(name + "norm_shift"),
                  name + "output");
  }

 private:
  // The slopes of ALiBi (2108.12409).
  Tensor alibi(int64_t count) const {
    int64_t power = 1;
    while (2 * power <= count) power *= 2;
    std::vector<double> slopes;
    for (int64_t i = 0; i < count; ++i) {
      slopes.push_back(i < power
                           ? std::pow(2.0, -8.0 * static_cast<double>(i + 1) / static_cast<double>(power))
                           : std::pow(2.0, -8.0 * static_cast<double>(2 * (i - power) + 1) /
                                               static_cast<double>(2 * power)));
    }
    return at::tensor(slopes, at::kDouble);
  }
  Tensor activated(const Tensor& x) const {
    const Tensor elu = at::where(x.gt(0), x, x.clamp_max(0).expm1());
    const Tensor all[] = {x,   x.clamp_min(0),          at::sigmoid(x), 1 + elu, x * at::sigmoid(x),
                          elu, x.clamp_min(0).square(), x * x};
    return all[static_cast<size_t>(c.lcsm.activation)];
  }
  // The oscillation of a token, o_t [k, d].
  Tensor oscillation(const std::string& name, const Tensor& h, int64_t begin, int64_t t, int64_t d) const {
    using enum recipe::LcsmOscillation;
    const int64_t k = c.lcsm.state;
    const Tensor ones = at::ones({k, d}, at::kDouble), row = h.narrow(0, t, 1);
    const auto of = [&](const char* part) { return linear(row, name + part)[0]; };
    const auto gate = [&](const Tensor& z) {
      return c.lcsm.tau > 0 ? at::pow(at::sigmoid(z), 1 / c.lcsm.tau)
                            : at::exp(-at::sigmoid(z) * alibi(z.size(0)));
    };
    const auto product = [&](const Tensor& z) { return at::pow(at::sigmoid(z * ones), 1 / c.lcsm.tau); };
    const auto fixed = [&](int64_t count) {
      return c.lcsm.tau > 0 ? at::pow(at::sigmoid(weight(name + "oscillation")), 1 / c.lcsm.tau)
                            : at::exp(-alibi(count));
    };
    switch (c.lcsm.oscillation) {
      case kMatrix:
        return fixed(k * d).view({k, d});
      case kInputBoth:
        return gate(of("forget_key")).unsqueeze(1) * gate(of("forget_value"));
      case kInputValue:
        return gate(of("forget_value")) * ones;
      case kInputKey:
        return gate(of("forget_key")).unsqueeze(1) * ones;
      case kKey:
        return fixed(k).unsqueeze(1) * ones;
      case kValue:
        return fixed(d) * ones;
      case kInputKeyMatrix:
        return product(of("forget_key").unsqueeze(1) * weight(name + "oscillation"));
      case kInputValueMatrix:
        return product(of("forget_value") * weight(name + "oscillation"));
      case kInputValueKey:
        return product(of("forget_value") * weight(name + "oscillation").unsqueeze(1));
      case kInputKeyValue:
        return product(of("forget_key").unsqueeze(1) * weight(name + "oscillation"));
      case kCumulative:
        return (1 - share(name, h, begin, t)).unsqueeze(1) * ones;
      case kStateSpace: {
        const Tensor step = at::softplus(linear(linear(row, name + "step_down"), name + "forget_value")[0]);
        return at::exp(-step * weight(name + "oscillation").exp());
      }
      default:
        return ones;
    }
  }
  // For type 12: a token's share of the softmax over its document so far, [k].
  Tensor share(const std::string& name, const Tensor& h, int64_t begin, int64_t t) const {
    const Tensor so_far = linear(h.narrow(0, begin, t - begin + 1), name + "forget_key").clamp(-10, 10);
    return so_far.softmax(0)[t - begin];
  }
};

}  // namespace longhaul::testing
