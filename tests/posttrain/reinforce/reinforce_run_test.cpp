// Whole runs of train.task = "reinforce" on tiny models that close brackets.
// ctest: timeout=300
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/files/file.h"
#include "posttrain/reinforce/rollout_file.h"
#include "posttrain/tasks.h"
#include "recipe/load.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "storage/catalog.h"
#include "support/places.h"
#include "support/refused.h"

namespace longhaul::posttrain {
namespace {

using ::longhaul::testing::refused;
using run::Words;
using run::operator+;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReinforceRun : public run::RunFixture {
 protected:
  ReinforceRun() { train::declare_options(tasks()); }
  static std::string recipe_folder() { return source_folder() + "/recipes/posttrain/"; }
  recipe::LoadedRecipe recipe(const Words& more) const {
    Words words = {"train.task=reinforce",
                   "model.layers=2",
                   "model.hidden=16",
                   "model.heads=2",
                   "model.kv_heads=2",
                   "model.head_dim=8",
                   "model.vocabulary=8",
                   "model.mixers=lightning,softmax",
                   "model.intermediate=24",
                   "model.rotary_dim=4",
                   "model.tie_embeddings=true",
                   "data.tokenizer=" + recipe_folder() + "closers-tokenizer.json",
                   "data.cache=" + (folder_ / "cache").string(),
                   "train.steps=6",
                   "train.sequence=32",
                   "train.batch=4",
                   "train.micro_batch=4",
                   "train.dtype=fp64",
                   "train.threads=1",
                   "train.evaluate_every=0",
                   "train.checkpoint_every=0",
                   "optim.lr=0.01",
                   "optim.schedule=constant",
                   "optim.warmup_steps=0",
                   "optim.weight_decay=0",
                   "reinforce.algorithm=dapo",
                   "reinforce.prompts_file=" + recipe_folder() + "closers.jsonl",
                   "reinforce.reward=[\"prefix\"]",
                   "reinforce.prompts=4",
                   "reinforce.group=4",
                   "reinforce.tokens=5",
                   "sample.tokens=0",
                   "observe.tensorboard=false",
                   "observe.report=false"};
    words.insert(words.end(), more.begin(), more.end());
    return recipe::load_defaults(words);
  }
  // Longer answers are better, so that groups differ.
  Words by_length() const {
    const std::string script = (folder_ / "length.sh").string();
    write_text_atomically(script, "while read -r line; do echo ${#line}; done\n");
    return {"reinforce.reward=[\"program\"]", "reinforce.program=sh " + script};
  }
  train::Outcome start(const std::string& name, const Words& more = {}) const {
    return run::run_training({.recipe = recipe(more), .run_folder = folder_ / name, .quiet = true}, tasks());
  }
  std::string told(const Words& more) const {
    return refused([&] { start("refused", more); });
  }
  // Every tensor of the newest checkpoint, as bytes.
  std::map<std::string, std::vector<std::byte>> saved(const std::string& name) const {
    std::map<std::string, std::vector<std::byte>> all;
    const auto found =
        storage::list_checkpoints(storage::local_file_system(), folder_ / name / "checkpoints");
    EXPECT_FALSE(found.empty()) << name;
    if (found.empty()) return all;
    const auto newest = std::ranges::max_element(found, {}, [](const auto& each) { return each.name.step; });
    const auto checkpoint = storage::Checkpoint::open(storage::local_file_system(), newest->path);
    for (const auto& [tensor, entry] : checkpoint.manifest().tensors)
      all[tensor] = checkpoint.read_tensor(tensor);
    return all;
  }
  // The names of the tensors in which the newest checkpoints of two runs differ.
  std::vector<std::string> differing(const std::string& first, const std::string& second) const {
    const auto one = saved(first), other = saved(second);
    std::vector<std::string> names;
    for (const auto& [name, bytes] : one) {
      if (!other.contains(name) || other.at(name) != bytes) names.push_back(name);
    }
    if (one.size() != other.size()) names.push_back("not as many");
    return names;
  }
  std::vector<double> metric(const std::string& name, const std::string& of) const {
    std::vector<double> all;
    for (const auto& step : events<observe::StepReport>(name)) {
      if (step.metrics.contains(of)) all.push_back(step.metrics.at(of));
    }
    return all;
  }
  std::vector<RolloutLine> lines(const std::string& name, int64_t step) const {
    return read_rollouts(folder_ / name, step);
  }
};

TEST_F(ReinforceRun, LearnsToCloseBrackets) {
  start("run", {"train.steps=40", "train.dtype=fp32", "reinforce.prompts=8", "reinforce.group=8",
                "reinforce.rounds=2"});
  const std::vector<double> rewards = metric("run", "rollout/reward");
  ASSERT_EQ(rewards.size(), 40u);
  const auto mean = [&](size_t begin) {
    return std::accumulate(rewards.begin() + static_cast<ptrdiff_t>(begin),
                           rewards.begin() + static_cast<ptrdiff_t>(begin) + 5, 0.0) /
           5;
  };
  EXPECT_GT(mean(35), mean(0) + 0.15) << mean(0) << " at the beginning";
}

// Killed after any step, a run goes on with the same bits: in the middle of a rollout batch, with a
// reference, and with what levels were solved.
TEST_F(ReinforceRun, ARunInPartsIsTheRunInOne) {
  const Words each[] = {
      {"reinforce.updates=1"},
      {"reinforce.updates=2", "reinforce.kl=0.1"},
      {"reinforce.updates=4", "reinforce.algorithm=cispo"},
      {"reinforce.algorithm=ppo", "reinforce.group=1", "reinforce.prompts=8"},
      {"reinforce.updates=2", "reinforce.algorithm=ppo", "reinforce.critic_warmup=2", "reinforce.lambda=0.9"},
      {"reinforce.updates=2", "reinforce.prompts_file=", "reinforce.puzzles=[\"dyck_language\"]",
       "reinforce.adaptive=true", "data.tokenizer=bytes", "model.vocabulary=257", "train.sequence=1024",
       "reinforce.knobs=length=4,missing=1,kinds=1", "reinforce.reward=[\"puzzle_answer\"]",
       "reinforce.dynamic=false"},
      {"reinforce.updates=2", "reinforce.kl=0.1", "parallel.tp=2"},
      {"reinforce.updates=2", "reinforce.kl=0.1", "parallel.pp=2", "train.micro_batch=1"},
      {"reinforce.rollouts=ahead", "reinforce.kl=0.1"},
      {"reinforce.rollouts=ahead", "reinforce.updates=2", "reinforce.stages=[\"2:7\", \"4:9\"]"},
      {"reinforce.rollouts=ahead", "reinforce.updates=2", "reinforce.replay_routes=true", "model.experts=4",
       "model.experts_per_token=2"},
      {"reinforce.updates=2", "reinforce.replay_routes=true", "model.experts=4", "model.experts_per_token=2"},
  };
  for (size_t i = 0; i < std::size(each); ++i) {
    const std::string whole = fmt::format("whole-{}", i), parts = fmt::format("parts-{}", i);
    start(whole, each[i] + Words{"train.steps=4"});
    for (int64_t step = 1; step <= 4; ++step)
      start(parts, each[i] + Words{fmt::format("train.steps={}", step)});
    EXPECT_EQ(losses(parts), losses(whole)) << i;
    EXPECT_THAT(differing(parts, whole), IsEmpty()) << i;
    for (int64_t step = 1; step <= 4; ++step)
      EXPECT_EQ(read_text(folder_ / parts / fmt::format("rollouts/{}.jsonl", step)),
                read_text(folder_ / whole / fmt::format("rollouts/{}.jsonl", step)));
  }
}

// The verifier fails when the answers of step 4 have been generated and before the step was made of them.
// Where ranks share the model one of them asks it, so it is asked once for each prompt.
TEST_F(ReinforceRun, ARolloutThatIsInterruptedIsMadeAgain) {
  const std::string script = (folder_ / "judge.sh").string(), marker = (folder_ / "stop").string(),
                    count = (folder_ / "count").string();
  write_text_atomically(script, "echo x >> " + count + "\n[ ! -e " + marker + " ] || [ $(wc -l < " + count +
                                    ") -le 14 ] || exit 1\nwhile read -r line; do echo ${#line}; done\n");
  for (const Words& shared : {Words{}, Words{"parallel.tp=2"}, Words{"parallel.pp=2"}}) {
    const Words words = Words{"reinforce.reward=[\"program\"]", "reinforce.program=sh " + script,
                              "train.checkpoint_every=1", "reinforce.dynamic=false"} +
                        shared;
    const std::string how = shared.empty() ? "" : " " + shared[0], whole = "whole" + how,
                      broken = "broken" + how;
    write_text_atomically(count, "");
    start(whole, words);
    EXPECT_EQ(std::ranges::count(read_text(count), 'x'), 6 * 4) << how;
    write_text_atomically(marker, "");
    write_text_atomically(count, "");
    EXPECT_THAT(refused([&] { start(broken, words); }), HasSubstr("the verifier failed")) << how;
    std::filesystem::remove(marker);
    EXPECT_EQ(start(broken, words).step, 6) << how;
    EXPECT_THAT(differing(broken, whole), IsEmpty()) << how;
  }
}

// Ranks that share heads (tp) and layers (pp) generate together, beside replicas or without.
TEST_F(ReinforceRun, RanksThatShareTheModelAreOneProcess) {
  const Words words = {"reinforce.updates=2", "reinforce.kl=0.05", "train.micro_batch=1",
                       "reinforce.prompts=6", "train.evaluate_every=3"};
  start("one", words);
  for (const Words& shared :
       {Words{"parallel.tp=2"}, Words{"parallel.pp=2"}, Words{"parallel.tp=2", "parallel.pp=2"},
        Words{"parallel.tp=2", "parallel.ranks=4", "parallel.zero=2"}}) {
    const std::string name = fmt::format("{}", fmt::join(shared, " "));
    start(name, words + shared);
    ASSERT_EQ(losses(name).size(), 6u) << name;
    for (size_t s = 0; s < 6; ++s)
      EXPECT_NEAR(losses(name)[s], losses("one")[s], 1e-9) << name << ", step " << s + 1;
    for (int64_t step = 1; step <= 6; ++step) {
      const auto found = lines(name, step), expected = lines("one", step);
      ASSERT_EQ(found.size(), expected.size()) << name;
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].ids, expected[i].ids) << name << ", step " << step;
        EXPECT_EQ(found[i].reward, expected[i].reward) << name << ", step " << step;
        ASSERT_EQ(found[i].old.size(), expected[i].old.size());
        for (size_t t = 0; t < found[i].old.size(); ++t) {
          EXPECT_NEAR(found[i].old[t], expected[i].old[t], 1e-9) << name;
          EXPECT_NEAR(found[i].generated[t], expected[i].generated[t], 1e-9) << name;
          EXPECT_NEAR(found[i].log_probabilities[t], expected[i].log_probabilities[t], 1e-9) << name;
        }
      }
    }
    for (const char* of : {"rollout/reward", "rollout/tokens", "policy/entropy", "policy/generated_gap",
                           "policy/reference_kl"}) {
      const std::vector<double> found = metric(name, of), expected = metric("one", of);
      ASSERT_EQ(found.size(), expected.size()) << of;
      for (size_t s = 0; s < found.size(); ++s) EXPECT_NEAR(found[s], expected[s], 1e-9) << name << of;
    }
    for (const char* of : {"reward", "right", "answer_tokens"})
      EXPECT_EQ(events<observe::Evaluation>(name).back().metrics.at(of),
                events<observe::Evaluation>("one").back().metrics.at(of))
          << name << of;
  }
}

