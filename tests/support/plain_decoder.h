// A decoder in plain fp64 ATen, head by head and token by token, written from the published definitions alone: MiniMax-01 (arXiv
// 2501.08313) for two mixers, the experts and the post-norm wiring, RoFormer (2104.09864) with NeoX pairs, SwiGLU (2002.05202), GPT-2's
// GeLU and learned positions, sequence-wise balance (2412.19437). It shares with src/model the names and shapes of logical tensors only.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/sequence.h"
#include "model/parameter.h"
#include "recipe/model_config.h"
#include "support/plain_lineage.h"
#include "support/tensors.h"

namespace longhaul::testing {

using LogicalTensors = std::map<std::string, Tensor>;

// Copies of all logical tensors as fp64 leaves.
inline LogicalTensors leaves_of(const model::ParameterSet& parameters) {
  LogicalTensors leaves;
  for (const auto& spec : parameters.specs()) {
    size_t part = 0;
    const model::Parameter* holder = parameters.holder_of(spec.tensor.name, &part);
    leaves[spec.tensor.name] = holder->part_of(holder->value.detach(), part).to(at::kDouble, false, /*copy=*/true).requires_grad_(true);
  }
  return leaves;
}

class PlainDecoder {
 public:
  PlainDecoder(const recipe::ModelConfig& config, LogicalTensors weights) : c(config), weights_(std::move(weights)) {}

  struct Result {
    Tensor logits_tv, loss, auxiliary;  // sums over tokens
  };
  Result run(const Tensor& ids, const Tensor& labels, const layout::SequenceLayout& layout) {
    layout_ = layout;
    auxiliary_ = at::zeros({}, at::kDouble);
    chosen_.clear(), probability_.clear();
    Tensor x = weight("embedding").index_select(0, ids);
    if (c.position == recipe::Position::kLearned) x = x + weight("position").index_select(0, positions());
    if (c.toeplitz > 0) x = toeplitz(x);
    for (int64_t l = 0; l < c.layers; ++l) x = layer(x, "layers." + std::to_string(l) + ".", l);
    last_ = norm(x, "norm", c.norm_eps);
    if (c.router.balance_form == recipe::BalanceForm::kHuggingFace) auxiliary_ = auxiliary_ + joint_balance();
    const Tensor logits = logits_of(last_);
    return {logits, loss_of(logits, labels), auxiliary_};
  }

  // Multi-token prediction (DeepSeek-V3, 2412.19437 §2.2) after run() on the same tokens: Σ over modules of the loss of the token behind the one that
  // each is given, times its share of the weight; auxiliary losses of the modules' experts are added to run()'s, and with it are returned.
  Result predictions(const Tensor& ids, const Tensor& labels) {
    Tensor h = last_, loss = at::zeros({}, at::kDouble);
    for (int64_t k = 1; k <= c.predict_ahead; ++k) {
      const std::string name = "ahead." + std::to_string(k - 1) + ".";
      std::vector<Tensor> tokens, targets;
      for (int64_t t = 0; t < ids.size(0); ++t) {
        const bool there = t + k < layout_.document(layout_.document_of(t)).end();
        tokens.push_back(there ? weight("embedding")[ids[t + k].item<int64_t>()] : at::zeros({c.hidden}, at::kDouble));
        targets.push_back(there ? labels[t + k] : at::full({}, -1, at::kLong));
      }
      const Tensor both = at::cat({norm(h, name + "hidden_norm", c.norm_eps), norm(at::stack(tokens), name + "token_norm", c.norm_eps)}, 1);
      h = norm(layer(linear(both, name + "join"), name, c.layers - 1), name + "norm", c.norm_eps);
      loss = loss + c.predict_ahead_weight / static_cast<double>(c.predict_ahead) * loss_of(logits_of(h), at::stack(targets));
    }
    return {Tensor(), loss, auxiliary_};
  }

