// The tree of gradients by hand: random gradients of micro-batches on ranks of every kind, beside the
// recursion written down in fp32, bit for bit.
#include "parallel/gradient_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "comm/threads/run_ranks.h"
#include "parallel/ranks.h"

namespace longhaul::parallel {
namespace {

using layout::Axis;

constexpr int64_t kTreeRows = 13, kColumns = 5, kVector = 7;

layout::ParameterSpec spec_of(const std::string& name, layout::Shape shape, int64_t layer) {
  layout::ParameterSpec spec;
  spec.tensor = {name, std::move(shape), layout::Role::kChannelUp};
  spec.layer = layer;
  return spec;
}

// Of one micro-batch, on rank `inner` of its replica: values whose sums round.
float gradient_of(const std::string& name, int64_t micro_batch, int64_t inner, int64_t element) {
  const RandomStream stream(7, name + std::to_string(micro_batch) + "/" + std::to_string(inner));
  return static_cast<float>(
      std::ldexp(stream.uniform(static_cast<uint64_t>(element)) - 0.5, static_cast<int>(element % 9)));
}

float sum_by_hand(const std::string& name, int64_t first, int64_t count, int64_t inner, int64_t element) {
  if (count == 1) return gradient_of(name, first, inner, element);
  int64_t left = 1;
  while (2 * left < count) left *= 2;
  return sum_by_hand(name, first, left, inner, element) +
         sum_by_hand(name, first + left, count - left, inner, element);
}

struct Layout {
  int64_t replicas, context_ranks, zero;
};

void expect_sums(int64_t micro_batches, const Layout& layout) {
  const int64_t world = layout.replicas * layout.context_ranks;
  comm::run_ranks(world, [&](comm::Communicator& communicator) {
    Ranks ranks(communicator,
                {.mesh = {world, {.cp = layout.context_ranks}}, .zero = layout.zero, .elastic = true});
    model::ParameterSet set({spec_of("matrix", {kTreeRows, kColumns}, 0), spec_of("vector", {kVector}, 1)},
                            Precision::named("fp32"), at::kCPU, model::Use::kTraining, ranks.place());
    set.add_stacked("matrix", {"matrix"});
    set.add_stacked("vector", {"vector"});
    set.allocate();
    const int64_t own = micro_batches / layout.replicas, inner = ranks.place().coordinate(Axis::kCp),
                  first = ranks.place().coordinate(Axis::kDp) * own;
    ranks.begin_step(set, own);
    for (int64_t i = 0; i < own; ++i) {
      for (const auto& parameter : set.all()) {
        float* const to = parameter->grad.mutable_data_ptr<float>();
        for (int64_t e = 0; e < parameter->grad.numel(); ++e)
          to[e] += gradient_of(parameter->name, first + i, inner, e);
      }
      ranks.tree()->end_micro_batch();
    }
    ranks.sum_gradients(set);
    for (const auto& parameter : set.all()) {
      const Tensor own_grad = parameter->own_grad;
      for (int64_t e = 0; e < own_grad.numel(); ++e) {
        const int64_t element = parameter->own.begin + e;
        float expected = sum_by_hand(parameter->name, 0, micro_batches, 0, element);
        for (int64_t rank = 1; rank < layout.context_ranks; ++rank)
          expected += sum_by_hand(parameter->name, 0, micro_batches, rank, element);
        EXPECT_EQ(own_grad.const_data_ptr<float>()[e], expected)
            << parameter->name << " element " << element << ", " << micro_batches << " micro-batches on "
            << layout.replicas << " x " << layout.context_ranks << " ranks, zero " << layout.zero;
      }
    }
    const std::vector<double> sums =
        ranks.tree()->sums_of({std::vector<double>(static_cast<size_t>(own), 0.5), {}}, "numbers");
    EXPECT_EQ(sums,
              (std::vector<double>{0.5 * static_cast<double>(micro_batches * layout.context_ranks), 0}));
    EXPECT_EQ(ranks.tree()->sum_of_rounds({1, 2}, "rounds"), 3.0 * static_cast<double>(world));
  });
}

// 10¹⁶ takes a lone one in and gives none back, two together it keeps: the order of a sum shows in its value.
constexpr double kMuch = 1e16;

// A number of each rank of one replica: added in the order of its stages, then context ranks, then tensor
// ranks.
TEST(GradientTree, NumbersOfAReplicaAreAddedInTheOrderOfItsRanks) {
  const std::vector<double> of_ranks = {kMuch, 1, 1, -kMuch};
  for (const layout::MeshShape& sizes :
       {layout::MeshShape{.pp = 2, .cp = 2}, layout::MeshShape{.cp = 2, .tp = 2},
        layout::MeshShape{.pp = 2, .tp = 2}}) {
    comm::run_ranks(4, [&](comm::Communicator& world) {
      const layout::Mesh mesh(4, sizes);
      const MeshGroups groups(world, mesh);
      const layout::MeshRank place{.mesh = mesh, .rank = world.rank()};
      const GradientTree tree(place, &groups);
      const int64_t within =
          (place.coordinate(Axis::kPp) * sizes.cp + place.coordinate(Axis::kCp)) * sizes.tp +
          place.coordinate(Axis::kTp);
      EXPECT_EQ(tree.sums_of({{of_ranks[static_cast<size_t>(within)]}}, "numbers"), std::vector<double>{0});
    });
  }
}

// Rounds go to replicas in turns and are added in the order of rounds, however many replicas there are: (10¹⁶
// + 1) + (−10¹⁶ + 1) = 0. In the order of two replicas it would be (10¹⁶ − 10¹⁶) + (1 + 1).
TEST(GradientTree, RoundsAreAddedInTheirOrder) {
  const std::vector<double> rounds = {kMuch, 1, -kMuch, 1};
  for (const int64_t replicas : {1, 2, 4}) {
    comm::run_ranks(replicas, [&](comm::Communicator& world) {
      const layout::Mesh mesh(replicas, {});
      const MeshGroups groups(world, mesh);
      const GradientTree tree({.mesh = mesh, .rank = world.rank()}, &groups);
      std::vector<double> own;
      for (size_t round = static_cast<size_t>(world.rank()); round < rounds.size();
           round += static_cast<size_t>(replicas))
        own.push_back(rounds[round]);
      EXPECT_EQ(tree.sum_of_rounds(own, "rounds"), 0) << replicas << " replicas";
    });
  }
}

TEST(GradientTree, IsTheTreeOnAnyRanks) {
  for (const int64_t micro_batches : {1, 2, 4, 6, 8, 12, 15}) {
    for (int64_t replicas = 1; replicas <= std::min<int64_t>(micro_batches, 6); ++replicas) {
      if (micro_batches % replicas != 0) continue;
      for (const int64_t zero : {0, 1, 2}) {
        expect_sums(micro_batches, {replicas, 1, zero});
        if (replicas <= 3) expect_sums(micro_batches, {replicas, 2, zero});
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::parallel
