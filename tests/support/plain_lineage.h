// The mixers of the linear-attention family in plain fp64 ATen, one token of one head after the other, each
// from its paper alone (named at its function): the reference for src/model. It uses nothing of
// src/recipe/mixers/recurrent/recurrent.h, only weights and options, no plans.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "layout/sequence.h"
#include "recipe/architecture/model_config.h"
#include "support/tensors.h"

namespace longhaul::testing {

class PlainLineage {
 public:
  // The logical tensor of this name, which ends in ".weight" or ".bias".
  using Weights = std::function<Tensor(const std::string& name)>;
  PlainLineage(const recipe::ModelConfig& config, Weights weights, const layout::SequenceLayout& layout)
      : c_(config), weight_(std::move(weights)), layout_(layout) {}

  // name: the prefix of its tensors' names, "layers.2.mixer."
  Tensor mixed(recipe::Mixer mixer, const Tensor& h, const std::string& name, int64_t l) const {
    switch (mixer) {
      case recipe::Mixer::kTnl:
        return tnl(h, name, l);
      case recipe::Mixer::kRetnet:
        return retnet(h, name);
      case recipe::Mixer::kGla:
        return gla(h, name);
      case recipe::Mixer::kCosformer:
        return cosformer(h, name);
      case recipe::Mixer::kCosformer2:
        return cosformer2(h, name);
      case recipe::Mixer::kLightnet:
        return lightnet(h, name);
      case recipe::Mixer::kMetala:
        return metala(h, name);
      case recipe::Mixer::kMamba2:
        return mamba2(h, name);
      case recipe::Mixer::kHgrn:
        return hgrn(h, name, l);
      default:
        return {};
    }
  }

 private:
  Tensor times(const Tensor& x, const std::string& name) const {
    return at::mm(x, weight_(name + ".weight").t());
  }
  static Tensor silu(const Tensor& x) { return x * x.sigmoid(); }
  static Tensor part(const Tensor& row, int64_t n, int64_t of) { return row.narrow(0, n * of, of); }
  static Tensor srms(const Tensor& x, double eps) { return x / (x.square().mean(-1, true) + eps).sqrt(); }
  static Tensor centred(const Tensor& x, double eps) { return srms(x - x.mean(-1, true), eps); }

  // step(state, token, position in its document, head) → {new state, o [value]}: every document and head from
  // zeros.
  struct Stepped {
    Tensor state, o;
  };
  Tensor recur(int64_t keys, int64_t values,
               const std::function<Stepped(const Tensor&, int64_t, double, int64_t)>& step) const {
    std::vector<Tensor> rows;
    for (int64_t d = 0; d < layout_.documents(); ++d) {
      const auto document = layout_.document(d);
      std::vector<Tensor> states(static_cast<size_t>(c_.heads), at::zeros({keys, values}, at::kDouble));
      for (int64_t t = document.begin; t < document.end(); ++t) {
        std::vector<Tensor> heads;
        for (int64_t n = 0; n < c_.heads; ++n) {
          const Stepped made =
              step(states[static_cast<size_t>(n)], t, static_cast<double>(t - document.begin), n);
          states[static_cast<size_t>(n)] = made.state;
          heads.push_back(made.o);
        }
        rows.push_back(at::cat(heads));
      }
    }
    return at::stack(rows);
  }
  static Stepped written(const Tensor& state, const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor next = state + at::outer(k, v);
    return {next, at::mv(next.t(), q)};
  }
  static Tensor at_angles(const Tensor& x, const Tensor& angle) {
    return at::cat({x * angle.cos(), x * angle.sin()});
  }

