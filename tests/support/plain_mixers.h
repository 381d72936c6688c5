// Every sequence mixer in plain fp64 ATen, head by head and token by token, from the published definitions
// alone: here softmax attention with RoFormer's positions (2104.09864, NeoX pairs), latent attention,
// lightning attention (MiniMax-01, 2501.08313), HGRN2 and mixtures; the others are in the neighbouring
// files.
#pragma once

#include <algorithm>
#include <cmath>

#include "support/plain_delta_rule.h"
#include "support/plain_lcsm.h"
#include "support/plain_lineage.h"
#include "support/plain_parts.h"

namespace longhaul::testing {

class PlainMixers : PlainParts {
 public:
  explicit PlainMixers(const PlainParts& parts) : PlainParts(parts) {}

  // name: the prefix of its tensors' names, "layers.2.mixer."
  Tensor mixed(recipe::Mixer mixer, const Tensor& h, const std::string& name, int64_t l) const {
    switch (mixer) {
      case recipe::Mixer::kSoftmax:
        return softmax(h, name, l);
      case recipe::Mixer::kLightning:
        return lightning(h, name, l);
      case recipe::Mixer::kMla:
        return mla(h, name, l);
      case recipe::Mixer::kHgrn2:
        return hgrn2(h, name, l);
      case recipe::Mixer::kGatedDeltaNet:
        return PlainDeltaRule(*this).gated_deltanet(h, name);
      case recipe::Mixer::kKda:
        return PlainDeltaRule(*this).kda(h, name);
      case recipe::Mixer::kDeltaNet:
        return PlainDeltaRule(*this).deltanet(h, name);
      case recipe::Mixer::kLcsm:
        return PlainLcsm(*this).mixed(h, name);
      case recipe::Mixer::kMixture:
        return mixture(h, name, l);
      default:
        return PlainLineage(
                   c, [this](const std::string& which) { return weights_.at(which); }, layout_)
            .mixed(mixer, h, name, l);
    }
  }