// Stages of layers add nothing up across ranks: answers, log-probabilities and weights are those of one
// process to the bit.
TEST_F(ReinforceRun, StagesHaveTheBitsOfOneProcess) {
  const Words words = {"reinforce.updates=2", "train.micro_batch=1", "train.dtype=fp32",
                       "model.tie_embeddings=false", "optim.clip_norm=0"};
  start("one", words);
  start("two", words + Words{"parallel.pp=2"});
  EXPECT_THAT(differing("two", "one"), IsEmpty());
  for (int64_t step = 1; step <= 6; ++step)
    EXPECT_EQ(read_text(folder_ / fmt::format("two/rollouts/{}.jsonl", step)),
              read_text(folder_ / fmt::format("one/rollouts/{}.jsonl", step)));
}

TEST_F(ReinforceRun, ReplicasAreOneProcess) {
  const Words words = {"reinforce.updates=2", "reinforce.kl=0.05", "train.micro_batch=1",
                       "reinforce.prompts=6"};
  start("one", words);
  for (const Words& shared :
       {Words{"parallel.ranks=2"}, Words{"parallel.ranks=2", "parallel.zero=2"}, Words{"parallel.ranks=4"}}) {
    const std::string name = "ranks " + shared.back();
    start(name, words + shared);
    ASSERT_EQ(losses(name).size(), 6u);
    for (size_t s = 0; s < 6; ++s)
      EXPECT_NEAR(losses(name)[s], losses("one")[s], 1e-9) << name << ", step " << s + 1;
    ASSERT_EQ(lines(name, 6).size(), lines("one", 6).size());
    for (size_t i = 0; i < lines("one", 6).size(); ++i)
      EXPECT_EQ(lines(name, 6)[i].ids, lines("one", 6)[i].ids) << name;
    for (const char* of : {"rollout/reward", "policy/entropy", "policy/generated_gap"}) {
      ASSERT_EQ(metric(name, of).size(), metric("one", of).size());
      for (size_t s = 0; s < metric("one", of).size(); ++s)
        EXPECT_NEAR(metric(name, of)[s], metric("one", of)[s], 1e-9) << of;
    }
  }
}