  // The slopes of ALiBi (2108.12409), scaled down with depth, as in TransNormerLLM's released code; and the
  // other variants of docs/sources/linear-attention.md §3.2.
  double tnl_slope(int64_t n, int64_t l) const {
    const auto heads = static_cast<double>(c_.heads), layers = static_cast<double>(c_.layers);
    const double code = (c_.layers > 1 ? 1 - static_cast<double>(l) / (layers - 1) : 1) + 1e-5,
                 text = 1 - static_cast<double>(l) / layers;
    const bool falls = c_.tnl.layer_temperature;
    switch (c_.tnl.slopes) {
      case recipe::TnlSlopes::kOfficial: {
        int64_t power = 1;
        while (2 * power <= c_.heads) power *= 2;
        const double root = std::pow(2.0, -8.0 / static_cast<double>(power)),
                     next = std::pow(2.0, -4.0 / static_cast<double>(power));
        return (n < power ? std::pow(root, n + 1) : std::pow(next, 2 * (n - power) + 1)) * (falls ? code : 1);
      }
      case recipe::TnlSlopes::kPaper:
        return 8 * static_cast<double>(n + 1) / heads * (falls ? text : 1);
      case recipe::TnlSlopes::kFla:
        return 8 * static_cast<double>(n) / heads * (falls ? text : 1);
      case recipe::TnlSlopes::kXmixers:
        return 1 / (2 * std::pow(128.0, static_cast<double>(n) / (heads - 1))) * (falls ? code : 1);
    }
    return 0;
  }

  // TransNormerLLM (2307.14995; second version 2405.17381).
  Tensor tnl(const Tensor& h, const std::string& name, int64_t l) const {
    const int64_t dim = c_.head_dim;
    const bool first = c_.tnl.positions && l == 0, second = c_.tnl.version == recipe::TnlVersion::kV2;
    const Tensor q = silu(times(h, name + "query")), k = silu(times(h, name + "key")),
                 u = times(h, name + "value");
    const Tensor v = c_.tnl.value_silu ? silu(u) : u;
    const Tensor o =
        recur(first ? 2 * dim : dim, dim, [&](const Tensor& state, int64_t t, double position, int64_t n) {
          Tensor qs = part(q[t], n, dim), ks = part(k[t], n, dim);
          if (first) {
            const Tensor angle = part(weight_("tnl.frequencies.weight"), n, dim) * position;
            qs = at_angles(qs, angle), ks = at_angles(ks, angle);
          }
          return written(std::exp(-tnl_slope(n, l)) * state, qs, ks, part(v[t], n, dim));
        });
    Tensor y = srms(o, c_.tnl.norm_eps);
    if (c_.tnl.gate)
      y = y * (second ? times(times(h, name + "gate_down"), name + "gate_up").sigmoid()
                      : times(h, name + "gate"));
    return times(y, name + "output");
  }

  // RetNet (2307.08621), with rotary positions (2104.09864) in NeoX's pairs; GroupNorm as RMS of each head.
  Tensor retnet(const Tensor& h, const std::string& name) const {
    const int64_t dim = c_.head_dim, values = c_.retnet.value_dim > 0 ? c_.retnet.value_dim : 2 * dim,
                  half = dim / 2;
    const Tensor q = times(h, name + "query"), k = times(h, name + "key"), v = times(h, name + "value");
    const auto turned = [&](const Tensor& x, double position) {
      std::vector<Tensor> a, b;
      for (int64_t j = 0; j < half; ++j) {
        const double angle = position / std::pow(c_.retnet.rotary_base,
                                                 2.0 * static_cast<double>(j) / static_cast<double>(dim));
        a.push_back(x[j] * std::cos(angle) - x[j + half] * std::sin(angle));
        b.push_back(x[j + half] * std::cos(angle) + x[j] * std::sin(angle));
      }
      return at::cat({at::stack(a), at::stack(b)});
    };
    const Tensor o = recur(dim, values, [&](const Tensor& state, int64_t t, double position, int64_t n) {
      const double decay = 1 - std::pow(2.0, -5.0 - static_cast<double>(n));
      return written(decay * state,
                     turned(part(q[t], n, dim), position) / std::sqrt(static_cast<double>(dim)),
                     turned(part(k[t], n, dim), position), part(v[t], n, values));
    });
    Tensor y = srms(o.view({o.size(0), c_.heads, values}), c_.retnet.norm_eps);
    if (c_.retnet.norm_weight) y = y * weight_(name + "norm.weight");
    return times(y.reshape(o.sizes()) * silu(times(h, name + "gate")), name + "output");
  }

