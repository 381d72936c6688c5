// At stage 3 of ZeRO what a step needs first, values outside the layers and the first layer's, is under way before the next batch is made ready, and
// is not gathered again by the forward pass; a layer that comes later is gathered when the one before it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/run_ranks.h"
#include "comm/wrapper.h"
#include "support/models.h"
#include "train/prove_run.h"

namespace longhaul::train {
namespace {

using ::testing::ElementsAre;

// Names of the calls of one rank, in their order.
class NotingNames final : public comm::Wrapper {
 public:
  NotingNames(std::shared_ptr<comm::Communicator> inner, std::vector<std::string>& names) : Wrapper(std::move(inner)), names_(names) {}
  NotingNames(std::shared_ptr<comm::Communicator> inner, std::shared_ptr<const comm::GroupPlace> place, std::vector<std::string>& names)
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

TEST(EarlyValues, OfTheFirstLayerAreUnderWayBeforeTheNextBatch) {
  const ProofSubject subject = subject_of(longhaul::testing::small_config(), {}, proof_layout({.ranks = 2, .zero = 3}), "fp32");
  std::vector<std::vector<std::string>> of_ranks(2);
  comm::run_ranks(2, [&](comm::Communicator& rank) {
    NotingNames world(comm::borrowed(rank), of_ranks[static_cast<size_t>(rank.rank())]);
    prove_rank(subject, world, std::nullopt);
  });
  for (const std::vector<std::string>& names : of_ranks) {
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
    // The first step's come with its forward pass. Between the last sum of a step and the next step they are there early.
    for (const size_t step : {1U, 2U}) {
      size_t last = begins[step] - 1;
      while (!names[last].starts_with("values of ")) --last;
      size_t first = last;
      while (first > 0 && names[first - 1].starts_with("values of ")) --first;
      EXPECT_THAT(values_between(first, begins[step]),
                  ElementsAre("values of outside the layers over dp-cp", "values of outside the layers over dp-cp-tp, wide",
                              "values of layers.0 over dp-cp-tp, wide", "values of layers.0 over dp-cp"));
      const size_t end = step == 1 ? begins[2] : names.size();
      const std::vector<std::string> passes = values_between(begins[step], end);
      ASSERT_FALSE(passes.empty());
      EXPECT_EQ(passes.front(), "values of layers.1 over dp-cp-tp, wide") << "the first layer's are not gathered twice";
      EXPECT_EQ(std::ranges::count(passes, "values of layers.2 over dp-cp"), 4) << "two micro-batches, both ways";
    }
  }
}

}  // namespace
}  // namespace longhaul::train
