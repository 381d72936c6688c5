// Capacity against lists made by hand for every sequence and expert; what a capacity that suffices changes:
// nothing; a router's bias.
#include "model/experts/expert_capacity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/random.h"
#include "model/experts/router_bias.h"

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

using Rooms = std::function<size_t(size_t part, int64_t expert)>;

// For each expert of a part: its choices, those kept first in front, and as many of them as there is room
// for.
Tensor by_hand(const Routed& of, const std::vector<int64_t>& rows, const Rooms& rooms, bool by_weight) {
  Tensor kept = of.choice_tk.clone();
  for (size_t s = 0; s + 1 < rows.size(); ++s) {
    for (int64_t e = 0; e < kExpertCount; ++e) {
      const size_t room = rooms(s, e);
      std::vector<std::tuple<double, int64_t, int64_t>> wishes;  // −weight or nothing, token, choice
      for (int64_t t = rows[s]; t < rows[s + 1]; ++t) {
        for (int64_t k = 0; k < kPerToken; ++k) {
          if (of.choice_tk[t][k].item<int64_t>() == e)
            wishes.emplace_back(by_weight ? -of.weight_tk[t][k].item<double>() : 0.0, t, k);
        }
      }
      std::ranges::sort(wishes);
      for (size_t i = room; i < wishes.size(); ++i) kept[std::get<1>(wishes[i])][std::get<2>(wishes[i])] = -1;
    }
  }
  return kept;
}

Tensor by_hand(const Routed& of, const std::vector<int64_t>& rows, double factor, bool by_weight) {
  const auto room = [&](size_t s, int64_t) {
    return static_cast<size_t>(
        std::ceil(factor * static_cast<double>(kPerToken * (rows[s + 1] - rows[s])) / kExpertCount));
  };
  return by_hand(of, rows, room, by_weight);
}

layout::SequenceLayout in_rows(const std::vector<int64_t>& rows) {
  std::vector<int64_t> documents;
  for (size_t s = 1; s < rows.size(); ++s) documents.push_back(rows[s] - rows[s - 1]);
  layout::SequenceLayout layout = layout::make_packed(documents);
  layout.row_offsets = rows;
  return layout;
}

int64_t dropped(const Tensor& choice) { return choice.eq(-1).sum().item<int64_t>(); }

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
        const KeptChoices kept =
            within_capacity(of.choice_tk, of.weight_tk, kExpertCount, options, layout, ops);
        const Tensor expected = by_hand(of, rows, factor, dropped == recipe::Dropped::kLeast);
        EXPECT_TRUE(kept.choice_tk.equal(expected)) << factor << "\n" << kept.choice_tk << expected;
        EXPECT_DOUBLE_EQ(kept.dropped_share.item<double>(),
                         expected.eq(-1).to(at::kDouble).mean().item<double>());
        if (factor == 2.5) {
          EXPECT_TRUE(kept.choice_tk.equal(of.choice_tk)) << "E / k leaves room for all";
        }
      }
    }
  }
}

// Thirteen tokens in parts of 5, 4 and 4, eight in 3, 3 and 2, one in a single one.
TEST(ExpertCapacity, OfPartsIsThatOfSoManySequences) {
  LocalOps ops;
  const std::vector<int64_t> rows = {0, 13, 21, 22}, parts = {0, 5, 9, 13, 16, 19, 21, 22};
  const Routed of = routed(22, 5);
  for (const double factor : {0.5, 1.0, 1.5}) {
    for (const auto dropped_first : {recipe::Dropped::kLeast, recipe::Dropped::kLast}) {
      const recipe::RouterOptions options{
          .capacity_factor = factor, .dropped = dropped_first, .capacity_parts = 3};
      const KeptChoices kept =
          within_capacity(of.choice_tk, of.weight_tk, kExpertCount, options, in_rows(rows), ops);
      EXPECT_TRUE(kept.choice_tk.equal(by_hand(of, parts, factor, dropped_first == recipe::Dropped::kLeast)))
          << factor;
      EXPECT_EQ(kept.most_tokens, 22);
    }
  }
}