  // GLA (2312.06635).
  Tensor gla(const Tensor& h, const std::string& name) const {
    const auto& own = c_.gla;
    const int64_t dim = c_.head_dim, keys = own.key_dim > 0 ? own.key_dim : dim / 2;
    const int64_t group = own.key_heads > 0 ? c_.heads / own.key_heads : 1;  // query heads for each key head
    const auto made = [&](const char* which) {
      const Tensor x = times(h, name + which);
      return own.bias ? x + weight_(name + which + ".bias") : x;
    };
    const auto mapped = [&](const Tensor& x) {
      const Tensor all[] = {x, x.clamp_min(0), x.sigmoid(), silu(x)};
      return all[static_cast<size_t>(own.feature_map)];
    };
    const Tensor logits = own.tied_keys ? times(h, name + "forget")
                                        : times(times(h, name + "forget_down"), name + "forget_up") +
                                              weight_(name + "forget_up.bias");
    const Tensor decay = logits.sigmoid().pow(1 / own.temperature), q = mapped(made("query")),
                 v = made("value"), k = own.tied_keys ? 1 - decay : mapped(made("key"));
    const Tensor o = recur(keys, dim, [&](const Tensor& state, int64_t t, double, int64_t n) {
      return written(part(decay[t], n / group, keys).unsqueeze(1) * state,
                     part(q[t], n, keys) / std::sqrt(static_cast<double>(keys)), part(k[t], n / group, keys),
                     part(v[t], n / group, dim));
    });
    const Tensor y = (srms(o.view({o.size(0), c_.heads, dim}), own.norm_eps) * weight_(name + "norm.weight"))
                         .reshape(o.sizes());
    return times(own.output_gate ? y * silu(times(h, name + "gate")) : y, name + "output");
  }

  // cosFormer (2202.08791): the weights of all tokens so far, without a state.
  Tensor cosformer(const Tensor& h, const std::string& name) const {
    const int64_t dim = c_.head_dim;
    const Tensor q = at::relu(times(h, name + "query")), k = at::relu(times(h, name + "key")),
                 v = times(h, name + "value");
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < h.size(0); ++t) {
      const auto document = layout_.document(layout_.document_of(t));
      std::vector<Tensor> heads;
      for (int64_t n = 0; n < c_.heads; ++n) {
        Tensor sum = at::zeros({dim}, at::kDouble), all = at::zeros({}, at::kDouble);
        for (int64_t s = document.begin; s <= t; ++s) {
          const double distance = static_cast<double>(t - s) / static_cast<double>(c_.cosformer.longest);
          const Tensor weight = part(q[t], n, dim).dot(part(k[s], n, dim)) * std::cos(M_PI / 2 * distance);
          sum = sum + weight * part(v[s], n, dim);
          all = all + weight;
        }
        heads.push_back(sum / all.clamp_min(1e-6));
      }
      rows.push_back(at::cat(heads));
    }
    return times(at::stack(rows), name + "output");
  }

