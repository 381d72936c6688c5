// A decoder in plain fp64 ATen, written from the published definitions alone: MiniMax-01 (arXiv 2501.08313)
// for the post-norm wiring, SwiGLU (2002.05202), GPT-2's GeLU and learned positions, Toeplitz positions
// (2406.16690), multi-token prediction; its mixers and experts are in the neighbouring files. It shares
// with src/model only the names and shapes of logical tensors.
#pragma once

#include <algorithm>
#include <cmath>

#include "support/plain_experts.h"
#include "support/plain_mixers.h"
#include "support/plain_parts.h"

namespace longhaul::testing {

// A decoder for one list of documents.
class PlainDecoder : PlainParts {
 public:
  PlainDecoder(const recipe::ModelConfig& config, LogicalTensors weights, layout::SequenceLayout layout)
      : PlainParts(config, std::move(weights), std::move(layout)) {}

  struct Result {
    Tensor logits_tv, loss, auxiliary;  // sums over tokens
  };
  // Rows from outside, [hidden], in the place of the embedding's; by token.
  std::map<int64_t, Tensor> outside;

  Result run(const Tensor& ids, const Tensor& labels) {
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < ids.size(0); ++t) rows.push_back(looked_up(ids, t));
    Tensor x = at::stack(rows);
    if (c.position == recipe::Position::kLearned) x = x + weight("position").index_select(0, positions());
    if (c.toeplitz > 0) x = toeplitz(x);
    for (int64_t l = 0; l < c.layers; ++l) x = layer(x, "layers." + std::to_string(l) + ".", l);
    last_ = norm(x, "norm", c.norm_eps);
    const Tensor logits = logits_of(last_);
    return {logits, loss_of(logits, labels), experts_.auxiliary()};
  }

  // Multi-token prediction (DeepSeek-V3, 2412.19437 §2.2), after run() on the same tokens: Σ over modules
  // of the loss of the token after the one that each module is given, times its share of the weight.
  // Auxiliary losses of the modules' experts are added to those of run() and returned together.
  Result predictions(const Tensor& ids, const Tensor& labels) {
    Tensor h = last_, loss = at::zeros({}, at::kDouble);
    for (int64_t k = 1; k <= c.predict_ahead; ++k) {
      const std::string name = "ahead." + std::to_string(k - 1) + ".";
      std::vector<Tensor> tokens, targets;
      for (int64_t t = 0; t < ids.size(0); ++t) {
        const bool there = t + k < layout_.document(layout_.document_of(t)).end();
        tokens.push_back(there ? looked_up(ids, t + k) : at::zeros({c.hidden}, at::kDouble));
        targets.push_back(there ? labels[t + k] : at::full({}, -1, at::kLong));
      }
      const Tensor both = at::cat({norm(h, name + "hidden_norm", c.norm_eps),
                                   norm(at::stack(tokens), name + "token_norm", c.norm_eps)},
                                  1);
      h = norm(layer(linear(both, name + "join"), name, c.layers - 1), name + "norm", c.norm_eps);
      loss = loss + c.predict_ahead_weight / static_cast<double>(c.predict_ahead) *
                        loss_of(logits_of(h), at::stack(targets));
    }
    return {Tensor(), loss, experts_.auxiliary()};
  }