TEST(ExpertCapacity, QuotasShareWhatThereIsRoomFor) {
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(quotas(Numbers{3, 0, 4}, 7), (Numbers{3, 0, 4}));
  // ⌊8·2/12⌋ = 1 and ⌊8·10/12⌋ = 6; one is left, the first has more
  EXPECT_EQ(quotas(Numbers{2, 10}, 8), (Numbers{2, 6}));
  EXPECT_EQ(quotas(Numbers{1, 1, 1, 9}, 6), (Numbers{1, 1, 0, 4}));  // 0, 0, 0, 4 and two further
  EXPECT_EQ(quotas(Numbers{0, 5, 5}, 0), (Numbers{0, 0, 0}));
  EXPECT_EQ(quotas(Numbers{}, 3), Numbers{});
  EXPECT_EQ(quotas(Numbers{int64_t{1} << 40, int64_t{1} << 40}, (int64_t{1} << 40) + 1),
            (Numbers{(int64_t{1} << 39) + 1, int64_t{1} << 39}));
}

// Each keeps what it has room for, 4; of 3 + 0 + 1 left, ⌊4·5/6⌋ = 3 and ⌊4·1/6⌋ = 0 go to those with 5 and 1
// more, and the last one to the first of them.
TEST(ExpertCapacity, LentQuotasBeginWithOnesOwn) {
  using Numbers = std::vector<int64_t>;
  EXPECT_EQ(lent_quotas(Numbers{1, 9, 5, 3}, 4), (Numbers{1, 8, 4, 3}));
  EXPECT_EQ(lent_quotas(Numbers{4, 4}, 4), (Numbers{4, 4}));
  EXPECT_EQ(lent_quotas(Numbers{0, 30}, 4), (Numbers{0, 8}));
  EXPECT_EQ(lent_quotas(Numbers{6, 9}, 4), (Numbers{4, 4})) << "nothing is left to lend";
  EXPECT_EQ(quotas(Numbers{1, 9, 5, 3}, 16), (Numbers{1, 9, 4, 2}))
      << "by shares of all: 0, 8, 4, 2 and two further";
  EXPECT_EQ(quotas(Numbers{4, 40}, 8), (Numbers{1, 7}))
      << "by shares, a sequence may lose what it had room for";
  EXPECT_EQ(lent_quotas(Numbers{4, 40}, 4), (Numbers{4, 4}));
}

Tensor wanted(const Routed& of, const std::vector<int64_t>& rows) {
  const Tensor counts = at::zeros({std::ssize(rows) - 1, kExpertCount}, at::kLong);
  for (size_t s = 0; s + 1 < rows.size(); ++s) {
    for (int64_t e = 0; e < kExpertCount; ++e)
      counts[static_cast<int64_t>(s)][e] =
          of.choice_tk.slice(0, rows[s], rows[s + 1]).eq(e).sum().item<int64_t>();
  }
  return counts;
}

TEST(ExpertCapacity, OfTheBatchGivesEachSequenceItsQuota) {
  LocalOps ops;
  const std::vector<int64_t> rows = {0, 10, 20, 35, 35, 48, 60};
  const Routed of = routed(60, 1);
  const Tensor by_expert = wanted(of, rows).t().contiguous();
  for (const double factor : {0.5, 1.0, 1.5, 2.5}) {
    const recipe::RouterOptions of_batch{.capacity_factor = factor,
                                         .capacity_of = recipe::CapacityOf::kBatch};
    const KeptChoices kept =
        within_capacity(of.choice_tk, of.weight_tk, kExpertCount, of_batch, in_rows(rows), ops);
    const auto room = static_cast<int64_t>(std::ceil(factor * kPerToken * 60 / kExpertCount));
    const auto quota = [&](size_t s, int64_t e) {
      return static_cast<size_t>(quotas({by_expert.const_data_ptr<int64_t>() + 6 * e, 6}, room)[s]);
    };
    EXPECT_TRUE(kept.choice_tk.equal(by_hand(of, rows, quota, true))) << factor;
    if (factor == 2.5) {
      EXPECT_TRUE(kept.choice_tk.equal(of.choice_tk)) << "E / k leaves room for all";
    }
  }
}