 private:
  // y_t = Σ_{s ≤ t} κ(t − s) ⊙ x_s within a document, κ_c(τ) = Σ_j B_cj e^{−τ e^{r_j}}: a matrix of all pairs for each channel (2406.16690).
  Tensor toeplitz(const Tensor& x) const {
    const Tensor at = positions().to(at::kDouble), apart = at.unsqueeze(1) - at.unsqueeze(0);
    std::vector<int64_t> documents;
    for (int64_t t = 0; t < x.size(0); ++t) documents.push_back(layout_.document_of(t));
    const Tensor document = at::tensor(documents);
    const Tensor seen = document.unsqueeze(1).eq(document.unsqueeze(0)).logical_and(apart.ge(0));
    const Tensor powers = (apart.clamp_min(0).unsqueeze(2) * weight("toeplitz.rate").exp().neg()).exp();  // [t, s, e]
    const Tensor kernel = at::matmul(powers, weight("toeplitz.coefficient").t()) * seen.unsqueeze(2);     // [t, s, c]
    return (kernel * x.unsqueeze(0)).sum(1);
  }
  Tensor logits_of(const Tensor& h) const {
    const double width = c.mup_base_hidden > 0 ? static_cast<double>(c.hidden) / static_cast<double>(c.mup_base_hidden) : 1;
    return at::mm(h, weight(c.tie_embeddings ? "embedding" : "head").t()) / width;
  }
  static Tensor loss_of(const Tensor& logits, const Tensor& labels) {
    Tensor loss = at::zeros({}, at::kDouble);
    for (int64_t t = 0; t < labels.size(0); ++t) {
      const auto label = labels[t].item<int64_t>();
      if (label >= 0) loss = loss + logits[t].logsumexp(0) - logits[t][label];
    }
    return loss;
  }
  // Layer l of the model, or one like it under another name.
  Tensor layer(Tensor x, const std::string& layer, int64_t l) {
    const bool post = c.wiring == recipe::Wiring::kPostNorm;
    const double alpha = c.alpha > 0 ? c.alpha : post ? std::pow(2.0 * static_cast<double>(c.layers), 0.25) : 1, beta = c.beta;
    const double channel_alpha = c.channel_alpha > 0 ? c.channel_alpha : alpha, channel_beta = c.channel_beta > 0 ? c.channel_beta : beta;
    const auto or_else = [](double own, double common) { return own > 0 ? own : common; };
    const bool all_dense = c.experts == 0 || std::ranges::find(c.dense_layers, l) != c.dense_layers.end();
    const auto channel = [&](const Tensor& g) { return all_dense ? dense(g, layer + "channel.") : experts(g, layer); };
    const Tensor h = norm(x, layer + "mixer_norm", c.norm_eps);
    const Tensor m = mixed(c.mixer(l), h, layer + "mixer.", l);
    if (c.wiring == recipe::Wiring::kParallel) return x + m + channel(h);
    const bool soft = c.mixer(l) == recipe::Mixer::kSoftmax, light = c.mixer(l) == recipe::Mixer::kLightning;
    const double a = or_else(soft ? c.softmax.alpha : light ? c.lightning.alpha : 0, alpha);
    const double b = or_else(soft ? c.softmax.beta : light ? c.lightning.beta : 0, beta);
    x = a * (post ? h : x) + b * m;
    if (c.channel == recipe::Channel::kNone) return x;
    const Tensor g = norm(x, layer + "channel_norm", c.norm_eps);
    return channel_alpha * (post ? g : x) + channel_beta * channel(g);
  }

  Tensor weight(const std::string& name) const { return weights_.at(name + ".weight"); }
  Tensor positions() const { return at::tensor(layout_.positions); }

  Tensor linear(const Tensor& x, const std::string& name) const {
    const Tensor y = at::mm(x, weight(name).t());
    return weights_.contains(name + ".bias") ? y + weights_.at(name + ".bias") : y;
  }
  static Tensor rms(const Tensor& x, double eps) { return x / (x.square().mean(1, true) + eps).sqrt(); }
  Tensor norm(const Tensor& x, const std::string& name, double eps) const {
    if (c.norm == recipe::Norm::kSimpleRms) return rms(x, eps);
    const Tensor scaled = (c.norm == recipe::Norm::kRms ? rms(x, eps) : rms(x - x.mean(1, true), eps)) * weight(name);
    return weights_.contains(name + ".bias") ? scaled + weights_.at(name + ".bias") : scaled;
  }

