// ctest: label=full timeout=600
// Whole runs with an outer loop: islands of ranks do what single ranks do, at every stage of ZeRO; stopped
// within a round and continued to the bit, with sums on their way; with another number of workers; with fresh
// states; and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "checkpoint/run_difference.h"
#include "observe/events/event_log.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "run/tiny_run.h"
#include "storage/catalog.h"
#include "support/nightly.h"

namespace longhaul::run {
namespace {

using ::testing::HasSubstr;
using Settings = std::vector<std::string>;

class OuterRuns : public RunFixture {
 protected:
  OuterRuns() {
    write_text([](int i) { return 1 + i % 7; });
  }
  train::Outcome train(const std::string& name, const Settings& more) const {
    Settings all = tiny_run(folder_.path());
    for (const char* own : {"train.dtype=fp64", "train.batch=8", "train.micro_batch=1", "train.steps=8",
                            "train.checkpoint_every=1", "train.checkpoint_keep=0", "optim.eps=1e-3",
                            "optim.outer=co2", "optim.outer_every=3"})
      all.emplace_back(own);
    all.insert(all.end(), more.begin(), more.end());
    return run_training(
        {.recipe = recipe::load_defaults(all), .run_folder = folder_ / name, .from = from, .quiet = true});
  }
  void expect_same(const std::string& run, const std::string& reference, double bound) const {
    const auto steps = events<observe::StepReport>(run), expected = events<observe::StepReport>(reference);
    ASSERT_EQ(steps.size(), expected.size()) << run;
    for (size_t s = 0; s < steps.size(); ++s) {
      EXPECT_NEAR(steps[s].loss, expected[s].loss, bound * expected[s].loss) << run << " step " << s + 1;
      EXPECT_EQ(steps[s].tokens, expected[s].tokens) << run;
    }
    const auto rounds = events<observe::OuterRound>(run), others = events<observe::OuterRound>(reference);
    ASSERT_EQ(rounds.size(), others.size()) << run;
    for (size_t r = 0; r < rounds.size(); ++r) {
      EXPECT_NEAR(rounds[r].gap, others[r].gap, bound * others[r].gap) << run << " round " << r;
      EXPECT_NEAR(rounds[r].movement, others[r].movement, bound * others[r].movement)
          << run << " round " << r;
      EXPECT_NEAR(rounds[r].momentum_norm, others[r].momentum_norm, bound * others[r].momentum_norm)
          << run << " round " << r;
      if (others[r].loss) {
        EXPECT_NEAR(*rounds[r].loss, *others[r].loss, bound * *others[r].loss) << run << " round " << r;
      }
    }
    const auto judged = events<observe::Evaluation>(run), by_others = events<observe::Evaluation>(reference);
    ASSERT_EQ(judged.size(), by_others.size()) << run;
    for (size_t e = 0; e < judged.size(); ++e)
      EXPECT_NEAR(*judged[e].loss, *by_others[e].loss, bound * *by_others[e].loss) << run;
  }
  void expect_refused(const Settings& settings, const std::string& text) const {
    try {
      train("refused", settings);
      ADD_FAILURE() << "not refused: " << settings[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
  std::shared_ptr<const checkpoint::StartingPoint> from;  // of all runs that begin; null: random weights
};

// Two workers, each one rank, or two, or four that share a replica in any way. By day each method on two
// kinds of islands, each kind with one method.
TEST_F(OuterRuns, IslandsTrainAsSingleRanksDo) {
  // Eight steps. What arrives with the last step is told with the last round.
  const std::vector<std::pair<Settings, size_t>> methods = {
      {{"optim.outer=co2", "optim.outer_every=2", "optim.outer_synchronous_start=false"}, 4},
      {{"optim.outer=diloco"}, 3},
      {{"optim.outer=delay_corrected", "optim.outer_delay=2"}, 2},
      {{"optim.outer=streaming", "optim.outer_every=4", "optim.outer_fragments=2", "optim.outer_delay=1"},
       4}};
  for (size_t turn = 0; turn < methods.size(); ++turn) {
    const auto& [outer, told] = methods[turn];
    const std::string method = outer[0], one = "two ranks, " + method;
    Settings two = outer;
    two.emplace_back("parallel.ranks=2");
    train(one, two);
    const auto rounds = events<observe::OuterRound>(one);
    ASSERT_EQ(rounds.size(), told) << method;
    EXPECT_EQ(rounds.back().steps, 2);
    EXPECT_TRUE(method != "optim.outer=co2" || rounds[2].gap > 1) << "nothing was late";
    const std::vector<Settings> islands = {{"parallel.tp=2"},
                                           {"parallel.pp=2"},
                                           {"parallel.cp=2", "parallel.zero=2"},
                                           {"parallel.ep=2", "parallel.zero=1"},
                                           {"parallel.ranks=4"},
                                           {"parallel.ranks=4", "parallel.zero=1"},
                                           {"parallel.ranks=4", "parallel.zero=3"},
                                           {"parallel.tp=2", "parallel.ranks=8", "parallel.zero=2"}};
    for (size_t i = 0; i < islands.size(); ++i) {
      if (i % methods.size() != turn && !longhaul::testing::takes_all()) continue;
      const Settings& island = islands[i];
      Settings all = island;
      all.insert(all.end(), outer.begin(), outer.end());
      all.emplace_back("parallel.workers=2");
      const std::string name = method + " " + island[0] + (island.size() > 1 ? island[1] : "") +
                               (island.size() > 2 ? island[2] : "");
      train(name, all);
      // sums of four steps in another order, and a gap that divides by small differences
      expect_same(name, one, 1e-11);
    }
  }
}

// A gap for each tensor: norms of tensors that are cut over ranks, or on one stage of two.
TEST_F(OuterRuns, IslandsFindTheGapsOfTheirTensors) {
  // Behind the third round weights take what is late by a movement that was not nothing.
  const Settings outer = {"optim.outer=co2", "optim.outer_gap=per_tensor", "optim.outer_every=1",
                          "optim.outer_synchronous_start=false"};
  Settings two = outer;
  two.emplace_back("parallel.ranks=2");
  train("two ranks", two);
  const auto rounds = events<observe::OuterRound>("two ranks");
  for (const Settings& island :
       std::vector<Settings>{{"parallel.tp=2"}, {"parallel.pp=2"}, {"parallel.ranks=4", "parallel.zero=3"}}) {
    Settings all = island;
    all.insert(all.end(), outer.begin(), outer.end());
    all.emplace_back("parallel.workers=2");
    train(island.front(), all);
    expect_same(island.front(), "two ranks", 1e-11);
    const auto found = events<observe::OuterRound>(island.front());
    ASSERT_EQ(found.size(), rounds.size());
    for (size_t r = 0; r < rounds.size(); ++r)
      EXPECT_NEAR(found[r].gap, rounds[r].gap, 1e-9 * rounds[r].gap) << island.front() << r;
  }
  EXPECT_GT(rounds[2].gap, 1);
}

// Weights to begin with are all workers': of the first step, whose rate is next to nothing, each has the loss
// that one process has of the same samples.
TEST_F(OuterRuns, EveryMethodBeginsWithTheWeightsItWasGiven) {
  const Settings still = {"optim.lr=1e-12", "train.steps=6", "train.checkpoint_every=0"};
  const Settings once = {"optim.outer=none", "optim.outer_every=0"};
  Settings given = once, plain = once;
  given.emplace_back("train.steps=20");
  train("given", given);
  from = checkpoint::StartingPoint::open(folder_ / "given");
  plain.insert(plain.end(), still.begin(), still.end());
  train("plain", plain);
  const auto expected = events<observe::Evaluation>("plain");
  const double at_random = events<observe::StepReport>("given").front().loss;
  ASSERT_LT(*expected.front().loss, at_random - 0.3) << "the weights had learnt nothing";
  for (const std::string method : {"local_sgd", "slowmo", "diloco", "co2", "delay_corrected", "streaming"}) {
    Settings all = still;
    all.insert(all.end(), {"optim.outer=" + method, "optim.outer_every=2", "parallel.ranks=2"});
    if (method == "streaming") all.emplace_back("optim.outer_fragments=2");
    train(method, all);
    const auto found = events<observe::Evaluation>(method);
    ASSERT_EQ(found.size(), expected.size()) << method;
    for (size_t e = 0; e < found.size(); ++e)
      EXPECT_NEAR(*found[e].loss, *expected[e].loss, 1e-6) << method << " " << e;
    for (const auto& step : events<observe::StepReport>(method))
      EXPECT_LT(step.loss, at_random - 0.3) << method << " step " << step.step;
  }
}

// Every tensor of every checkpoint: stopped in the middle of a round, with the sums of the one before on
// their way.
TEST_F(OuterRuns, StoppedWithinARoundAndContinuedToTheBit) {
  for (const Settings& settings : std::vector<Settings>{
           {"optim.outer=co2", "train.dtype=bf16", "optim.outer_wire=bfloat16"},
           {"optim.outer=co2", "parallel.zero=1", "parallel.workers=2", "parallel.ranks=4"},
           {"optim.outer=co2", "parallel.tp=2", "parallel.workers=2", "optim.name=came",
            "optim.outer_gap=per_tensor", "optim.outer_synchronous_start=false"},
           {"optim.outer=slowmo", "optim.name=sgd"},
           {"optim.outer=local_sgd", "optim.name=muon"},
           {"optim.outer=diloco", "train.dtype=fp32"},
           {"optim.outer=delay_corrected", "train.dtype=bf16"},
           {"optim.outer=delay_corrected", "optim.outer_delay=3", "parallel.pp=2", "parallel.workers=2"},
           {"optim.outer=streaming", "optim.outer_fragments=1", "optim.outer_delay=2", "parallel.cp=2",
            "parallel.zero=2", "parallel.workers=2"},
           {"optim.outer=streaming", "optim.outer_every=4", "optim.outer_fragments=2", "optim.name=came"}}) {
    Settings all{"parallel.ranks=4", "optim.outer_every=3", "train.steps=10", "train.threads=1"};
    all.insert(all.end(), settings.begin(), settings.end());
    const std::string name = settings[0] + settings[1];
    train(name, all);
    std::filesystem::copy(folder_ / name, folder_ / (name + "-again"),
                          std::filesystem::copy_options::recursive);
    const std::string again = name + "-again";
    // Behind step 8: two steps of the third round are done, and the sums of the second are on their way.
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / again / "checkpoints")) {
      const std::string text = entry.path().filename().string();
      if (text.starts_with("step-") && std::stoll(text.substr(5, 9)) > 8)
        std::filesystem::remove_all(entry.path());
    }
    std::filesystem::remove(folder_ / again / "checkpoints" / "latest");
    train(again, all);
    ASSERT_EQ(events<observe::Resume>(again).size(), 1u);
    EXPECT_EQ(events<observe::Resume>(again)[0].step, 8);
    const auto found = checkpoint::compare_runs(folder_ / name, folder_ / again, 0);
    EXPECT_EQ(found.equal_steps.size(), 10u) << name;
    EXPECT_EQ(found.step, std::nullopt)
        << name << ": " << (found.step ? found.difference.tensors.front().name : "");
    const auto rounds = events<observe::OuterRound>(name), others = events<observe::OuterRound>(again);
    const auto later =
        static_cast<size_t>(std::ranges::count_if(rounds, [](const auto& round) { return round.step > 8; }));
    ASSERT_GT(later, 0u) << name;
    for (size_t r = 1; r <= later; ++r)
      EXPECT_EQ(others[others.size() - r].loss, rounds[rounds.size() - r].loss)
          << name << ": a round's mean loss";
  }
}

TEST_F(OuterRuns, WeightsOfACheckpointAreWhatAllAgreedOnLast) {
  train("run", {"parallel.ranks=2", "optim.outer_every=3", "train.steps=8"});
  storage::LocalFileSystem files;
  const auto at = [&](int64_t step) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run" / "checkpoints")) {
      const std::string text = entry.path().filename().string();
      if (text.starts_with("step-") && std::stoll(text.substr(5, 9)) == step)
        return storage::Checkpoint::open(files, entry.path());
    }
    throw std::runtime_error("no checkpoint");
  };
  const auto bytes_of = [](const storage::Checkpoint& checkpoint, const std::string& name) {
    const auto& tensor = checkpoint.at(name);
    std::vector<std::byte> bytes(8);
    for (const int64_t size : tensor.shape) bytes.resize(bytes.size() * static_cast<size_t>(size));
    layout::Rectangle all{std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape};
    checkpoint.read(name, all, bytes);
    return bytes;
  };
  const std::string weight = "layers.0.mixer.query.weight";
  EXPECT_EQ(bytes_of(at(3), weight), bytes_of(at(5), weight)) << "in a round they stay";
  EXPECT_NE(bytes_of(at(3), weight), bytes_of(at(8), weight));
  EXPECT_EQ(at(5).at("optimizer.master." + weight).shape[0], 2);
  EXPECT_NE(bytes_of(at(4), "optimizer.master." + weight), bytes_of(at(5), "optimizer.master." + weight))
      << "workers' own move";
}

// A worker is lost and three go on, or more come: from the weights that were agreed on, with each state of an
// optimizer of some saved worker.
TEST_F(OuterRuns, AnotherNumberOfWorkersGoesOn) {
  const auto sizes = [](int64_t ranks) {
    return Settings{"parallel.ranks=" + std::to_string(ranks), "train.batch=12"};
  };
  for (const int64_t next : {3, 2, 6}) {
    const std::string name = "then " + std::to_string(next);
    Settings first = sizes(4), second = sizes(next);
    first.emplace_back("train.steps=7");
    second.emplace_back("train.steps=12");
    train(name, first);
    const double before = events<observe::StepReport>(name).back().loss;
    EXPECT_EQ(train(name, second).step, 12);
    EXPECT_EQ(events<observe::Resume>(name).at(0).step, 7);
    EXPECT_LT(events<observe::StepReport>(name).back().loss, before + 0.3) << name;
  }
}

TEST_F(OuterRuns, ARunTakesUpAnOuterLoopAndLeavesItWithFreshStates) {
  const Settings synchronous{"parallel.ranks=2", "optim.outer=none", "optim.outer_every=0", "train.steps=4"};
  train("run", synchronous);
  expect_refused({"parallel.ranks=1"}, "there is one");
  Settings outer{"parallel.ranks=2", "train.steps=10"};
  EXPECT_THROW(train("run", outer), Error);  // optim.outer cannot change by itself
  outer.emplace_back("optim.fresh_states=true");
  EXPECT_EQ(train("run", outer).step, 10);
  EXPECT_EQ(events<observe::OuterRound>("run").size(), 2u);
  Settings back = synchronous;
  back[3] = "train.steps=12";
  back.emplace_back("optim.fresh_states=true");
  EXPECT_EQ(train("run", back).step, 12);
  const auto steps = events<observe::StepReport>("run");
  EXPECT_LT(steps.back().loss, steps[3].loss + 0.1);
}

// Two single-rank workers that take one step a round, each with half of the batch, by plain SGD: synchronous
// SGD. Rows of one long document have as many labels each, so the mean of workers' means is the mean of all.
TEST_F(OuterRuns, OneStepOfSgdARoundIsSynchronous) {
  std::filesystem::create_directories(folder_ / "long");
  std::ofstream file(folder_ / "long" / "one.txt");
  for (int i = 0; i < 3000; ++i) file << "word " << i * i % 977 << "\n";
  file.close();
  const Settings same{"optim.name=sgd",
                      "optim.momentum=0",
                      "optim.clip_norm=0",
                      "optim.weight_decay=0",
                      "optim.lr=0.05",
                      "parallel.ranks=2",
                      "model.experts=0",
                      "data.source=" + (folder_ / "long").string(),
                      "data.validation=" + (folder_ / "text").string(),
                      "data.held_out_percent=0"};
  Settings local = same, synchronous = same;
  local.insert(local.end(), {"optim.outer=local_sgd", "optim.outer_every=1"});
  synchronous.insert(synchronous.end(), {"optim.outer=none", "optim.outer_every=0"});
  train("local", local);
  train("synchronous", synchronous);
  const auto judged = events<observe::Evaluation>("local"),
             expected = events<observe::Evaluation>("synchronous");
  ASSERT_EQ(judged.size(), expected.size());
  ASSERT_GT(judged.size(), 2u);
  for (size_t e = 0; e < judged.size(); ++e)
    EXPECT_NEAR(*judged[e].loss, *expected[e].loss, 1e-12 * *expected[e].loss);
}

TEST_F(OuterRuns, WhatCannotBeIsRefusedBeforeAnythingIsTouched) {
  expect_refused({"parallel.ranks=1"}, "an outer loop needs workers that meet");
  expect_refused({"parallel.tp=2"}, "an outer loop needs workers that meet");
  expect_refused({"parallel.ranks=5", "parallel.tp=2", "parallel.workers=2"}, "dealt out to the workers");
  expect_refused({"parallel.ranks=3"}, "dealt out to the replicas");
  expect_refused({"parallel.ranks=2", "train.elastic=true"}, "train.elastic");
  expect_refused({"parallel.ranks=2", "optim.outer_every=5"}, "do not fit twice");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

}  // namespace
}  // namespace longhaul::run
