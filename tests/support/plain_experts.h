// Routed experts in plain fp64 ATen, token by token: softmax and sigmoid routers, groups (2412.19437),
// shared experts, and the published forms of the balance loss.
#pragma once

#include <algorithm>
#include <cmath>

#include "support/plain_parts.h"

namespace longhaul::testing {

class PlainExperts : PlainParts {
 public:
  explicit PlainExperts(const PlainParts& parts) : PlainParts(parts) {}

  Tensor channel(const Tensor& g, const std::string& layer) {
    const Tensor router = at::mm(g, weight(layer + "router").t());
    const bool sigmoid = c.router.score == recipe::RouterScore::kSigmoid;
    const bool root = c.router.score == recipe::RouterScore::kSqrtSoftplus;  // √ log(1 + e^z)
    const Tensor score = sigmoid ? router.sigmoid()
                         : root  ? (1 + router.exp()).log().sqrt()
                                 : router.softmax(1);
    const Tensor probability = sigmoid || root ? score / score.sum(1, true) : score;
    const Tensor order = allowed(score.detach()).argsort(/*stable=*/true, 1, /*descending=*/true);
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < g.size(0); ++t) {
      Tensor sum = at::zeros({c.hidden}, at::kDouble), all = at::zeros({}, at::kDouble);
      for (int64_t i = 0; i < c.experts_per_token; ++i) {
        const auto e = order[t][i].item<int64_t>();
        const std::string name = layer + "experts." + std::to_string(e) + ".";
        sum =
            sum + score[t][e] * at::mv(weight(name + "down"), at::silu(at::mv(weight(name + "gate"), g[t])) *
                                                                  at::mv(weight(name + "up"), g[t]));
        all = all + score[t][e];
      }
      sum = c.router.scale * (c.router.normalised ? sum / all : sum);
      if (c.shared_experts > 0) {  // (DeepSeekMoE 2401.06066; its gate Qwen2-MoE's)
        const Tensor shared =
            at::mv(weight(layer + "shared.down"), at::silu(at::mv(weight(layer + "shared.gate"), g[t])) *
                                                      at::mv(weight(layer + "shared.up"), g[t]));
        sum = sum + (c.shared_gate ? shared * at::mv(weight(layer + "shared_gate"), g[t]).sigmoid() : shared);
      }
      rows.push_back(sum);
    }
    auxiliary_ = auxiliary_ + c.z_loss * router.logsumexp(1).square().sum();
    for (size_t r = 0; r + 1 < layout_.row_offsets.size(); ++r) {
      const int64_t begin = layout_.row_offsets[r], tokens = layout_.row_offsets[r + 1] - begin;
      if (c.router.balance_form == recipe::BalanceForm::kHuggingFace) {
        chosen_[r].push_back(
            at::one_hot(order.narrow(0, begin, tokens).narrow(1, 0, c.experts_per_token), c.experts)
                .to(at::kDouble));
        probability_[r].push_back(probability.narrow(0, begin, tokens));
        continue;
      }
      // 1/E, and shares of the tokens
      const bool gshard = c.router.balance_form == recipe::BalanceForm::kGshard;
      const double factor = gshard ? static_cast<double>(c.experts_per_token) / static_cast<double>(c.experts)
                                   : static_cast<double>(c.experts);
      Tensor balance = at::zeros({}, at::kDouble);
      for (int64_t e = 0; e < c.experts; ++e) {
        double chosen = 0;
        for (int64_t t = begin; t < begin + tokens; ++t)
          chosen += order[t].narrow(0, 0, c.experts_per_token).eq(e).sum().item<double>();
        balance = balance + chosen / static_cast<double>(tokens * c.experts_per_token) *
                                probability.narrow(0, begin, tokens).select(1, e).mean();
      }
      auxiliary_ = auxiliary_ + static_cast<double>(tokens) * factor * c.auxiliary_loss * balance;
    }
    return at::stack(rows);
  }
  // The auxiliary losses of all layers so far, summed over tokens.
  Tensor auxiliary() const {
    return c.router.balance_form == recipe::BalanceForm::kHuggingFace ? auxiliary_ + joint_balance()
                                                                      : auxiliary_;
  }

 private:
  // The scores, lowered below all others if the expert's group is not among the best; a group is ranked by
  // the sum of its best scores (2412.19437).
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

  // The same as transformers' load_balancing_loss_func, line by line, for one sequence at a time: the
  // tokens of all layers are concatenated. Multiplied by the number of tokens.
  Tensor joint_balance() const {
    Tensor sum = at::zeros({}, at::kDouble);
    for (const auto& [row, masks] : chosen_) {
      const Tensor expert_mask = at::cat(masks, 0), routing_weights = at::cat(probability_.at(row), 0);
      const Tensor tokens_per_expert = expert_mask.mean(0), router_prob_per_expert = routing_weights.mean(0);
      const Tensor overall = (tokens_per_expert * router_prob_per_expert.unsqueeze(0)).sum();
      sum = sum + c.auxiliary_loss * static_cast<double>(c.experts * masks.front().size(0)) * overall;
    }
    return sum;
  }

  Tensor auxiliary_ = at::zeros({}, at::kDouble);
  std::map<size_t, std::vector<Tensor>> chosen_, probability_;  // by sequence, a tensor for each layer
};

}  // namespace longhaul::testing