 private:
  // Channels j and j + R/2 of the first R rotate together by position · base^(−2j/R).
  Tensor rotated(const Tensor& x, const Tensor& position) const {
    return rotated(x, position, c.softmax.rotary_dim);
  }
  Tensor rotated(const Tensor& x, const Tensor& position, int64_t channels) const {
    const int64_t half = channels / 2;
    if (c.position != recipe::Position::kRotary || half == 0) return x;
    const Tensor power = at::arange(half, at::kDouble) * (-2.0 / static_cast<double>(channels));
    Tensor speed = at::pow(at::Scalar(c.softmax.rotary_base), power);
    if (c.softmax.rotary_scaling == recipe::RotaryScaling::kLinear) speed = speed / c.softmax.rotary_factor;
    if (c.softmax.rotary_scaling ==
        // As published: long wavelengths are stretched, short ones unchanged, with a smooth transition.
        recipe::RotaryScaling::kLlama3) {
      const Tensor turns = static_cast<double>(c.softmax.rotary_original) * speed / (2 * M_PI);
      const Tensor smooth = (turns - c.softmax.rotary_low) / (c.softmax.rotary_high - c.softmax.rotary_low);
      const Tensor between = (1 - smooth) * speed / c.softmax.rotary_factor + smooth * speed;
      speed = at::where(turns < c.softmax.rotary_low, speed / c.softmax.rotary_factor,
                        at::where(turns > c.softmax.rotary_high, speed, between));
    }
    const Tensor angle = at::outer(position.to(at::kDouble), speed);
    const Tensor a = x.narrow(1, 0, half), b = x.narrow(1, half, half),
                 rest = x.narrow(1, 2 * half, x.size(1) - 2 * half);
    return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), rest}, 1);
  }

  Tensor softmax(const Tensor& h, const std::string& name, int64_t l) const {
    const int64_t window = c.softmax.windows[static_cast<size_t>(l) % c.softmax.windows.size()];
    const auto head_normed = [&](const Tensor& x, const char* which) {
      return c.softmax.qk_norm ? rms(x, c.norm_eps) * weight(name + which) : x;
    };
    const Tensor q = linear(h, name + "query"), k = linear(h, name + "key"), v = linear(h, name + "value");
    const auto head = [&](const Tensor& x, int64_t begin, int64_t count, int64_t n) {
      return x.narrow(0, begin, count).narrow(1, n * c.head_dim, c.head_dim);
    };
    const Tensor o = by_document_and_head([&](int64_t begin, int64_t count, int64_t n) {
      const int64_t group = n / (c.heads / c.softmax.kv_heads);
      const Tensor where = positions().narrow(0, begin, count);
      const Tensor qs = rotated(head_normed(head(q, begin, count, n), "query_norm"), where),
                   ks = rotated(head_normed(head(k, begin, count, group), "key_norm"), where),
                   vs = head(v, begin, count, group);
      std::vector<Tensor> rows;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t first = window > 0 ? std::max<int64_t>(0, i + 1 - window) : 0,
                      seen = (c.causal ? i + 1 : count) - first;
        const Tensor score =
            at::mv(ks.narrow(0, first, seen), qs[i]) / std::sqrt(static_cast<double>(c.head_dim));
        rows.push_back(at::mv(vs.narrow(0, first, seen).t(), score.softmax(0)));
      }
      return at::stack(rows);
    });
    return linear(c.softmax.output_gate ? o * at::sigmoid(linear(h, name + "gate")) : o, name + "output");
  }

  // Multi-head latent attention (DeepSeek-V2, 2405.04434, equations 9 to 19): keys and values of every head
  // are written out, token by token. The rotated channels come first in a query.
  Tensor mla(const Tensor& h, const std::string& name, int64_t l) const {
    const auto& own = c.mla;
    const int64_t turned = own.rotary_dim, still = own.key_dim > 0 ? own.key_dim : c.head_dim,
                  width = own.value_dim > 0 ? own.value_dim : c.head_dim;
    const int64_t window = c.softmax.windows[static_cast<size_t>(l) % c.softmax.windows.size()];
    const Tensor where = positions();
    const Tensor latent = rms(linear(h, name + "latent"), own.norm_eps) * weight(name + "latent_norm");
    const Tensor of_queries =
        own.query_rank > 0 ? rms(linear(h, name + "query_down"), own.norm_eps) * weight(name + "query_norm")
                           : h;
    const Tensor shared = turned > 0 ? rotated(linear(h, name + "shared_key"), where, turned)
                                     : at::zeros({h.size(0), 0}, at::kDouble);
    const auto of_head = [&](const char* which, int64_t n, int64_t rows) {
      return weight(name + which).narrow(0, n * rows, rows);
    };
    const Tensor o = by_document_and_head([&](int64_t begin, int64_t count, int64_t n) {
      const Tensor made = at::mm(of_queries, of_head("query", n, turned + still).t());
      std::vector<Tensor> rows;
      for (int64_t t = begin; t < begin + count; ++t) {
        const Tensor turning =
            rotated(made.narrow(0, t, 1).narrow(1, 0, turned), where.narrow(0, t, 1), turned)[0];
        const Tensor staying = made[t].narrow(0, turned, still);
        std::vector<Tensor> scores, values;
        for (int64_t s = window > 0 ? std::max(begin, t + 1 - window) : begin; s <= t; ++s) {
          const Tensor key = at::mv(of_head("key", n, still), latent[s]);
          const Tensor score = (staying * key).sum() + (turning * shared[s]).sum();
          scores.push_back(score / std::sqrt(static_cast<double>(turned + still)));
          values.push_back(at::mv(of_head("value", n, width), latent[s]));
        }
        rows.push_back(at::mv(at::stack(values).t(), at::stack(scores).softmax(0)));
      }
      return at::stack(rows);
    });
    return linear(o, name + "output");
  }

  // Parallel branches, each normed separately (SpikingBrain, 2509.05276).
  Tensor mixture(const Tensor& h, const std::string& name, int64_t l) const {
    const auto branch = [&](recipe::Mixer mixer, const std::string& which, int64_t index) {
      const Tensor o = mixed(mixer, h, name + which + ".", l);
      const Tensor normed = c.mixture.norm ? rms(o, c.norm_eps) * weight(name + which + "_norm") : o;
      return c.mixture.learned_weights ? weight(name + "weights")[index] * normed : normed;
    };
    return branch(recipe::Mixer::kSoftmax, "softmax", 0) + branch(c.mixture.linear, "linear", 1);
  }

  double slope(int64_t n, int64_t l) const {
    const auto ladder = [](int64_t of, int64_t i) {
      return std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(of));
    };
    const bool factor_plain = c.lightning.layer_factor == recipe::LayerFactor::kHuggingFace;
    const bool plain = c.lightning.base_slopes == recipe::BaseSlopes::kAsLayerFactor
                           ? factor_plain
                           : c.lightning.base_slopes == recipe::BaseSlopes::kHuggingFace;
    int64_t power = 1;
    while (2 * power <= c.heads) power *= 2;
    const double base = plain       ? ladder(c.heads, n + 1)
                        : n < power ? ladder(power, n + 1)
                                    : ladder(2 * power, 2 * (n - power) + 1);
    const double depth = c.layers <= 1 ? 0
                                       : static_cast<double>(l) /
                                             (static_cast<double>(c.layers - 1) + (factor_plain ? 1e-5 : 0));
    return base * (1 - depth + 1e-5);
  }
  Tensor lightning(const Tensor& h, const std::string& name, int64_t l) const {
    const Tensor q = at::silu(linear(h, name + "query")), k = at::silu(linear(h, name + "key")),
                 v = at::silu(linear(h, name + "value"));
    const Tensor o = by_document_and_head([&](int64_t begin, int64_t count, int64_t n) {
      const auto row = [&](const Tensor& x, int64_t t) {
        return x[begin + t].narrow(0, n * c.head_dim, c.head_dim);
      };
      Tensor state = at::zeros({c.head_dim, c.head_dim}, at::kDouble);
      std::vector<Tensor> rows;
      for (int64_t t = 0; t < count; ++t) {
        state = std::exp(-slope(n, l)) * state + at::outer(row(k, t), row(v, t));
        rows.push_back(at::mv(state.t(), row(q, t)));
      }
      return at::stack(rows);
    });
    return linear(
        at::sigmoid(linear(h, name + "gate")) * rms(o, c.lightning.norm_eps) * weight(name + "norm"),
        name + "output");
  }

  // HGRN2 (2404.07904) with the bounds of its published code: the cumulative sum of a softmax over layers
  // up to layer l, without the first layer's share.
  Tensor hgrn2(const Tensor& h, const std::string& name, int64_t l) const {
    const int64_t n_key = c.hgrn2.expand > 0 ? c.hgrn2.expand : c.head_dim;
    const Tensor summed = weight("hgrn2.lower_bounds").softmax(0).cumsum(0), bound = summed[l] - summed[0];
    const Tensor q = at::silu(linear(h, name + "query")), v = linear(h, name + "value");
    const Tensor decay = bound + (1 - bound) * at::sigmoid(linear(h, name + "forget"));
    const Tensor o = by_document_and_head([&](int64_t begin, int64_t count, int64_t n) {
      Tensor state = at::zeros({n_key, c.head_dim}, at::kDouble);
      std::vector<Tensor> rows;
      for (int64_t t = begin; t < begin + count; ++t) {
        const Tensor kept = decay[t].narrow(0, n * n_key, n_key);
        state = kept.unsqueeze(1) * state + at::outer(1 - kept, v[t].narrow(0, n * c.head_dim, c.head_dim));
        rows.push_back(at::mv(state.t(), q[t].narrow(0, n * n_key, n_key)));
      }
      return at::stack(rows);
    });
    return linear(rms(o, c.hgrn2.norm_eps) * weight(name + "norm"), name + "output");
  }
};

}  // namespace longhaul::testing