  // cosFormer2 (2406.16690): as quadratic sums of cosines for each channel.
  Tensor cosformer2(const Tensor& h, const std::string& name) const {
    const int64_t dim = c_.head_dim, channels = c_.heads * dim;
    const Tensor q = silu(times(h, name + "query")), k = silu(times(h, name + "key")),
                 v = times(h, name + "value");
    const Tensor theta = at::pow(at::Scalar(c_.cosformer2.base),
                                 at::arange(channels, at::kDouble) * (-2.0 / static_cast<double>(channels)));
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < h.size(0); ++t) {
      Tensor row = at::zeros({c_.heads, dim}, at::kDouble);
      for (int64_t s = layout_.document(layout_.document_of(t)).begin; s <= t; ++s) {
        const Tensor weight =
            (q[t] * k[s] * (theta * static_cast<double>(t - s)).cos()).view({c_.heads, dim}).sum(1, true);
        row = row + weight * v[s].view({c_.heads, dim});
      }
      rows.push_back(row.reshape({channels}));
    }
    const Tensor gate = times(times(h, name + "gate_down"), name + "gate_up").sigmoid();
    return times(srms(at::stack(rows), c_.cosformer2.norm_eps) * gate, name + "output");
  }

  // LightNet (2405.21022): keys are a softmax over the tokens so far, or, in a model without an order, over
  // the document, written out directly.
  Tensor lightnet(const Tensor& h, const std::string& name) const {
    const int64_t dim = c_.head_dim, keys = c_.lightnet.expand > 0 ? c_.lightnet.expand : dim,
                  all_keys = c_.heads * keys;
    const Tensor q = silu(times(h, name + "query")), x = times(h, name + "key"), v = times(h, name + "value");
    const Tensor theta = at::pow(at::Scalar(10000.0),
                                 at::arange(all_keys, at::kDouble) * (-2.0 / static_cast<double>(all_keys)));
    // MD-LRPE: a head's channels are divided over the axes of a grid, with the same frequencies for each
    // axis; a document's first token has no position.
    const auto grid_angles = [&](int64_t place) {
      std::vector<double> angles(static_cast<size_t>(keys));
      const auto axes = static_cast<int64_t>(c_.lightnet.grid.size()), of_axis = (keys + axes - 1) / axes;
      for (int64_t i = 0; i < keys && place > 0; ++i) {
        int64_t rest = place - 1;
        for (int64_t a = axes - 1; a > i / of_axis; --a) rest /= c_.lightnet.grid[static_cast<size_t>(a)];
        const double along = static_cast<double>(rest % c_.lightnet.grid[static_cast<size_t>(i / of_axis)]);
        angles[static_cast<size_t>(i)] =
            along * std::pow(10000.0, -2.0 * static_cast<double>(i % of_axis) / static_cast<double>(keys));
      }
      return at::tensor(angles, at::kDouble).repeat({c_.heads});
    };
    const auto turned_by = [&](int64_t at, int64_t to) {
      return c_.lightnet.grid.empty() ? theta * static_cast<double>(at - to)
                                      : grid_angles(at) - grid_angles(to);
    };
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < h.size(0); ++t) {
      const auto document = layout_.document(layout_.document_of(t));
      const int64_t begin = document.begin, count = c_.causal ? t - begin + 1 : document.length;
      const Tensor shares = x.narrow(0, begin, count).softmax(0);
      Tensor row = at::zeros({c_.heads, dim}, at::kDouble);
      for (int64_t s = 0; s < count; ++s) {
        Tensor product = q[t] * shares[s];
        if (c_.lightnet.positions) product = product * turned_by(t - begin, s).cos();
        row = row + product.view({c_.heads, keys}).sum(1, true) * v[begin + s].view({c_.heads, dim});
      }
      rows.push_back(row.reshape({c_.heads * dim}));
    }
    Tensor y = srms(at::stack(rows), c_.lightnet.norm_eps);
    if (c_.lightnet.norm_weight) y = y * weight_(name + "norm.weight");
    return times(y * silu(times(times(h, name + "gate_down"), name + "gate_up")), name + "output");
  }

  // z_t = Σ_j w_j x_{t−(W−1)+j} of the document, then silu.
  Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const int64_t begin = layout_.document(layout_.document_of(t)).begin, taps = weight.size(1);
      Tensor z = bias.defined() ? bias : at::zeros({x.size(1)}, at::kDouble);
      for (int64_t j = 0; j < taps; ++j) {
        if (t - (taps - 1) + j >= begin) z = z + weight.select(1, j) * x[t - (taps - 1) + j];
      }
      rows.push_back(silu(z));
    }
    return at::stack(rows);
  }

  // MetaLA (2411.10741).
  Tensor metala(const Tensor& input, const std::string& name) const {
    const int64_t dim = c_.head_dim, keys = c_.metala.key_dim > 0 ? c_.metala.key_dim : dim / 2;
    const Tensor h =
        c_.metala.convolution > 0 ? convolved(input, weight_(name + "convolution.weight"), {}) : input;
    const Tensor q = times(h, name + "query"), v = times(h, name + "value");
    const Tensor decay = times(h, name + "forget").sigmoid().pow(1 / c_.metala.temperature),
                 self = weight_(name + "self.weight");
    const Tensor o = recur(keys, dim, [&](const Tensor& state, int64_t t, double, int64_t n) {
      const Tensor kept = part(decay[t], n, keys), own = part(q[t], n, keys), value = part(v[t], n, dim);
      const Stepped made = written(kept.unsqueeze(1) * state, own, 1 - kept, value);
      return Stepped{made.state, made.o + (own.dot((1 - kept) * part(self, n, keys)) * value).sigmoid()};
    });
    const Tensor y = centred(o.view({o.size(0), c_.heads, dim}), c_.metala.norm_eps).reshape(o.sizes());
    const Tensor gate = times(h, name + "gate");
    return times(y * silu(c_.metala.gate_bias ? gate + weight_(name + "gate.bias") : gate), name + "output");
  }

  // Mamba-2 (2405.21060).
  Tensor mamba2(const Tensor& h, const std::string& name) const {
    const int64_t dim = c_.head_dim, keys = c_.mamba2.state, of_group = c_.heads / c_.mamba2.groups;
    const auto through = [&](const std::string& what) {
      const std::string of = name + what + "_convolution";
      return convolved(times(h, name + what), weight_(of + ".weight"), weight_(of + ".bias"));
    };
    const Tensor x = through("value"), b = through("key"), q = through("query");
    const Tensor step = (1 + (times(h, name + "step") + weight_(name + "step_bias.weight")).exp()).log();
    const Tensor rate = weight_(name + "log_rate.weight").exp(), skip = weight_(name + "skip.weight");
    const Tensor o = recur(keys, dim, [&](const Tensor& state, int64_t t, double, int64_t n) {
      const Tensor value = part(x[t], n, dim), delta = step[t][n];
      const Stepped made = written((-rate[n] * delta).exp() * state, part(q[t], n / of_group, keys),
                                   part(b[t], n / of_group, keys), delta * value);
      return Stepped{made.state, made.o + skip[n] * value};
    });
    const Tensor gated = o * silu(times(h, name + "gate"));  // each group's channels are normed separately
    const Tensor normed = srms(gated.reshape({gated.size(0) * c_.mamba2.norm_groups, -1}), c_.mamba2.norm_eps)
                              .reshape(gated.sizes());
    return times(normed * weight_(name + "norm.weight"), name + "output");
  }

  // HGRN (2311.04823): complex numbers, with real and imaginary parts computed separately.
  Tensor hgrn(const Tensor& h, const std::string& name, int64_t l) const {
    const int64_t dim = c_.head_dim, parts = c_.hgrn.complex ? 2 : 1;
    const Tensor share = weight_("hgrn.lower_bounds.weight").softmax(0), bound = share.narrow(0, 0, l).sum(0);
    const Tensor c = silu(times(h, name + "value")),
                 decay = bound + (1 - bound) * times(h, name + "forget").sigmoid();
    const Tensor o = recur(parts, dim, [&](const Tensor& state, int64_t t, double, int64_t n) {
      const Tensor kept = part(decay[t], n, dim), number = part(c[t], n, parts * dim).view({parts, dim});
      if (parts == 1) {
        const Tensor next = kept * state + (1 - kept) * number;
        return Stepped{next, next[0]};
      }
      const Tensor theta = part(weight_(name + "frequencies.weight"), n, dim), cos = theta.cos(),
                   sin = theta.sin();
      const Tensor re = kept * (cos * state[0] - sin * state[1]) + (1 - kept) * number[0];
      const Tensor im = kept * (sin * state[0] + cos * state[1]) + (1 - kept) * number[1];
      return Stepped{at::stack({re, im}), at::cat({re, im})};
    });
    const Tensor y = centred(o, c_.hgrn.norm_eps) * weight_(name + "norm.weight");
    return times(y * silu(times(h, name + "gate")), name + "output");
  }

  const recipe::ModelConfig& c_;
  Weights weight_;
  const layout::SequenceLayout& layout_;
};

}  // namespace longhaul::testing
