// ctest: label=full timeout=600
// Runs whose optimizer keeps its states in bf16 or in 8 bits: any number of replicas and every share of them
// gives the same bits, a run that was stopped goes on bit for bit, and a thousand steps come as low as with
// fp32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "checkpoint/run_difference.h"
#include "observe/events/event_comparison.h"
#include "observe/events/event_log.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

class NarrowStateRuns : public RunFixture {
 protected:
  NarrowStateRuns() {
    write_text([](int i) { return 20 + i % 7; });
  }
  void train(const std::string& name, const Settings& more) const {
    Settings all = tiny_run(folder_.path());
    for (const char* own : {"train.dtype=bf16", "train.batch=8", "train.micro_batch=2", "train.steps=4",
                            "train.checkpoint_every=2", "train.checkpoint_keep=0", "train.evaluate_every=0",
                            "optim.state_least=1", "optim.state_block=16"})
      all.emplace_back(own);
    all.insert(all.end(), more.begin(), more.end());
    run_training({.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .quiet = true});
  }
  void expect_equal(const std::string& name, const std::string& reference) const {
    const observe::Comparison events = observe::compare(folder_ / reference, folder_ / name);
    EXPECT_EQ(events.steps_in_both, 4) << name;
    EXPECT_TRUE(events.equal()) << name << "\n" << events.text();
    const auto checkpoints = checkpoint::compare_runs(folder_ / reference, folder_ / name, 0);
    EXPECT_EQ(checkpoints.equal_steps, (std::vector<int64_t>{2, 4})) << name;
    EXPECT_EQ(checkpoints.step, std::nullopt) << name << ": " << checkpoints.difference.tensors.front().name;
  }
  // The mean of the last steps' losses.
  double loss_of(const std::string& name, int64_t last) const {
    double sum = 0;
    const std::vector<double> steps = losses(name);
    for (int64_t i = 0; i < last; ++i) sum += steps[steps.size() - 1 - static_cast<size_t>(i)];
    return sum / static_cast<double>(last);
  }
};

TEST_F(NarrowStateRuns, AnyReplicasAndSharesGiveTheSameBits) {
  for (const std::string dtype : {"bfloat16", "int8"}) {
    const Settings same = {"optim.state_dtype=" + dtype, "train.elastic=true"};
    train(dtype, same);
    for (const Settings& layout :
         {Settings{"parallel.ranks=2"}, Settings{"parallel.ranks=4", "parallel.zero=1"},
          Settings{"parallel.ranks=2", "parallel.zero=3"}}) {
      Settings all = same;
      all.insert(all.end(), layout.begin(), layout.end());
      const std::string name = dtype + " " + layout.front().substr(9) + layout.back().substr(9);
      train(name, all);
      expect_equal(name, dtype);
    }
  }
}

TEST_F(NarrowStateRuns, GoOnBitForBit) {
  for (const std::string optimizer : {"adamw", "lamb", "lion", "sgd", "came"}) {
    for (const std::string dtype : {"bfloat16", "int8"}) {
      const Settings same = {"optim.state_dtype=" + dtype, "optim.name=" + optimizer};
      const std::string whole = optimizer + dtype, stopped = whole + " stopped";
      train(whole, same);
      Settings first = same;
      first.emplace_back("train.steps=2");
      train(stopped, first);
      train(stopped, same);
      expect_equal(stopped, whole);
    }
  }
}

TEST_F(NarrowStateRuns, AThousandStepsComeAsLowAsWithFp32) {
  const Settings longer = {"train.steps=1000",       "train.checkpoint_every=0", "train.batch=2",
                           "train.evaluate_every=0", "model.hidden=32",          "optim.lr=3e-3",
                           "optim.schedule=cosine",  "optim.state_block=256"};
  const auto loss = [&](const std::string& dtype) {
    Settings all = longer;
    all.push_back("optim.state_dtype=" + dtype);
    train("long " + dtype, all);
    return loss_of("long " + dtype, 100);
  };
  const double wide = loss("float32");
  EXPECT_LT(wide, 1.0) << "it has learned";
  for (const char* dtype : {"int8", "bfloat16"}) {
    const double narrow = loss(dtype);
    RecordProperty(dtype, std::to_string(narrow / wide));
    EXPECT_NEAR(narrow, wide, 0.01 * wide) << dtype;
  }
}

TEST_F(NarrowStateRuns, ImpossibleOnesAreRefused) {
  const auto refused = [&](const std::string& name, const Settings& more, const auto& matcher) {
    try {
      train(name, more);
      ADD_FAILURE() << "trained";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), matcher);
    }
  };
  refused("fp64", {"optim.state_dtype=int8", "train.dtype=fp64"},
          AllOf(HasSubstr("optim.state_dtype = int8"), HasSubstr("fp64")));
  refused("cut", {"optim.state_dtype=int8", "parallel.tp=2", "parallel.ranks=2"},
          AllOf(HasSubstr("blocks"), HasSubstr("optim.state_block")));
  train("changes", {"optim.state_dtype=int8"});
  refused("changes", {"optim.state_dtype=bfloat16", "train.steps=6"},
          AllOf(HasSubstr("optim.state_dtype"), HasSubstr("fresh_states")));
  train("changes", {"optim.state_dtype=bfloat16", "train.steps=6", "optim.fresh_states=true"});
}

}  // namespace
}  // namespace longhaul::run
