// At stage 3 of ZeRO what a step needs first, values outside the layers and the first layer's, is under way
// before the next batch is made ready, and is not gathered again by the forward pass; a layer that comes
// later is gathered when the one before it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/wrapper.h"
#include "prove/prove_run.h"
#include "support/models.h"

namespace longhaul::prove {
namespace {

using ::testing::ElementsAre;

// Names of the calls of one rank, in their order.
class NotingNames final : public comm::Wrapper {
 public:
  NotingNames(std::shared_ptr<comm::Communicator> inner, std::vector<std::string>& names)
      : Wrapper(std::move(inner)), names_(names) {}
  NotingNames(std::shared_ptr<comm::Communicator> inner, std::shared_ptr<const comm::GroupPlace> place,
              std::vector<std::string>& names)
      : Wrapper(std::move(inner), std::move(place)), names_(names) {}
  comm::Work start(comm::Call call) override {
    names_.push_back(call.options.name);
    return inner().start(std::move(call));
  }

 private:
  std::unique_ptr<comm::Communicator> around(std::shared_ptr<comm::Communicator> group,
                                             std::shared_ptr<const comm::GroupPlace> place) const override {
    return std::make_unique<NotingNames>(std::move(group), std::move(place), names_);
  }
  std::vector<std::string>& names_;
};

// Of each rank, in three steps.
std::vector<std::vector<std::string>> calls_of(const recipe::ModelConfig& config, const ProofLayout& layout) {
  const ProofSubject subject = subject_of(config, {}, layout, "fp32");
  std::vector<std::vector<std::string>> of_ranks(static_cast<size_t>(layout.parallel.world()));
  comm::run_ranks(layout.parallel.world(), [&](comm::Communicator& rank) {
    NotingNames world(comm::borrowed(rank), of_ranks[static_cast<size_t>(rank.rank())]);
    prove_rank(subject, world, std::nullopt);
  });
  return of_ranks;
}

TEST(EarlyValues, OfTheFirstLayerAreUnderWayBeforeTheNextBatch) {
  for (const std::vector<std::string>& names :
       calls_of(longhaul::testing::small_config(), proof_layout({.ranks = 2, .zero = 3}))) {
    // A step's first call says how much weight its batch has.
    std::vector<size_t> begins;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "weight of the step" && (i == 0 || names[i - 1] != names[i])) begins.push_back(i);
    }
    ASSERT_EQ(begins.size(), 3U);
    const auto values_between = [&](size_t from, size_t to) {
      std::vector<std::string> values;
      for (size_t i = from; i < to; ++i) {
        if (names[i].starts_with("values of ")) values.push_back(names[i]);
      }
      return values;
    };
    // The first step's come with its forward pass. Between the last sum of a step and the next step they are
    // there early.
    for (const size_t step : {1U, 2U}) {
      size_t last = begins[step] - 1;
      while (!names[last].starts_with("values of ")) --last;
      size_t first = last;
      while (first > 0 && names[first - 1].starts_with("values of ")) --first;
      EXPECT_THAT(values_between(first, begins[step]),
                  ElementsAre("values of outside the layers over dp-cp",
                              "values of outside the layers over dp-cp-tp, wide",
                              "values of layers.0 over dp-cp-tp, wide", "values of layers.0 over dp-cp"));
      const size_t end = step == 1 ? begins[2] : names.size();
      const std::vector<std::string> passes = values_between(begins[step], end);
      ASSERT_FALSE(passes.empty());
      EXPECT_EQ(passes.front(), "values of layers.1 over dp-cp-tp, wide")
          << "the first layer's are not gathered twice";
      EXPECT_EQ(std::ranges::count(passes, "values of layers.2 over dp-cp"), 4)
          << "two micro-batches, both ways";
    }
  }
}

// With DualPipe every layer lies on two ranks, and all ranks sum later layers first. So the sums of the last
// stage begin while gradients are still to come: of the outside at least, and on the first rank, whose own
// last pass is the first stage's, before it has sent its last gradient.
TEST(EarlySums, OfStagesBeginDuringTheBackwardPasses) {
  const recipe::ParallelOptions parallel{.pp = 2,
                                         .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}};
  const auto of_ranks = calls_of(longhaul::testing::small_config(), proof_layout(parallel));
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::vector<std::string>& names = of_ranks[rank];
    const std::string later = rank == 0 ? "gradient of micro-batch" : "gradients of outside the layers";
    int64_t steps = 0;
    for (auto begin = names.begin(); begin != names.end();) {
      const auto end = std::find(begin + 1, names.end(), "weight of the step");
      const auto first_sum = std::find(begin, end, "gradients that stages share");
      const auto later_gradient =
          std::find_if(first_sum, end, [&](const std::string& name) { return name.starts_with(later); });
      steps += later_gradient != end ? 1 : 0;
      begin = end;
    }
    EXPECT_EQ(steps, 3) << "rank " << rank;
  }
}