// By hand: with one update a batch, the batch of step k was written by the weights before step k − 1. So its
// log-probabilities by the engine are those that a run of now would have given it a step before.
TEST_F(ReinforceRun, BatchesAheadAreWrittenByTheWeightsBefore) {
  const Words words = by_length() + Words{"reinforce.dynamic=false", "optim.lr=0.05"};
  start("now", words);
  start("ahead", words + Words{"reinforce.rollouts=ahead"});
  // The first two batches come from the same weights, and the first step is the same.
  EXPECT_EQ(losses("ahead")[0], losses("now")[0]);
  const auto first = lines("ahead", 1), now = lines("now", 1);
  ASSERT_EQ(first.size(), now.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].ids, now[i].ids);
    EXPECT_EQ(first[i].old, first[i].generated);
  }
  // A run that never moves has written step 2's batch with the same weights.
  start("still", words + Words{"optim.lr=1e-30", "train.steps=2"});
  const auto second = lines("ahead", 2), still = lines("still", 2);
  ASSERT_EQ(second.size(), still.size());
  double furthest = 0;
  for (size_t i = 0; i < second.size(); ++i) {
    EXPECT_EQ(second[i].ids, still[i].ids);
    EXPECT_EQ(second[i].prompt_number, still[i].prompt_number);
    EXPECT_EQ(second[i].old, second[i].generated);
    for (size_t t = 0; t < second[i].ids.size(); ++t) {
      EXPECT_NEAR(second[i].generated[t], still[i].generated[t], 1e-12);
      EXPECT_EQ(second[i].ratios[t], std::exp(second[i].log_probabilities[t] - second[i].generated[t]));
      furthest = std::max(furthest, std::abs(second[i].ratios[t] - 1));
    }
  }
  EXPECT_GT(furthest, 1e-3) << "the weights have moved since";
  const std::vector<double> gap = metric("ahead", "policy/generated_gap");
  EXPECT_LT(gap[0], 1e-9);
  EXPECT_GT(gap[1], 1e-4) << "it tells how far the policy has gone from the one that wrote";
}

