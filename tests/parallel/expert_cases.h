// What the tests of experts on ranks share: random choices, experts that are plain loops, and the mixture of
// one process in fp64.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "comm/threads/run_ranks.h"
#include "model/parallel_ops.h"
#include "parallel/experts/expert_dispatch.h"
#include "tensor/random_fill.h"

namespace longhaul::parallel::testing {

inline constexpr int64_t kHidden = 6, kInner = 5, kExperts = 4, kChoices = 2;

inline Tensor drawn(const std::string& name, std::vector<int64_t> sizes) {
  Tensor x = at::empty(sizes, at::kDouble);
  fill_normal(x, RandomStream(7, name), 1.0, sizes, layout::Rectangle::whole(sizes));
  return x;
}

// Tokens of one rank and where they go. skew: all of them to the first experts.
struct Tokens {
  Tensor hidden_td, choice_tk, weight_tk;
  bool every = true;
};

inline Tokens tokens_of(int64_t rank, int64_t count, bool skew, bool drop) {
  const std::string name = "tokens of " + std::to_string(rank);
  Tokens tokens{drawn(name, {count, kHidden}), at::empty({count, kChoices}, at::kLong),
                drawn(name + "/weights", {count, kChoices}), !drop};
  const RandomStream stream(7, name + "/choices");
  for (int64_t t = 0; t < count; ++t) {
    const auto first = static_cast<int64_t>(stream.below(static_cast<uint64_t>(2 * t), kExperts));
    const auto second = static_cast<int64_t>(stream.below(static_cast<uint64_t>(2 * t + 1), kExperts - 1));
    tokens.choice_tk[t][0] = skew ? 0 : first;
    tokens.choice_tk[t][1] = skew ? 1 : (first + 1 + second) % kExperts;
    if (drop && t % 3 == 1) tokens.choice_tk[t][t % 2] = -1;
  }
  return tokens;
}

// Each token to all experts, in an order of its own.
inline Tokens tokens_of_all_experts(int64_t rank, int64_t count) {
  Tokens tokens = tokens_of(rank, count, false, false);
  tokens.weight_tk = drawn("weights of all experts " + std::to_string(rank), {count, kExperts});
  tokens.choice_tk = at::arange(kExperts).add(at::arange(count).unsqueeze(1)).remainder(kExperts);
  return tokens;
}

// Expert e: y = tanh(x upᵀ) downᵀ, with inner channels [begin, end) only: summed over the parts of the
// channels it is the whole.
struct Weights {
  Tensor up_ecd = drawn("up", {kExperts, kInner, kHidden}),
         down_edc = drawn("down", {kExperts, kHidden, kInner});
};

inline Tensor expert(const Tensor& x, const Tensor& up, const Tensor& down) {
  return x.matmul(up.t()).tanh().matmul(down.t());
}

// Σ_k weight · expert(x), token by token.
inline Tensor plain_mixture(const Tokens& tokens, const Tensor& up, const Tensor& down) {
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < tokens.hidden_td.size(0); ++t) {
    Tensor sum = at::zeros({kHidden}, at::kDouble);
    for (int64_t k = 0; k < tokens.choice_tk.size(1); ++k) {
      const int64_t e = tokens.choice_tk[t][k].item<int64_t>();
      if (e >= 0)
        sum = sum +
              tokens.weight_tk[t][k] * expert(tokens.hidden_td[t].unsqueeze(0), up[e], down[e]).squeeze(0);
    }
    rows.push_back(sum);
  }
  return rows.empty() ? tokens.hidden_td.clone() : at::stack(rows);
}

struct ExpertCase {
  std::string name;
  int64_t world = 1;
  layout::MeshShape shape;
  recipe::ExpertOptions options{};
  std::vector<int64_t> tokens{};  // of each rank; empty: 5, 6, …
  bool skew = false, drop = false, all_experts = false;
  Tokens of(int64_t rank) const {
    return all_experts ? tokens_of_all_experts(rank, tokens_of(rank))
                       : testing::tokens_of(rank, tokens_of(rank), skew, drop);
  }
  int64_t most_tokens() const {
    int64_t most = 0;
    for (int64_t rank = 0; rank < world; ++rank) most = std::max(most, tokens_of(rank));
    return most;
  }
  int64_t tokens_of(int64_t rank) const {
    return tokens.empty() ? 5 + rank % 4 : tokens[static_cast<size_t>(rank)];
  }
};

}  // namespace longhaul::parallel::testing