  // Channels j and j + R/2 of the first R turn together by position · base^(−2j/R).
  Tensor rotated(const Tensor& x, const Tensor& position) const { return rotated(x, position, c.softmax.rotary_dim); }
  Tensor rotated(const Tensor& x, const Tensor& position, int64_t channels) const {
    const int64_t half = channels / 2;
    if (c.position != recipe::Position::kRotary || half == 0) return x;
    const Tensor power = at::arange(half, at::kDouble) * (-2.0 / static_cast<double>(channels));
    Tensor speed = at::pow(at::Scalar(c.softmax.rotary_base), power);
    if (c.softmax.rotary_scaling == recipe::RotaryScaling::kLinear) speed = speed / c.softmax.rotary_factor;
    if (c.softmax.rotary_scaling ==
        recipe::RotaryScaling::kLlama3) {  // as published: long waves stretched, short ones left, smoothly between
      const Tensor turns = static_cast<double>(c.softmax.rotary_original) * speed / (2 * M_PI);
      const Tensor smooth = (turns - c.softmax.rotary_low) / (c.softmax.rotary_high - c.softmax.rotary_low);
      const Tensor between = (1 - smooth) * speed / c.softmax.rotary_factor + smooth * speed;
      speed = at::where(turns < c.softmax.rotary_low, speed / c.softmax.rotary_factor,
                        at::where(turns > c.softmax.rotary_high, speed, between));
    }
    const Tensor angle = at::outer(position.to(at::kDouble), speed);
    const Tensor a = x.narrow(1, 0, half), b = x.narrow(1, half, half), rest = x.narrow(1, 2 * half, x.size(1) - 2 * half);
    return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), rest}, 1);
  }

  // body(first token, tokens, head) → [tokens, head_dim], for every document and head, put back together.
  template <class Body>
  Tensor by_document_and_head(const Body& body) const {
    return by_document_and_head(c.heads, body);
  }
  template <class Body>
  Tensor by_document_and_head(int64_t count_of_heads, const Body& body) const {
    std::vector<Tensor> documents;
    for (int64_t d = 0; d < layout_.documents(); ++d) {
      const auto document = layout_.document(d);
      std::vector<Tensor> heads;
      for (int64_t n = 0; n < count_of_heads; ++n) heads.push_back(body(document.begin, document.length, n));
      documents.push_back(at::cat(heads, 1));
    }
    return at::cat(documents, 0);
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
                   ks = rotated(head_normed(head(k, begin, count, group), "key_norm"), where), vs = head(v, begin, count, group);
      std::vector<Tensor> rows;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t first = window > 0 ? std::max<int64_t>(0, i + 1 - window) : 0;
        const Tensor score = at::mv(ks.narrow(0, first, i + 1 - first), qs[i]) / std::sqrt(static_cast<double>(c.head_dim));
        rows.push_back(at::mv(vs.narrow(0, first, i + 1 - first).t(), score.softmax(0)));
      }
      return at::stack(rows);
    });
    return linear(c.softmax.output_gate ? o * at::sigmoid(linear(h, name + "gate")) : o, name + "output");
  }

  // Multi-head latent attention (DeepSeek-V2, 2405.04434, equations 9 to 19): keys and values of every head written out, token by token. The
  // rotated channels stand first in a query.
  Tensor mla(const Tensor& h, const std::string& name, int64_t l) const {
    const auto& own = c.mla;
    const int64_t turned = own.rotary_dim, still = own.key_dim > 0 ? own.key_dim : c.head_dim,
                  width = own.value_dim > 0 ? own.value_dim : c.head_dim;
    const int64_t window = c.softmax.windows[static_cast<size_t>(l) % c.softmax.windows.size()];
    const Tensor where = positions();
    const Tensor latent = rms(linear(h, name + "latent"), own.norm_eps) * weight(name + "latent_norm");
    const Tensor of_queries = own.query_rank > 0 ? rms(linear(h, name + "query_down"), own.norm_eps) * weight(name + "query_norm") : h;
    const Tensor shared = turned > 0 ? rotated(linear(h, name + "shared_key"), where, turned) : at::zeros({h.size(0), 0}, at::kDouble);
    const auto of_head = [&](const char* which, int64_t n, int64_t rows) { return weight(name + which).narrow(0, n * rows, rows); };
    const Tensor o = by_document_and_head([&](int64_t begin, int64_t count, int64_t n) {
      const Tensor made = at::mm(of_queries, of_head("query", n, turned + still).t());
      std::vector<Tensor> rows;
      for (int64_t t = begin; t < begin + count; ++t) {
        const Tensor turning = rotated(made.narrow(0, t, 1).narrow(1, 0, turned), where.narrow(0, t, 1), turned)[0];
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

  // Branches beside each other, each normed by itself (SpikingBrain, 2509.05276).
  Tensor mixture(const Tensor& h, const std::string& name, int64_t l) const {
    const auto branch = [&](recipe::Mixer mixer, const std::string& which, int64_t index) {
      const Tensor o = mixed(mixer, h, name + which + ".", l);
      const Tensor normed = c.mixture.norm ? rms(o, c.norm_eps) * weight(name + which + "_norm") : o;
      return c.mixture.learned_weights ? weight(name + "weights")[index] * normed : normed;
    };
    return branch(recipe::Mixer::kSoftmax, "softmax", 0) + branch(c.mixture.linear, "linear", 1);
  }

  double slope(int64_t n, int64_t l) const {
    const auto ladder = [](int64_t of, int64_t i) { return std::pow(2.0, -8.0 * static_cast<double>(i) / static_cast<double>(of)); };
    const bool factor_plain = c.lightning.layer_factor == recipe::LayerFactor::kHuggingFace;
    const bool plain = c.lightning.base_slopes == recipe::BaseSlopes::kAsLayerFactor
                           ? factor_plain
                           : c.lightning.base_slopes == recipe::BaseSlopes::kHuggingFace;
    int64_t power = 1;
    while (2 * power <= c.heads) power *= 2;
    const double base = plain ? ladder(c.heads, n + 1) : n < power ? ladder(power, n + 1) : ladder(2 * power, 2 * (n - power) + 1);
    const double depth = c.layers <= 1 ? 0 : static_cast<double>(l) / (static_cast<double>(c.layers - 1) + (factor_plain ? 1e-5 : 0));
    return base * (1 - depth + 1e-5);
  }
  Tensor lightning(const Tensor& h, const std::string& name, int64_t l) const {
    const Tensor q = at::silu(linear(h, name + "query")), k = at::silu(linear(h, name + "key")), v = at::silu(linear(h, name + "value"));
    const Tensor o = by_document_and_head([&](int64_t begin, int64_t count, int64_t n) {
      const auto row = [&](const Tensor& x, int64_t t) { return x[begin + t].narrow(0, n * c.head_dim, c.head_dim); };
      Tensor state = at::zeros({c.head_dim, c.head_dim}, at::kDouble);
      std::vector<Tensor> rows;
      for (int64_t t = 0; t < count; ++t) {
        state = std::exp(-slope(n, l)) * state + at::outer(row(k, t), row(v, t));
        rows.push_back(at::mv(state.t(), row(q, t)));
      }
      return at::stack(rows);
    });
    return linear(at::sigmoid(linear(h, name + "gate")) * rms(o, c.lightning.norm_eps) * weight(name + "norm"), name + "output");
  }

  // HGRN2 (2404.07904) with the bounds of its published code: what the layers up to l have of a softmax over layers, the first one's left out.
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

  // silu of a causal convolution of each channel, whose last tap meets the token itself.
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

  // S_t = (1 − β k kᵀ) diag(λ) S_{t−1} + β k vᵀ (2406.06484, 2412.06464, 2510.26692), the decay of a head, of its channels, or none; each head normed by itself.
  struct DeltaSizes {
    int64_t heads, key_heads, keys, values;
  };
  Tensor delta_rule(const Tensor& h, const std::string& name, const DeltaSizes& sizes, double most, double eps,
                    const Tensor& forget) const {
    const int64_t keys = sizes.keys, values = sizes.values;
    const Tensor q = convolved(linear(h, name + "query"), name + "query_convolution"),
                 k = convolved(linear(h, name + "key"), name + "key_convolution"),
                 v = convolved(linear(h, name + "value"), name + "value_convolution"), beta = most * at::sigmoid(linear(h, name + "write"));
    return by_document_and_head(sizes.heads, [&](int64_t begin, int64_t count, int64_t n) {
      const int64_t width = forget.defined() ? forget.size(1) / sizes.heads : 0, from = n / (sizes.heads / sizes.key_heads) * keys;
      Tensor state = at::zeros({keys, values}, at::kDouble);
      std::vector<Tensor> rows;
      for (int64_t t = begin; t < begin + count; ++t) {
        const auto unit = [&](const Tensor& x) { return x / (x.square().sum() + 1e-6).sqrt(); };
        const Tensor key = unit(k[t].narrow(0, from, keys)),
                     query = unit(q[t].narrow(0, from, keys)) / std::sqrt(static_cast<double>(keys));
        if (forget.defined()) {
          const Tensor step = at::softplus(forget[t].narrow(0, n * width, width) + weight(name + "step").narrow(0, n * width, width));
          state = at::exp(-weight(name + "rate")[n].exp() * step).unsqueeze(1) * state;
        }
        const Tensor wrong = v[t].narrow(0, n * values, values) - at::mv(state.t(), key);
        state = state + beta[t][n] * at::outer(key, wrong);
        rows.push_back(at::mv(state.t(), query));
      }
      return rms(at::stack(rows), eps) * weight(name + "norm");
    });
  }
  Tensor gated_deltanet(const Tensor& h, const std::string& name) const {
    const auto& own = c.gated_deltanet;
    const int64_t heads = own.heads > 0 ? own.heads : c.heads, values = own.head_dim > 0 ? own.head_dim : c.head_dim;
    const DeltaSizes sizes{heads, own.key_heads > 0 ? own.key_heads : heads, own.key_dim > 0 ? own.key_dim : values, values};
    const Tensor o = delta_rule(h, name, sizes, own.negative_eigenvalues ? 2 : 1, own.norm_eps, linear(h, name + "forget"));
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

  // LCSM (2405.17383), entry by entry of the memory, with its public code's types.
  Tensor alibi(int64_t count) const {
    int64_t power = 1;
    while (2 * power <= count) power *= 2;
    std::vector<double> slopes;
    for (int64_t i = 0; i < count; ++i) {
      slopes.push_back(i < power ? std::pow(2.0, -8.0 * static_cast<double>(i + 1) / static_cast<double>(power))
                                 : std::pow(2.0, -8.0 * static_cast<double>(2 * (i - power) + 1) / static_cast<double>(2 * power)));
    }
    return at::tensor(slopes, at::kDouble);
  }
  Tensor lcsm_activated(const Tensor& x) const {
    const Tensor elu = at::where(x.gt(0), x, x.clamp_max(0).expm1());
    const Tensor all[] = {x, x.clamp_min(0), at::sigmoid(x), 1 + elu, x * at::sigmoid(x), elu, x.clamp_min(0).square(), x * x};
    return all[static_cast<size_t>(c.lcsm.activation)];
  }
  // o_t [k, d] of a token; f: of type 12, the logits of its document so far [t, k].
  Tensor lcsm_oscillation(const std::string& name, const Tensor& h, int64_t begin, int64_t t, int64_t d) const {
    using enum recipe::LcsmOscillation;
    const int64_t k = c.lcsm.state;
    const Tensor ones = at::ones({k, d}, at::kDouble), row = h.narrow(0, t, 1);
    const auto of = [&](const char* part) { return linear(row, name + part)[0]; };
    const auto gate = [&](const Tensor& z) {
      return c.lcsm.tau > 0 ? at::pow(at::sigmoid(z), 1 / c.lcsm.tau) : at::exp(-at::sigmoid(z) * alibi(z.size(0)));
    };
    const auto product = [&](const Tensor& z) { return at::pow(at::sigmoid(z * ones), 1 / c.lcsm.tau); };
    const auto fixed = [&](int64_t count) {
      return c.lcsm.tau > 0 ? at::pow(at::sigmoid(weight(name + "oscillation")), 1 / c.lcsm.tau) : at::exp(-alibi(count));
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
        return (1 - lcsm_share(name, h, begin, t)).unsqueeze(1) * ones;
      case kStateSpace: {
        const Tensor step = at::softplus(linear(linear(row, name + "step_down"), name + "forget_value")[0]);
        return at::exp(-step * weight(name + "oscillation").exp());
      }
      default:
        return ones;
    }
  }
  Tensor lcsm_share(const std::string& name, const Tensor& h, int64_t begin, int64_t t) const {
    const Tensor so_far = linear(h.narrow(0, begin, t - begin + 1), name + "forget_key").clamp(-10, 10);
    return so_far.softmax(0)[t - begin];
  }
  Tensor lcsm(const Tensor& h, const std::string& name) const {
    using enum recipe::LcsmOscillation;
    const int64_t k = c.lcsm.state, d = c.heads * c.head_dim;
    const auto source = [&](recipe::LcsmSource from, const char* part, int64_t t) {  // [k, d]
      const Tensor made = from == recipe::LcsmSource::kFixed ? weight(name + part) : linear(h.narrow(0, t, 1), name + part)[0].unsqueeze(1);
      return lcsm_activated(made) * at::ones({k, d}, at::kDouble);
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
          i = i * at::softplus(linear(linear(h.narrow(0, t, 1), name + "step_down"), name + "forget_value")[0]);
        if (c.lcsm.oscillation == kCumulative) e = e * lcsm_share(name, h, document.begin, t).unsqueeze(1);
        if (turns) {
          const Tensor angle = (static_cast<double>(t - document.begin) *
                                at::pow(at::Scalar(10000.0), at::arange(k, at::kDouble) * (-2.0 / static_cast<double>(d))))
                                   .unsqueeze(1);
          e = at::cat({e * angle.cos(), e * angle.sin()});
          s = at::cat({s * angle.cos(), s * angle.sin()});
          memory = memory + e * i;
        } else {
          memory = lcsm_oscillation(name, h, document.begin, t, d) * memory + e * i;
        }
        rows.push_back((s * memory).sum(0));
      }
    }
    const Tensor y = at::stack(rows), centred = y - y.mean(1, true);
    return linear(rms(centred, c.lcsm.norm_eps) * weight(name + "norm") + weight(name + "norm_shift"), name + "output");
  }

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
        return gated_deltanet(h, name);
      case recipe::Mixer::kKda:
        return kda(h, name);
      case recipe::Mixer::kDeltaNet:
        return deltanet(h, name);
      case recipe::Mixer::kLcsm:
        return lcsm(h, name);
      case recipe::Mixer::kMixture:
        return mixture(h, name, l);
      default:
        return PlainLineage(
                   c, [this](const std::string& which) { return weights_.at(which); }, layout_)
            .mixed(mixer, h, name, l);
    }
  }

  Tensor dense(const Tensor& g, const std::string& name) const {
    const Tensor up = linear(g, name + "up");
    if (c.channel == recipe::Channel::kGlu) return linear(linear(g, name + "gate") * up, name + "down");
    if (c.channel == recipe::Channel::kSwiglu) return linear(at::silu(linear(g, name + "gate")) * up, name + "down");
    return linear(0.5 * up * (1 + at::tanh(std::sqrt(2 / M_PI) * (up + 0.044715 * up.pow(3)))), name + "down");
  }

  // Scores, below all others where the expert's group is not among the best, each judged by the sum of its best (2412.19437).
  Tensor allowed(const Tensor& score) const {
    const int64_t size = c.experts / c.router.groups, best = c.experts_per_token / c.router.groups_per_token;
    Tensor out = score.clone();
    for (int64_t t = 0; t < score.size(0) && c.router.groups > 1; ++t) {
      std::vector<std::pair<double, int64_t>> groups;
      for (int64_t i = 0; i < c.router.groups; ++i) {
        const Tensor sorted = std::get<0>(score[t].narrow(0, i * size, size).sort(0, /*descending=*/true));
        groups.emplace_back(-sorted.narrow(0, 0, best).sum().item<double>(), i);
      }
      std::ranges::sort(groups);
      for (size_t i = static_cast<size_t>(c.router.groups_per_token); i < groups.size(); ++i)
        out[t].narrow(0, groups[i].second * size, size).fill_(-1);
    }
    return out;
  }

  Tensor experts(const Tensor& g, const std::string& layer) {
    const Tensor router = at::mm(g, weight(layer + "router").t());
    const bool sigmoid = c.router.score == recipe::RouterScore::kSigmoid;
    const bool root = c.router.score == recipe::RouterScore::kSqrtSoftplus;  // √ log(1 + e^z)
    const Tensor score = sigmoid ? router.sigmoid() : root ? (1 + router.exp()).log().sqrt() : router.softmax(1);
    const Tensor probability = sigmoid || root ? score / score.sum(1, true) : score;
    const Tensor order = allowed(score.detach()).argsort(/*stable=*/true, 1, /*descending=*/true);
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < g.size(0); ++t) {
      Tensor sum = at::zeros({c.hidden}, at::kDouble), all = at::zeros({}, at::kDouble);
      for (int64_t i = 0; i < c.experts_per_token; ++i) {
        const auto e = order[t][i].item<int64_t>();
        const std::string name = layer + "experts." + std::to_string(e) + ".";
        sum = sum + score[t][e] *
                        at::mv(weight(name + "down"), at::silu(at::mv(weight(name + "gate"), g[t])) * at::mv(weight(name + "up"), g[t]));
        all = all + score[t][e];
      }
      sum = c.router.scale * (c.router.normalised ? sum / all : sum);
      if (c.shared_experts > 0) {  // (DeepSeekMoE 2401.06066; its gate Qwen2-MoE's)
        const Tensor shared = at::mv(weight(layer + "shared.down"),
                                     at::silu(at::mv(weight(layer + "shared.gate"), g[t])) * at::mv(weight(layer + "shared.up"), g[t]));
        sum = sum + (c.shared_gate ? shared * at::mv(weight(layer + "shared_gate"), g[t]).sigmoid() : shared);
      }
      rows.push_back(sum);
    }
    auxiliary_ = auxiliary_ + c.z_loss * router.logsumexp(1).square().sum();
    for (size_t r = 0; r + 1 < layout_.row_offsets.size(); ++r) {
      const int64_t begin = layout_.row_offsets[r], tokens = layout_.row_offsets[r + 1] - begin;
      if (c.router.balance_form == recipe::BalanceForm::kHuggingFace) {
        chosen_[r].push_back(at::one_hot(order.narrow(0, begin, tokens).narrow(1, 0, c.experts_per_token), c.experts).to(at::kDouble));
        probability_[r].push_back(probability.narrow(0, begin, tokens));
        continue;
      }
      const bool gshard = c.router.balance_form == recipe::BalanceForm::kGshard;  // 1/E, and shares of the tokens
      const double factor =
          gshard ? static_cast<double>(c.experts_per_token) / static_cast<double>(c.experts) : static_cast<double>(c.experts);
      Tensor balance = at::zeros({}, at::kDouble);
      for (int64_t e = 0; e < c.experts; ++e) {
        double chosen = 0;
        for (int64_t t = begin; t < begin + tokens; ++t) chosen += order[t].narrow(0, 0, c.experts_per_token).eq(e).sum().item<double>();
        balance =
            balance + chosen / static_cast<double>(tokens * c.experts_per_token) * probability.narrow(0, begin, tokens).select(1, e).mean();
      }
      auxiliary_ = auxiliary_ + static_cast<double>(tokens) * factor * c.auxiliary_loss * balance;
    }
    return at::stack(rows);
  }

  // Line by line as transformers' load_balancing_loss_func, given one sequence at a time: all layers' tokens behind each other. Times the tokens.
  Tensor joint_balance() {
    Tensor sum = at::zeros({}, at::kDouble);
    for (const auto& [row, masks] : chosen_) {
      const Tensor expert_mask = at::cat(masks, 0), routing_weights = at::cat(probability_.at(row), 0);
      const Tensor tokens_per_expert = expert_mask.mean(0), router_prob_per_expert = routing_weights.mean(0);
      const Tensor overall = (tokens_per_expert * router_prob_per_expert.unsqueeze(0)).sum();
      sum = sum + c.auxiliary_loss * static_cast<double>(c.experts * masks.front().size(0)) * overall;
    }
    return sum;
  }

  const recipe::ModelConfig c;
  LogicalTensors weights_;
  layout::SequenceLayout layout_;
  Tensor auxiliary_, last_;
  std::map<size_t, std::vector<Tensor>> chosen_, probability_;  // by sequence, of each layer
};

}  // namespace longhaul::testing