// Windows are those of the step that trains on a batch, whenever it is written.
TEST_F(ReinforceRun, AnswersGrowInStages) {
  for (const Words& more : {Words{}, Words{"reinforce.rollouts=ahead"}, Words{"reinforce.updates=2"}}) {
    const std::string name = "run" + (more.empty() ? "" : " " + more[0]);
    // The weights stay: of as many answers some use their window up.
    start(name, more + Words{"reinforce.tokens=3", "reinforce.stages=[\"3:6\", \"5:8\"]", "optim.lr=1e-30",
                             "reinforce.group=16", "reinforce.overlong_cache=2", "reinforce.dynamic=false"});
    const size_t window_of[] = {3, 3, 6, 6, 8, 8};
    for (int64_t step = 1; step <= 6; ++step) {
      size_t longest = 0;
      const auto window = static_cast<double>(window_of[step - 1]);
      for (const RolloutLine& line : lines(name, step)) {
        longest = std::max(longest, line.ids.size());
        const auto tokens = static_cast<double>(line.ids.size());
        EXPECT_NEAR(line.shaped - line.reward, -std::max(0.0, tokens - (window - 2)) / 2, 1e-12) << name;
      }
      EXPECT_EQ(longest, window_of[step - 1]) << name << ", step " << step;
    }
    const std::vector<double> windows = metric(name, "rollout/window");
    EXPECT_EQ(windows, more == Words{"reinforce.updates=2"} ? (std::vector<double>{3, 6, 8})
                                                            : (std::vector<double>{3, 3, 6, 6, 8, 8}));
  }
}

