// Capacity against lists made by hand for every sequence and expert; what a capacity that suffices changes: nothing; a router's bias.
#include "model/expert_capacity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "model/router_bias.h"

namespace longhaul::model {
namespace {

constexpr int64_t kExpertCount = 5, kPerToken = 2;

struct Routed {
  Tensor choice_tk, weight_tk;
};

// Weights with many equals; the first expert is everybody's darling.
Routed routed(int64_t tokens, uint64_t seed) {
  const RandomStream stream(seed, "capacity");
  Routed result{at::empty({tokens, kPerToken}, at::kLong), at::empty({tokens, kPerToken}, at::kDouble)};
  for (int64_t t = 0; t < tokens; ++t) {
    const auto draw = [&](int64_t i, uint64_t below) {
      return static_cast<int64_t>(stream.below(static_cast<uint64_t>(4 * t + i), below));
    };
    const int64_t first = draw(0, 3) > 0 ? 0 : draw(1, kExpertCount);
    result.choice_tk[t][0] = first;
    result.choice_tk[t][1] = (first + 1 + draw(2, kExpertCount - 1)) % kExpertCount;
    result.weight_tk[t][0] = 0.25 * static_cast<double>(1 + draw(3, 3));
    result.weight_tk[t][1] = 1 - result.weight_tk[t][0].item<double>();
  }
  return result;
}

// For each expert of a sequence: its choices, those kept first in front, and the first C of them.
Tensor by_hand(const Routed& of, const std::vector<int64_t>& rows, double factor, bool by_weight) {
  Tensor kept = of.choice_tk.clone();
  for (size_t s = 0; s + 1 < rows.size(); ++s) {
    const auto room = static_cast<size_t>(std::ceil(factor * static_cast<double>(kPerToken * (rows[s + 1] - rows[s])) / kExpertCount));
    for (int64_t e = 0; e < kExpertCount; ++e) {
      std::vector<std::tuple<double, int64_t, int64_t>> wishes;  // −weight or nothing, token, choice
      for (int64_t t = rows[s]; t < rows[s + 1]; ++t) {
        for (int64_t k = 0; k < kPerToken; ++k) {
          if (of.choice_tk[t][k].item<int64_t>() == e) wishes.emplace_back(by_weight ? -of.weight_tk[t][k].item<double>() : 0.0, t, k);
        }
      }
      std::ranges::sort(wishes);
      for (size_t i = room; i < wishes.size(); ++i) kept[std::get<1>(wishes[i])][std::get<2>(wishes[i])] = -1;
    }
  }
  return kept;
}

TEST(ExpertCapacity, KeepsWhatListsByHandKeep) {
  LocalOps ops;
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{0, 13}, {0, 7, 8, 8, 29}, {0, 1}}) {
    layout::SequenceLayout layout = layout::make_packed(std::vector<int64_t>{rows.back()});
    if (rows.size() > 2) {
      std::vector<int64_t> documents;
      for (size_t s = 1; s < rows.size(); ++s) documents.push_back(rows[s] - rows[s - 1]);
      layout = layout::make_packed(documents);
      layout.row_offsets = rows;
    }
    const Routed of = routed(rows.back(), static_cast<uint64_t>(rows.size()));
    for (const double factor : {0.3, 1.0, 1.5, 2.5}) {
      for (const auto dropped : {recipe::Dropped::kLeast, recipe::Dropped::kLast}) {
        const recipe::RouterOptions options{.capacity_factor = factor, .dropped = dropped};
        const KeptChoices kept = within_capacity(of.choice_tk, of.weight_tk, kExpertCount, options, layout, ops);
        const Tensor expected = by_hand(of, rows, factor, dropped == recipe::Dropped::kLeast);
        EXPECT_TRUE(kept.choice_tk.equal(expected)) << factor << "\n" << kept.choice_tk << expected;
        EXPECT_DOUBLE_EQ(kept.dropped_share.item<double>(), expected.eq(-1).to(at::kDouble).mean().item<double>());
        if (factor == 2.5) {
          EXPECT_TRUE(kept.choice_tk.equal(of.choice_tk)) << "E / k leaves room for all";
        }
      }
    }
  }
}

TEST(RouterBias, MovesTowardsExpertsWithFewerChoices) {
  layout::ParameterSpec spec;
  spec.tensor = {"layers.0.router.bias", {4}, layout::Role::kRouter};
  spec.trainable = false;
  ParameterSet parameters({spec}, Precision::named("fp32"), at::kCPU);
  const Parameter& bias = parameters.add_stacked("layers.0.router.bias", {"layers.0.router.bias"});
  parameters.allocate();
  const uint64_t version = bias.version;
  move_router_biases(parameters, {{"layers.0.router.bias", at::tensor({5, 3, 0, 4}, at::kLong)}}, 0.5);  // mean 3
  EXPECT_TRUE(bias.value.detach().equal(at::tensor({-0.5, 0.0, 0.5, -0.5}, at::kFloat)));
  EXPECT_GT(bias.version, version);
  EXPECT_FALSE(bias.trainable());
}

}  // namespace
}  // namespace longhaul::model
