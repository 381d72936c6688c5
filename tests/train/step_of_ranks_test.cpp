// A step that one rank has to skip is skipped by all.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <thread>

#include "comm/threads/run_ranks.h"
#include "comm/wrappers/wrapper.h"
#include "model/decoder.h"
#include "support/models.h"
#include "train/step.h"

// ctest: label=full timeout=300

namespace longhaul::train {
namespace {

// Two replicas; the second one's loss is not a number in step 2.
class NanOnOneRank final : public Task {
 public:
  explicit NanOnOneRank(const parallel::Ranks& ranks)
      : ranks_(ranks),
        decoder_(longhaul::testing::small_config(), Precision::named("fp32"), at::kCPU, model::Use::kTraining,
                 ranks.place()) {
    decoder_.parameters().initialise(1);
  }
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  StepWork prepare(int64_t step) override {
    step_ = step;
    return {.micro_batches = 1, .weight = 8, .tokens = 8};
  }
  Tensor forward(model::Context& context, int64_t, const Tensor&) override {
    if (before_loss) before_loss();
    const Tensor ids = at::arange(8, at::kLong).add(ranks_.place().rank);
    const Tensor loss = decoder_.loss(context, decoder_.hidden(context, ids, layout::make_single(8)), ids);
    return step_ == 2 && ranks_.place().rank == 1 ? loss * std::nan("") : loss;
  }

  std::function<void()> before_loss;

 private:
  const parallel::Ranks& ranks_;
  model::Decoder decoder_;
  int64_t step_ = 0;
};

struct ThreeSteps {
  std::vector<bool> skipped;
  std::vector<double> losses, weights;
  std::vector<Tensor> values;  // of every parameter, after them
};

std::vector<ThreeSteps> three_steps(int64_t zero) {
  std::vector<ThreeSteps> seen(2);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    parallel::Ranks ranks(world, {.mesh = {2, {}}, .zero = zero});
    ThreeSteps& own = seen[static_cast<size_t>(world.rank())];
    NanOnOneRank task(ranks);
    const auto optimizer = optim::make_optimizer({}, task.parameters(), task.precision());
    for (int64_t step = 1; step <= 3; ++step) {
      const StepResult result = run_step(task, *optimizer, ranks, step, {.lr = 0.01});
      own.skipped.push_back(result.skipped.has_value());
      own.losses.push_back(result.loss);
      own.weights.push_back(result.work.weight);
    }
    EXPECT_EQ(optimizer->steps(), 2);
    if (parallel::Sharding* sharding = ranks.sharding_of(task.parameters())) sharding->gather_values();
    for (const auto& parameter : task.parameters().all())
      own.values.push_back(parameter->value.detach().clone());
  });
  return seen;
}

// At every stage of ZeRO; without clipping they give the same bits.
TEST(StepOfRanks, IsSkippedEverywhereOrNowhere) {
  const std::vector<ThreeSteps> copies = three_steps(0);
  for (const int64_t zero : {0, 1, 2, 3}) {
    for (const ThreeSteps& rank : zero == 0 ? copies : three_steps(zero)) {
      EXPECT_EQ(rank.skipped, (std::vector<bool>{false, true, false})) << zero;
      EXPECT_EQ(rank.losses[0], copies[0].losses[0]) << zero;
      EXPECT_EQ(rank.losses[2], copies[0].losses[2]) << zero;
      EXPECT_EQ(rank.weights, (std::vector<double>{16, 16, 16})) << "the labels of both replicas";
      ASSERT_EQ(rank.values.size(), copies[0].values.size());
      for (size_t i = 0; i < rank.values.size(); ++i)
        EXPECT_TRUE(rank.values[i].equal(copies[0].values[i])) << i << " diverged, zero " << zero;
    }
  }
}

// Says when a call of this name is entered.
class SignallingCalls final : public comm::Wrapper {
 public:
  SignallingCalls(std::shared_ptr<comm::Communicator> inner, std::string name, std::atomic<bool>& entered)
      : Wrapper(std::move(inner)), name_(std::move(name)), entered_(entered) {}
  SignallingCalls(std::shared_ptr<comm::Communicator> inner, std::shared_ptr<const comm::GroupPlace> place,
                  std::string name, std::atomic<bool>& entered)
      : Wrapper(std::move(inner), std::move(place)), name_(std::move(name)), entered_(entered) {}
  comm::Work start(comm::Call call) override {
    if (call.options.name == name_) entered_ = true;
    return inner().start(std::move(call));
  }

 private:
  std::unique_ptr<comm::Communicator> around(std::shared_ptr<comm::Communicator> group,
                                             std::shared_ptr<const comm::GroupPlace> place) const override {
    return std::make_unique<SignallingCalls>(std::move(group), std::move(place), name_, entered_);
  }
  std::string name_;
  std::atomic<bool>& entered_;
};

// One rank comes to the first call of all only when the other one is in it: they came apart, and both say by
// how much.
TEST(StepOfRanks, TellsHowFarApartRanksCameBehindTheirPasses) {
  std::vector<std::optional<double>> skews(2), unasked(2);
  std::atomic<bool> first_is_there = false;
  comm::run_ranks(2, [&](comm::Communicator& rank) {
    SignallingCalls signalling(comm::borrowed(rank), "metrics", first_is_there);
    comm::Communicator& world = rank.rank() == 0 ? static_cast<comm::Communicator&>(signalling) : rank;
    parallel::Ranks ranks(world, {.mesh = {2, {}}});
    NanOnOneRank task(ranks);
    const auto optimizer = optim::make_optimizer({}, task.parameters(), task.precision());
    task.before_loss = [&] {
      while (rank.rank() == 1 && !first_is_there) std::this_thread::yield();
    };
    const auto of_rank = static_cast<size_t>(rank.rank());
    skews[of_rank] = run_step(task, *optimizer, ranks, 1, {.lr = 0.01, .measure_entry = true}).entry_skew_s;
    task.before_loss = {};
    unasked[of_rank] = run_step(task, *optimizer, ranks, 3, {.lr = 0.01}).entry_skew_s;
  });
  ASSERT_TRUE(skews[0] && skews[1]);
  EXPECT_EQ(*skews[0], *skews[1]);
  EXPECT_GT(*skews[0], 0);
  EXPECT_EQ(unasked, (std::vector<std::optional<double>>{std::nullopt, std::nullopt}));
}

}  // namespace
}  // namespace longhaul::train