// In training this router draws its experts at random, so that without the engine's routes nothing fits.
TEST_F(ReinforceRun, RoutesOfTheEngineAreReplayed) {
  const Words words = {"model.experts=6",     "model.experts_per_token=2", "model.router_choice=random",
                       "reinforce.updates=2", "reinforce.prompts=6",       "train.micro_batch=1",
                       "train.steps=3"};
  start("alone", words);
  EXPECT_GT(metric("alone", "policy/generated_gap").front(), 1e-3);
  start("replayed", words + Words{"reinforce.replay_routes=true"});
  EXPECT_THAT(metric("replayed", "policy/generated_gap"), Each(::testing::Lt(1e-9)));
  // Replicas give each other the routes of the answers that they have generated.
  start("ranks", words + Words{"reinforce.replay_routes=true", "parallel.ranks=2"});
  EXPECT_THAT(metric("ranks", "policy/generated_gap"), Each(::testing::Lt(1e-9)));
  for (size_t s = 0; s < 3; ++s) EXPECT_NEAR(losses("ranks")[s], losses("replayed")[s], 1e-9);
}

TEST_F(ReinforceRun, ReplicasTrainOneCritic) {
  const Words words = {"reinforce.algorithm=ppo", "reinforce.updates=2", "reinforce.prompts=6",
                       "reinforce.critic_warmup=1", "train.micro_batch=1"};
  start("one", words);
  for (const Words& shared : {Words{"parallel.ranks=2"}, Words{"parallel.ranks=4", "parallel.zero=2"}}) {
    const std::string name = "ranks " + shared.front();
    start(name, words + shared);
    for (const char* of : {"critic/loss", "critic/value", "critic/gradient_norm", "policy/entropy"}) {
      const std::vector<double> found = metric(name, of), expected = metric("one", of);
      ASSERT_EQ(found.size(), 6u) << of;
      for (size_t s = 0; s < 6; ++s) EXPECT_NEAR(found[s], expected[s], 1e-9) << name << ": " << of;
    }
  }
}

// Every answer is worth 1, so the value of every token is, and the squared error begins at 1 / 2.
TEST_F(ReinforceRun, TheCriticLearnsTheReturns) {
  const std::string script = (folder_ / "judge.sh").string();
  write_text_atomically(script, "while read -r line; do echo 1; done\n");
  const Words words = {"reinforce.algorithm=ppo", "reinforce.reward=[\"program\"]",
                       "reinforce.program=sh " + script, "reinforce.value_clip=2"};
  start("run", words + Words{"train.steps=16", "reinforce.critic_lr=0.03"});
  EXPECT_EQ(metric("run", "critic/value").front(), 0);
  EXPECT_EQ(metric("run", "critic/loss").front(), 0.5);
  // of the head alone, whose weights are 0: the mean over tokens of hidden states that have a norm of √16
  EXPECT_LE(metric("run", "critic/gradient_norm").front(), 4.0001);
  EXPECT_THAT(metric("run", "critic/return"), Each(::testing::DoubleNear(1, 1e-12)));
  EXPECT_NEAR(metric("run", "critic/value").back(), 1, 0.3);
  EXPECT_LT(metric("run", "critic/loss").back(), 0.05);
  start("warm", words + Words{"train.steps=1", "reinforce.critic_lr=0.02", "reinforce.critic_warmup=8"});
  EXPECT_GT(metric("warm", "critic/value").front(), 0.3) << "before the first step";
  EXPECT_EQ(lines("warm", 1).front().prompt_number, 8 * 4) << "behind the prompts of the warm-up";
}