 private:
  Tensor looked_up(const Tensor& ids, int64_t t) const {
    const auto found = outside.find(t);
    return found != outside.end() ? found->second : weight("embedding")[ids[t].item<int64_t>()];
  }
  // y_t = Σ_{s ≤ t} κ(t − s) ⊙ x_s within a document, κ_c(τ) = Σ_j B_cj e^{−τ e^{r_j}}: a matrix of all pairs
  // for each channel (2406.16690).
  Tensor toeplitz(const Tensor& x) const {
    if (!c.lightnet.grid.empty()) return toeplitz_on_grid(x);
    const Tensor at = positions().to(at::kDouble), apart = at.unsqueeze(1) - at.unsqueeze(0);
    std::vector<int64_t> documents;
    for (int64_t t = 0; t < x.size(0); ++t) documents.push_back(layout_.document_of(t));
    const Tensor document = at::tensor(documents);
    const Tensor seen = document.unsqueeze(1).eq(document.unsqueeze(0)).logical_and(apart.ge(0));
    // [t, s, e]
    const Tensor powers = (apart.clamp_min(0).unsqueeze(2) * weight("toeplitz.rate").exp().neg()).exp();
    // [t, s, c]
    const Tensor kernel = at::matmul(powers, weight("toeplitz.coefficient").t()) * seen.unsqueeze(2);
    return (kernel * x.unsqueeze(0)).sum(1);
  }
  // MD-TPE (2405.21022): such a sum along each axis of a document's grid, over the tokens that differ in that
  // coordinate alone.
  Tensor toeplitz_on_grid(const Tensor& x) const {
    const std::vector<int64_t>& grid = c.lightnet.grid;
    const auto axes = static_cast<int64_t>(grid.size());
    const auto place = [&](int64_t t) {  // coordinates, or none
      std::vector<int64_t> at(grid.size());
      int64_t rest = positions()[t].item<int64_t>() - 1;
      if (rest < 0) return std::vector<int64_t>();
      for (size_t a = grid.size(); a-- > 0; rest /= grid[a]) at[a] = rest % grid[a];
      return rest > 0 ? std::vector<int64_t>() : at;
    };
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < x.size(0); ++t) {
      const std::vector<int64_t> here = place(t);
      Tensor row = here.empty() ? x[t] : at::zeros_like(x[t]);
      for (int64_t s = 0; s < x.size(0) && !here.empty(); ++s) {
        const std::vector<int64_t> there = place(s);
        if (there.empty() || layout_.document_of(s) != layout_.document_of(t)) continue;
        for (int64_t a = 0; a < axes; ++a) {
          std::vector<int64_t> moved = there;
          const auto axis = static_cast<size_t>(a);
          moved[axis] = here[axis];
          if (moved != here || there[axis] > here[axis]) continue;
          const double apart = static_cast<double>(here[axis] - there[axis]);
          for (int64_t j = a; j < axes * c.toeplitz; j += axes)
            row = row + weight("toeplitz.coefficient").select(1, j) *
                            (weight("toeplitz.rate")[j].exp() * -apart).exp() * x[s];
        }
      }
      rows.push_back(row);
    }
    return at::stack(rows);
  }
  Tensor logits_of(const Tensor& h) const {
    const double width =
        c.mup_base_hidden > 0 ? static_cast<double>(c.hidden) / static_cast<double>(c.mup_base_hidden) : 1;
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
  // Layer l of the model, or a layer of the same form under another name.
  Tensor layer(Tensor x, const std::string& layer, int64_t l) {
    const bool post = c.wiring == recipe::Wiring::kPostNorm;
    const double alpha = c.alpha > 0 ? c.alpha
                         : post      ? std::pow(2.0 * static_cast<double>(c.layers), 0.25)
                                     : 1,
                 beta = c.beta;
    const double channel_alpha = c.channel_alpha > 0 ? c.channel_alpha : alpha,
                 channel_beta = c.channel_beta > 0 ? c.channel_beta : beta;
    const auto or_else = [](double own, double common) { return own > 0 ? own : common; };
    const bool all_dense = c.experts == 0 || std::ranges::find(c.dense_layers, l) != c.dense_layers.end();
    const auto channel = [&](const Tensor& g) {
      return all_dense ? dense(g, layer + "channel.") : experts_.channel(g, layer);
    };
    const Tensor h = norm(x, layer + "mixer_norm", c.norm_eps);
    const Tensor m = mixers_.mixed(c.mixer(l), h, layer + "mixer.", l);
    if (c.wiring == recipe::Wiring::kParallel) return x + m + channel(h);
    const bool soft = c.mixer(l) == recipe::Mixer::kSoftmax, light = c.mixer(l) == recipe::Mixer::kLightning;
    const double a = or_else(soft ? c.softmax.alpha : light ? c.lightning.alpha : 0, alpha);
    const double b = or_else(soft ? c.softmax.beta : light ? c.lightning.beta : 0, beta);
    x = a * (post ? h : x) + b * m;
    if (c.channel == recipe::Channel::kNone) return x;
    const Tensor g = norm(x, layer + "channel_norm", c.norm_eps);
    return channel_alpha * (post ? g : x) + channel_beta * channel(g);
  }

  Tensor dense(const Tensor& g, const std::string& name) const {
    const Tensor up = linear(g, name + "up");
    if (c.channel == recipe::Channel::kGlu) return linear(linear(g, name + "gate") * up, name + "down");
    if (c.channel == recipe::Channel::kSwiglu)
      return linear(at::silu(linear(g, name + "gate")) * up, name + "down");
    return linear(0.5 * up * (1 + at::tanh(std::sqrt(2 / M_PI) * (up + 0.044715 * up.pow(3)))),
                  name + "down");
  }

  PlainMixers mixers_{*this};
  PlainExperts experts_{*this};
  Tensor last_;
};

}  // namespace longhaul::testing
