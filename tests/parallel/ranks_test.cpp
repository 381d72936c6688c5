// What ranks agree on, and gradients that come in several passes of a step, where shares of them have copies.
#include "parallel/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/traced.h"
#include "layout/parameters.h"
#include "model/arena.h"
#include "parallel/pipeline/stage_gradients.h"

namespace longhaul::parallel::ranks_test {
namespace {

// Of two workers, which are islands by themselves: what is said of the run goes over both.
TEST(Ranks, TheMostIsThatOfAllWorkers) {
  comm::run_ranks(4, [](comm::Communicator& world) {
    const Ranks ranks(world, {.mesh = {2, {}}, .workers = 2});
    EXPECT_EQ(ranks.workers(), 2);
    EXPECT_EQ(ranks.most(10 + world.rank()), 13);
    EXPECT_EQ(ranks.most(-world.rank()), 0);
    EXPECT_EQ(ranks.sum_of_run(1 + static_cast<double>(world.rank()), "numbers"), 10);
    EXPECT_EQ(ranks.sum(1 + static_cast<double>(world.rank()), "numbers"), world.rank() < 2 ? 3 : 7)
        << "of a worker";
  });
}

constexpr int64_t kMatrixRows = 8, kMatrixColumns = 3;

Tensor gradient_of(int64_t layer, int64_t rank, int64_t pass) {
  return at::arange(kMatrixRows * kMatrixColumns, at::kFloat)
      .view({kMatrixRows, kMatrixColumns})
      .add(static_cast<double>(1000 * layer + 100 * rank + 10 * pass));
}

// Four ranks in two groups that each have all shares; two layers, three backward passes: every share is the
// sum over ranks and passes.
TEST(Ranks, SharesWithCopiesAddUpOverThePassesOfAStep) {
  for (const int64_t copies : {1, 2}) {
    for (const int64_t zero : {2, 3}) {
      comm::run_ranks(4, [&](comm::Communicator& world) {
        Ranks ranks(world, {.mesh = {4, {.copies = copies}}, .zero = zero});
        std::vector<layout::ParameterSpec> specs;
        for (const int64_t layer : {0, 1}) {
          layout::ParameterSpec& spec = specs.emplace_back();
          spec.tensor = {
              "layers." + std::to_string(layer), {kMatrixRows, kMatrixColumns}, layout::Role::kChannelUp};
          spec.layer = layer;
        }
        model::ParameterSet set(specs, Precision::named("fp32"), at::kCPU, model::Use::kTraining,
                                ranks.place());
        for (const auto& spec : specs) set.add_stacked(spec.tensor.name, {spec.tensor.name});
        set.allocate();
        Sharding& sharding = *ranks.sharding_of(set);
        const at::NoGradGuard no_gradient;
        ranks.begin_step(set, 3);
        for (int64_t pass = 0; pass < 3; ++pass) {
          for (int64_t layer = 1; layer >= 0; --layer) {
            model::Parameter& parameter = *set.all()[static_cast<size_t>(layer)];
            sharding.before_backward(layer);
            parameter.flow.before_product();
            parameter.grad.add_(gradient_of(layer, world.rank(), pass));
            sharding.after_backward(layer);
          }
        }
        ranks.sum_gradients(set);
        double own = 0;
        for (const auto& parameter : set.all()) own += static_cast<double>(parameter->own.length);
        EXPECT_EQ(ranks.sum(own, "shares"), 2 * kMatrixRows * kMatrixColumns * copies)
            << "each group has all shares";
        for (int64_t layer = 0; layer < 2; ++layer) {
          Tensor expected = at::zeros({kMatrixRows, kMatrixColumns});
          for (int64_t rank = 0; rank < 4; ++rank) {
            for (int64_t pass = 0; pass < 3; ++pass) expected.add_(gradient_of(layer, rank, pass));
          }
          const model::Parameter& parameter = *set.all()[static_cast<size_t>(layer)];
          EXPECT_TRUE(parameter.own_grad.equal(
              expected.view(-1).narrow(0, parameter.own.begin, parameter.own.length)))
              << "layer " << layer << ", zero " << zero << ", " << copies << " copies";
        }
      });
    }
  }
}

// Tensors on two or all of three stages, which ranks hold in another order, in messages of any length: each
// element is the sum in the order of ranks.
TEST(StageGradients, AreSummedInTheOrderOfRanks) {
  struct Shared {
    std::string name;
    int64_t rows;
    std::vector<int64_t> ranks;
  };
  const std::vector<Shared> all = {
      {"a", 3, {0, 2}}, {"b", 5, {0, 1, 2}}, {"c", 1, {0, 2}}, {"d", 2, {0, 1, 2}}, {"own", 4, {1}}};
  const auto value = [](const std::string& name, int64_t rank, int64_t element) {
    constexpr float kLarge = 1 << 24;  // that swallows a one, but not two ones together
    return rank == 0 ? kLarge
                     : static_cast<float>(rank == 1 ? 1 : 1 + element % 2) +
                           static_cast<float>(name == "a" ? element : 0);
  };
  for (const int64_t message_bytes : {int64_t{4}, int64_t{28}, kStageMessageBytes}) {
    comm::run_ranks(3, [&](comm::Communicator& world) {
      std::vector<layout::ParameterSpec> specs;
      for (const Shared& each : all) {
        if (std::ranges::find(each.ranks, world.rank()) == each.ranks.end()) continue;
        layout::ParameterSpec& spec = specs.emplace_back();
        spec.tensor = {each.name, {each.rows, 2}, layout::Role::kChannelUp};
        spec.pipeline_ranks = each.ranks;
      }
      if (world.rank() == 2) std::ranges::reverse(specs);
      model::ParameterSet set(specs, Precision::named("fp32"), at::kCPU, model::Use::kTraining, {});
      for (const auto& spec : specs) set.add_stacked(spec.tensor.name, {spec.tensor.name});
      set.allocate();
      for (const auto& parameter : set.all()) {
        for (int64_t e = 0; e < parameter->grad.numel(); ++e)
          parameter->own_grad.mutable_data_ptr<float>()[e] = value(parameter->name, world.rank(), e);
      }
      StageSums sums(world, set, message_bytes);
      // What becomes final on the way, in another order on each rank, changes no bit.
      for (size_t i = 0; i < set.arenas().size(); ++i) {
        sums.advance();
        if (world.rank() < 2)
          sums.complete(*set.arenas()[world.rank() == 0 ? i : set.arenas().size() - 1 - i]);
      }
      sums.finish();
      for (const auto& parameter : set.all()) {
        const std::vector<int64_t>& ranks = parameter->parts[0].spec.pipeline_ranks;
        for (int64_t e = 0; e < parameter->grad.numel(); ++e) {
          float expected = value(parameter->name, ranks[0], e);
          for (size_t i = 1; i < ranks.size(); ++i) expected += value(parameter->name, ranks[i], e);
          EXPECT_EQ(parameter->own_grad.const_data_ptr<float>()[e], expected)
              << parameter->name << " " << e << ", messages of " << message_bytes;
        }
      }
    });
  }
}

// Of two ranks that share three layers. The exchange of the last layer begins as soon as it is final; that of
// another one waits for those of later layers, and none for the end of the step.
TEST(StageGradients, GoAsSoonAsThoseOfLaterLayersWent) {
  comm::run_ranks(2, [&](comm::Communicator& thread) {
    std::vector<layout::ParameterSpec> specs;
    for (const int64_t layer : {0, 1, 2}) {
      layout::ParameterSpec& spec = specs.emplace_back();
      spec.tensor = {fmt::format("layers.{}", layer), {layer + 1, 2}, layout::Role::kChannelUp};
      spec.layer = layer;
      spec.pipeline_ranks = {0, 1};
    }
    model::ParameterSet set(specs, Precision::named("fp32"), at::kCPU, model::Use::kTraining, {});
    for (const auto& spec : specs) set.add_stacked(spec.tensor.name, {spec.tensor.name});
    set.allocate();
    for (const auto& parameter : set.all()) parameter->own_grad.fill_(1);
    const auto log = std::make_shared<comm::CallLog>(thread.rank());
    comm::Traced world(comm::borrowed(thread), log);
    StageSums sums(world, set);
    const auto begun_after = [&](size_t layer) {
      sums.complete(*set.arenas()[layer]);
      sums.advance();
      return log->records().calls.size();
    };
    sums.advance();
    EXPECT_EQ(log->records().calls.size(), 0U) << "nothing is final";
    EXPECT_EQ(begun_after(0), 0U) << "the last layer goes first";
    EXPECT_EQ(begun_after(2), 1U);
    EXPECT_GE(begun_after(1), 2U);
    sums.finish();
    EXPECT_EQ(log->records().calls.size(), 3U);
    for (const auto& parameter : set.all())
      EXPECT_TRUE(parameter->own_grad.eq(2).all().item<bool>()) << parameter->name;
  });
}

}  // namespace
}  // namespace longhaul::parallel::ranks_test