// Loss and gradient do not depend on how the answers are cut into rows and passes.
TEST_F(ReinforceRun, PackingChangesNothing) {
  const Words words = {"train.steps=2", "reinforce.algorithm=grpo", "reinforce.updates=2"};
  start("wide", words);
  const auto wide = events<observe::StepReport>("wide");
  for (const Words& packed : {Words{"train.micro_batch=1"}, Words{"train.sequence=16"},
                              Words{"train.sequence=100", "train.micro_batch=2"}}) {
    const std::string name = "packed " + packed[0];
    start(name, words + packed);
    const auto found = events<observe::StepReport>(name);
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_NEAR(found[s].loss, wide[s].loss, 1e-9 * std::abs(wide[s].loss) + 1e-12) << name;
      EXPECT_NEAR(found[s].grad_norm, wide[s].grad_norm, 1e-9 * wide[s].grad_norm) << name;
    }
  }
}

TEST_F(ReinforceRun, TheFirstUpdateOfABatchHasRatiosOfOne) {
  start("run", {"train.steps=4", "reinforce.updates=2", "train.dtype=fp32", "optim.lr=0.05"});
  for (const int64_t step : {1, 3}) {
    for (const RolloutLine& line : lines("run", step)) EXPECT_THAT(line.ratios, Each(1.0)) << "step " << step;
  }
  double furthest = 0;
  for (const RolloutLine& line : lines("run", 2)) {
    for (const double ratio : line.ratios) furthest = std::max(furthest, std::abs(ratio - 1));
  }
  EXPECT_GT(furthest, 0.01) << "the second update's weights are others";
}

// The engine reads the weights that the trainer has just written: in fp64 nothing but the order of sums is
// between them. What the loss sees: only ratios that have left 1 can be clipped.
TEST_F(ReinforceRun, LaterUpdatesOfABatchAreClipped) {
  start("run",
        {"train.steps=4", "reinforce.updates=4", "reinforce.clip_low=0.01", "reinforce.clip_high=0.01"});
  const std::vector<double> high = metric("run", "policy/clipped_high"),
                            low = metric("run", "policy/clipped_low");
  ASSERT_EQ(high.size(), 4U);
  EXPECT_EQ(high[0] + low[0], 0);
  EXPECT_GT(high[3] + low[3], 0);
}

TEST_F(ReinforceRun, TheEngineHasTheTrainersLogProbabilities) {
  start("run", {"train.steps=8", "optim.lr=0.05"});
  for (const int64_t step : {1, 4, 8}) {
    for (const RolloutLine& line : lines("run", step)) {
      for (size_t t = 0; t < line.ids.size(); ++t)
        EXPECT_NEAR(line.generated[t], line.old[t], 1e-9) << "step " << step;
    }
  }
  EXPECT_THAT(metric("run", "policy/generated_gap"), Each(::testing::Lt(1e-9)));
  start("fp32", {"train.steps=8", "optim.lr=0.05", "train.dtype=fp32"});
  EXPECT_THAT(metric("fp32", "policy/generated_gap"), Each(::testing::Lt(1e-5)));
}

// With reinforce.exact what the engine said of its tokens, and what the trainer says of them with the same
// weights, are the same numbers, whatever is packed beside them; and the loss has the gradient that it has.
TEST_F(ReinforceRun, ExactTrainersHaveTheEnginesBits) {
  const Words each[] = {
      {},
      {"model.mixers=softmax", "reinforce.temperature=0.7"},
      {"model.mixers=lightning", "reinforce.updates=2"},
      {"reinforce.updates=2", "parallel.ranks=2", "train.micro_batch=1"},
      {"parallel.pp=2", "train.micro_batch=1"},
      {"model.experts=4", "model.experts_per_token=2", "train.recompute=full"},
      {"model.vocabulary=16", "train.dtype=bf16"},  // rows that stand for no token
  };
  for (const Words& more : each) {
    const std::string how = more.empty() ? "plain" : more[0];
    const Words words = by_length() + Words{"train.dtype=fp32", "optim.lr=0.05", "reinforce.tokens=9"} + more;
    start("other " + how, words);
    start(how, words + Words{"reinforce.exact=true"});
    EXPECT_GT(metric("other " + how, "policy/generated_gap").front(), 0) << how;
    EXPECT_THAT(metric(how, "policy/generated_gap"), Each(0.0)) << how;
    EXPECT_THAT(metric(how, "policy/generated_kl"), Each(0.0)) << how;
    const auto exact = events<observe::StepReport>(how), other = events<observe::StepReport>("other " + how);
    const double tolerance = how == "model.vocabulary=16" ? 0.1 : 1e-3;  // bf16 has 8 bits
    EXPECT_GT(exact[0].grad_norm, 0) << how;
    EXPECT_NEAR(exact[0].grad_norm, other[0].grad_norm, tolerance * other[0].grad_norm) << how;
  }
}