// Room that one sequence leaves is another's, so no more is dropped; and where nothing overflows, nothing is,
// either way.
TEST(ExpertCapacity, OfTheBatchDropsNoMoreThanOfEachSequence) {
  LocalOps ops;
  // 2 · 10 choices a sequence, 5 experts: no rooms are rounded at these factors
  const std::vector<int64_t> rows = {0, 10, 20, 30, 40};
  int64_t fewer = 0;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Routed of = routed(40, seed);
    for (const double factor : {0.5, 1.0, 1.5, 2.0}) {
      recipe::RouterOptions options{.capacity_factor = factor};
      const int64_t each = dropped(
          within_capacity(of.choice_tk, of.weight_tk, kExpertCount, options, in_rows(rows), ops).choice_tk);
      options.capacity_of = recipe::CapacityOf::kBatch;
      const int64_t together = dropped(
          within_capacity(of.choice_tk, of.weight_tk, kExpertCount, options, in_rows(rows), ops).choice_tk);
      EXPECT_LE(together, each);
      EXPECT_EQ(together > 0,
                wanted(of, rows).sum(0).gt(static_cast<int64_t>(factor * 16)).any().item<bool>());
      fewer += together < each ? 1 : 0;
    }
  }
  EXPECT_GT(fewer, 10);
}

// Lent: as many as of the batch are kept of every expert, and no sequence drops what it would keep by itself.
TEST(ExpertCapacity, LentKeepsAsManyAndNobodyLoses) {
  LocalOps ops;
  const std::vector<int64_t> rows = {0, 10, 20, 30, 40};  // no rooms are rounded
  int64_t others = 0;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const Routed of = routed(40, seed);
    for (const double factor : {0.5, 1.0, 1.5, 2.0}) {
      const auto kept = [&](recipe::CapacityOf capacity_of) {
        const recipe::RouterOptions options{.capacity_factor = factor, .capacity_of = capacity_of};
        return within_capacity(of.choice_tk, of.weight_tk, kExpertCount, options, in_rows(rows), ops)
            .choice_tk;
      };
      const Tensor alone = kept(recipe::CapacityOf::kSequence), batch = kept(recipe::CapacityOf::kBatch),
                   lent = kept(recipe::CapacityOf::kLent);
      EXPECT_TRUE(lent.eq(alone).logical_or(alone.eq(-1)).all().item<bool>()) << "kept alone, kept lent";
      for (int64_t e = 0; e < kExpertCount; ++e)
        EXPECT_EQ(lent.eq(e).sum().item<int64_t>(), batch.eq(e).sum().item<int64_t>());
      EXPECT_TRUE(dropped(alone) > 0 || lent.equal(alone)) << "nothing overflows";
      const Tensor by_expert = wanted(of, rows).t().contiguous();
      const auto quota = [&](size_t s, int64_t e) {
        return static_cast<size_t>(lent_quotas({by_expert.const_data_ptr<int64_t>() + 4 * e, 4},
                                               static_cast<int64_t>(factor * 4))[s]);
      };
      EXPECT_TRUE(lent.equal(by_hand(of, rows, quota, true))) << factor;
      others += lent.equal(batch) ? 0 : 1;
    }
  }
  EXPECT_GT(others, 10) << "another precedence than by shares";
}

TEST(RouterBias, MovesTowardsExpertsWithFewerChoices) {
  layout::ParameterSpec spec;
  spec.tensor = {"layers.0.router.bias", {4}, layout::Role::kRouter};
  spec.trainable = false;
  ParameterSet parameters({spec}, Precision::named("fp32"), at::kCPU);
  const Parameter& bias = parameters.add_stacked("layers.0.router.bias", {"layers.0.router.bias"});
  parameters.allocate();
  const uint64_t version = bias.version;
  // mean 3
  move_router_biases(parameters, {{"layers.0.router.bias", at::tensor({5, 3, 0, 4}, at::kLong)}}, 0.5);
  EXPECT_TRUE(bias.value.detach().equal(at::tensor({-0.5, 0.0, 0.5, -0.5}, at::kFloat)));
  EXPECT_GT(bias.version, version);
  EXPECT_FALSE(bias.trainable());
}

}  // namespace
}  // namespace longhaul::model