int64_t count_of(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::count(names, name);
}

// A layer that is recomputed at stage 3 has its weights gathered once for its second forward pass and its
// backward pass together.
TEST(Recomputed, LayersGatherTheirWeightsAsOftenAsOthers) {
  for (const auto& [pp, ranks] : {std::pair<int64_t, int64_t>{1, 2}, {2, 4}}) {
    const recipe::ParallelOptions parallel{.ranks = ranks, .pp = pp, .zero = 3};
    const auto once = calls_of(longhaul::testing::small_config(), proof_layout(parallel)),
               again = calls_of(longhaul::testing::small_config(),
                                proof_layout(parallel, true, recipe::Recompute::kFull));
    for (size_t rank = 0; rank < once.size(); ++rank) {
      for (const std::string layer : {"layers.0", "layers.1", "layers.2"}) {
        const std::string name = "values of " + layer + " over dp-cp";
        EXPECT_EQ(count_of(again[rank], name), count_of(once[rank], name))
            << name << " on rank " << rank << ", pp " << pp;
      }
    }
    EXPECT_GT(count_of(once[0], "values of layers.0 over dp-cp"), 0);
  }
}

// Softmax attention finds its result: keys and values come for the backward pass, as without recomputation,
// and not for the second forward pass.
TEST(Recomputed, KeysAndValuesAreNotAskedForAgain) {
  using enum recipe::ContextMethod;
  recipe::ModelConfig config = longhaul::testing::small_config();
  config.mixers = {recipe::Mixer::kSoftmax};
  for (const auto& [method, names] :
       {std::pair<recipe::ContextMethod, std::vector<std::string>>{kAllGather,
                                                                   {"keys", "values", "keys (backward)"}},
        {kRing, {"keys and values of the ring", "keys and values of the ring (backward)"}}}) {
    const recipe::ParallelOptions parallel{.cp = 2, .context = {.softmax = method}};
    const auto once = calls_of(config, proof_layout(parallel)),
               again = calls_of(config, proof_layout(parallel, true, recipe::Recompute::kFull));
    for (size_t rank = 0; rank < once.size(); ++rank) {
      for (const std::string& name : names) {
        EXPECT_GT(count_of(once[rank], name), 0) << name;
        EXPECT_EQ(count_of(again[rank], name), count_of(once[rank], name)) << name << " on rank " << rank;
      }
    }
  }
}

// What of a recurrence crosses context ranks does not grow with the row: it is kept, and the second forward
// pass asks nobody. The gathered states of delta rules are too many.
TEST(Recomputed, StatesOfRecurrencesAreSentOnce) {
  using enum recipe::LinearContextMethod;
  recipe::ModelConfig config = longhaul::testing::small_config();
  config.layers = 4;
  config.mixers = {recipe::Mixer::kLightning, recipe::Mixer::kMamba2, recipe::Mixer::kHgrn,
                   recipe::Mixer::kKda};
  for (const auto method : {kAllGather, kRing, kAllScan}) {
    const recipe::ParallelOptions parallel{.cp = 2, .context = {.linear = method}};
    const auto once = calls_of(config, proof_layout(parallel)),
               again = calls_of(config, proof_layout(parallel, true, recipe::Recompute::kFull));
    for (size_t rank = 0; rank < once.size(); ++rank) {
      for (const std::string name :
           {"states of the recurrence", "inputs of the short convolution", "sums of a scan"}) {
        EXPECT_GT(count_of(once[rank], name), 0) << name;
        EXPECT_EQ(count_of(again[rank], name), count_of(once[rank], name)) << name << " on rank " << rank;
      }
      const std::string folds = "states of the delta rule";
      EXPECT_EQ(count_of(again[rank], folds), 2 * count_of(once[rank], folds))
          << "a second forward pass is seen here";
    }
  }
}

}  // namespace
}  // namespace longhaul::prove