TEST_F(ReinforceRun, TemperatureIsThatOfEveryLogProbability) {
  start("run", {"train.steps=3", "reinforce.temperature=0.5"});
  EXPECT_THAT(metric("run", "policy/generated_gap"), Each(::testing::Lt(1e-9)));
}

TEST_F(ReinforceRun, EqualRewardsMoveNothingAndAreCounted) {
  const std::string script = (folder_ / "judge.sh").string();
  write_text_atomically(script, "while read -r line; do echo 1; done\n");
  start("before", {"train.steps=1", "optim.lr=1e-30", "reinforce.dynamic=false"});
  for (const char* dynamic : {"true", "false"}) {
    const std::string name = std::string("equal ") + dynamic;
    start(name, {"reinforce.reward=[\"program\"]", "reinforce.program=sh " + script, "reinforce.rounds=2",
                 std::string("reinforce.dynamic=") + dynamic, "train.steps=2"});
    EXPECT_THAT(metric(name, "rollout/accepted"), Each(0.0));
    EXPECT_THAT(metric(name, "rollout/rounds"), Each(dynamic == std::string("true") ? 2.0 : 1.0));
    for (const auto& step : events<observe::StepReport>(name)) EXPECT_EQ(step.grad_norm, 0);
  }
}

TEST_F(ReinforceRun, DynamicSamplingKeepsGroupsThatDiffer) {
  start("run", {"reinforce.reward=[\"exact\"]", "reinforce.group=16", "train.steps=3"});
  for (int64_t step = 1; step <= 3; ++step) {
    std::map<int64_t, std::set<double>> rewards;
    for (const RolloutLine& line : lines("run", step)) rewards[line.prompt_number].insert(line.reward);
    for (const auto& [prompt, different] : rewards)
      EXPECT_GT(different.size(), 1u) << "step " << step << ", prompt " << prompt;
  }
  EXPECT_THAT(metric("run", "rollout/rounds"), Each(::testing::Ge(1.0)));
  EXPECT_GT(metric("run", "rollout/rounds").front(), 1) << "few of the first answers are right";
}

TEST_F(ReinforceRun, LongAnswersLoseReward) {
  start("run", {"train.steps=1", "reinforce.overlong_cache=4", "reinforce.overlong_weight=0.5"});
  bool cut = false;
  for (const RolloutLine& line : lines("run", 1)) {
    const auto tokens = static_cast<double>(line.ids.size());
    EXPECT_NEAR(line.shaped - line.reward, tokens <= 1 ? 0 : -0.5 * (tokens - 1) / 4, 1e-12);
    cut = cut || !line.ended;
  }
  EXPECT_TRUE(cut);
}

TEST_F(ReinforceRun, AReferenceHoldsThePolicy) {
  start("held", {"train.steps=10", "optim.lr=0.02", "reinforce.kl=2"});
  start("measured", {"train.steps=10", "optim.lr=0.02", "reinforce.kl=1e-9"});
  EXPECT_EQ(metric("held", "policy/reference_kl").front(), 0);
  EXPECT_LT(metric("held", "policy/reference_kl").back(),
            0.5 * metric("measured", "policy/reference_kl").back());
}

TEST_F(ReinforceRun, IsEvaluatedOnPromptsThatAreHeldOut) {
  start("run", {"train.steps=2", "train.evaluate_every=2",
                "reinforce.held_out_file=" + recipe_folder() + "closers-held-out.jsonl"});
  const auto judged = events<observe::Evaluation>("run");
  ASSERT_FALSE(judged.empty());
  EXPECT_TRUE(judged.back().metrics.contains("right"));
  EXPECT_GE(judged.back().metrics.at("reward"), judged.back().metrics.at("right"));
}

TEST_F(ReinforceRun, WhatCannotBeIsRefused) {
  EXPECT_THAT(told({"parallel.cp=2"}), HasSubstr("may share heads and layers only"));
  EXPECT_THAT(told({"parallel.zero=3", "parallel.ranks=2"}), HasSubstr("may share heads and layers only"));
  EXPECT_THAT(told({"parallel.pp=2", "parallel.schedule=zbv", "model.layers=4"}),
              HasSubstr("each have one stage of the model"));
  EXPECT_THAT(told({"parallel.tp=2", "reinforce.algorithm=ppo"}),
              HasSubstr("a critic is a whole model on each rank"));
  EXPECT_THAT(told({"reinforce.algorithm=grqo"}), HasSubstr("reinforce.algorithm"));
  EXPECT_THAT(told({"reinforce.reward=[\"exactly\"]"}),
              AllOf(HasSubstr("there is no reward of this name"), HasSubstr("exact")));
  EXPECT_THAT(told({"reinforce.reward=[\"exact*x\"]"}), HasSubstr("the weight of a reward is no number"));
  EXPECT_THAT(told({"reinforce.reward=[]"}), HasSubstr("answers have no reward"));
  EXPECT_THAT(told({"reinforce.reward=[\"program\"]"}), HasSubstr("nothing to judge with"));
  EXPECT_THAT(told({"reinforce.reward=[\"puzzle\"]"}), HasSubstr("only puzzles"));
  EXPECT_THAT(told({"reinforce.prompts=300"}), HasSubstr("asks for more prompts than there are"));
  EXPECT_THAT(told({"reinforce.updates=3"}), HasSubstr("cannot be dealt out to its updates"));
  EXPECT_THAT(told({"reinforce.tokens=32"}), HasSubstr("longer than a row of the trainer"));
  EXPECT_THAT(told({"reinforce.group=1"}), HasSubstr("nothing to be compared with"));
  EXPECT_THAT(told({"reinforce.puzzles=[\"sudoku\"]"}), HasSubstr("not both"));
  EXPECT_THAT(told({"reinforce.prompts_file="}), HasSubstr("there are no prompts"));
  EXPECT_THAT(told({"model.vocabulary=7"}), HasSubstr("more entries than the model has rows"));
  EXPECT_THAT(told({"reinforce.replay_routes=true"}), HasSubstr("there are no routes to replay"));
  EXPECT_THAT(told({"reinforce.replay_routes=true", "model.experts=4", "parallel.pp=2"}),
              HasSubstr("routes are recorded where one rank has the whole model"));
  EXPECT_THAT(told({"reinforce.rollouts=ahead", "reinforce.correction=2"}),
              HasSubstr("nothing is left to correct"));
  EXPECT_THAT(told({"reinforce.exact=true"}),
              HasSubstr("the trainer cannot have the engine's bits"));  // fp64
  EXPECT_THAT(told({"reinforce.exact=true", "train.dtype=fp32", "model.wiring=parallel"}),
              HasSubstr("the trainer cannot have the engine's bits"));
  EXPECT_THAT(told({"reinforce.exact=true", "train.dtype=fp32", "parallel.tp=2"}),
              HasSubstr("tensor ranks add up in another order"));
  for (const char* stages : {"2:5", "2:4", "1:6", "2", "x:6", "3:6\", \"3:7"})
    EXPECT_THAT(told({fmt::format("reinforce.stages=[\"{}\"]", stages)}),
                HasSubstr("does not follow the one before it"))
        << stages;
  EXPECT_THAT(told({"reinforce.stages=[\"2:32\"]"}), HasSubstr("longer than a row of the trainer"));
  EXPECT_THAT(told({"reinforce.algorithm=gspo", "reinforce.sum=tokens"}),
              HasSubstr("a loss of whole answers"));
}

TEST_F(ReinforceRun, OtherPromptsThanBeforeAreRefused) {
  start("run", {"train.steps=2"});
  const std::string other = (folder_ / "other.jsonl").string();
  write_text_atomically(other, read_text(recipe_folder() + "closers-held-out.jsonl"));
  EXPECT_NE(refused([&] { start("run", {"reinforce.prompts_file=" + other}); }), "accepted");
}

}  // namespace
}  // namespace longhaul::posttrain
