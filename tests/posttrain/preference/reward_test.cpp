// ctest: label=full timeout=300
// Reward models: scores beside logits worked out answer by answer, the same on every layout, and what they
// learn.
#include "posttrain/preference/reward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "posttrain/preference/scored_answers.h"
#include "posttrain/tasks.h"
#include "recipe/load.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"

namespace longhaul::posttrain {
namespace {

using run::Words;
using run::operator+;
using ::testing::HasSubstr;

class RewardRuns : public run::RunFixture {
 protected:
  RewardRuns() {
    train::declare_options(tasks());
    std::ofstream pairs(folder_ / "pairs.jsonl"), scored(folder_ / "scored.jsonl");
    for (int i = 0; i < 60; ++i) {
      const std::string prompt = "item " + std::to_string(i);
      pairs << "{\"prompt\": \"" << prompt << "\", \"chosen\": \"yes " << i << "\", \"rejected\": \"no "
            << i % 7 << "\"}\n";
      scored << "{\"prompt\": \"" << prompt << "\", \"completion\": \"" << (i % 2 == 0 ? "good" : "poor")
             << "\", \"reward\": " << i % 2 * -2 + 1 << "}\n";
    }
  }
  recipe::LoadedRecipe recipe(const Words& more = {}) const {
    return recipe::load_defaults(Words{"model.layers=2",
                                       "model.hidden=24",
                                       "model.heads=2",
                                       "model.kv_heads=2",
                                       "model.head_dim=8",
                                       "model.vocabulary=258",
                                       "model.mixers=lightning,softmax",
                                       "model.intermediate=20",
                                       "model.rotary_dim=4",
                                       "data.tokenizer=bytes",
                                       "train.task=reward",
                                       "train.sequence=64",
                                       "train.batch=8",
                                       "train.micro_batch=4",
                                       "train.steps=30",
                                       "train.dtype=fp64",
                                       "train.evaluate_every=30",
                                       "train.checkpoint_every=0",
                                       "train.threads=1",
                                       "optim.lr=0.01",
                                       "optim.schedule=constant",
                                       "optim.warmup_steps=0",
                                       "sample.tokens=0",
                                       "observe.report=false",
                                       "observe.tensorboard=false",
                                       "preference.data=" + (folder_ / "pairs.jsonl").string(),
                                       "preference.held_out_percent=20",
                                       "data.cache=" + (folder_ / "cache").string()} +
                                 more);
  }
  void train(const std::string& name, const Words& more = {}) const {
    run::run_training({.recipe = recipe(more), .run_folder = folder_ / name, .quiet = true}, tasks());
  }
  Words regression() const {
    return {"reward.loss=regression", "preference.data=" + (folder_ / "scored.jsonl").string()};
  }
};

TEST_F(RewardRuns, ScoreIsTheLogitAfterTheLastToken) {
  const recipe::Recipe of = recipe().recipe;
  const data::Tokenizer bytes = data::Tokenizer::bytes();
  const RewardOptions options = reward_options(of);
  const parallel::Ranks alone;
  const SampleWish wish{.unit = SampleWish::Unit::kPairs, .sequence = 62, .vocabulary = 258};
  Reward task(of, options, 256, open_samples(options.data, AnswerEncoder(bytes, std::nullopt), wish, false),
              at::kCPU, alone);
  task.parameters().initialise(0);
  EXPECT_EQ(task.prepare(1).weight, 8);
  const at::NoGradGuard guard;
  const auto score_of = [&](const AnswerSample& sample, size_t answer) {
    std::vector<int64_t> ids(sample.prompt.begin(), sample.prompt.end());
    ids.insert(ids.end(), sample.answers[answer].begin(), sample.answers[answer].end());
    model::LocalOps ops;
    model::Context context(ops, task.precision());
    const auto tokens = static_cast<int64_t>(ids.size());
    const Tensor hidden =
        task.decoder().hidden(context, at::tensor(ids, at::kLong), layout::make_single(tokens));
    return task.decoder().logits(hidden)[tokens - 1][256].item<double>();
  };
  double expected = 0, found = 0;
  for (const int64_t i : task.samples_of_replica(1, 0)) {
    const AnswerSample& sample = task.samples().train.samples[static_cast<size_t>(i)];
    const double chosen = score_of(sample, 0), rejected = score_of(sample, 1);
    expected += std::log1p(std::exp(rejected - chosen));
    const std::vector<double> scored =
        scores_of_answers(task.decoder(), 256, {sample.prompt, sample.answers}, sample.where);
    ASSERT_EQ(scored.size(), 2u);
    EXPECT_NEAR(scored[0], chosen, 1e-12);
    EXPECT_NEAR(scored[1], rejected, 1e-12);
  }
  for (int64_t m = 0; m < 2; ++m) {
    model::LocalOps ops;
    model::Context context(ops, task.precision());
    found += task.forward(context, m, {}).item<double>();
  }
  EXPECT_NEAR(found, expected, 1e-9);
}

TEST(RankingAgreementOf, PairsAndRewards) {
  RankingAgreement agreement;
  EXPECT_EQ(agreement.share(), 0);
  agreement.add({.form = RowForm::kPair}, {2, 1});
  agreement.add({.form = RowForm::kPair}, {1, 1});
  EXPECT_EQ(agreement.pairs(), 2);
  EXPECT_EQ(agreement.share(), 0.75);
  agreement.add({.form = RowForm::kScored, .rewards = {0, 1, 1}}, {5, 6, 4});  // two pairs, one of them right
  EXPECT_EQ(agreement.pairs(), 4);
  EXPECT_EQ(agreement.share(), 0.625);
}

TEST_F(RewardRuns, ChosenAnswersScoreHigher) {
  train("run");
  const auto judged = events<observe::Evaluation>("run").back();
  EXPECT_GT(judged.metrics.at("accuracy"), 0.95);
  EXPECT_GT(judged.metrics.at("score_margin"), 1);
}

TEST_F(RewardRuns, ScoresFollowRewards) {
  train("run", regression());
  const auto judged = events<observe::Evaluation>("run").back();
  EXPECT_LT(*judged.loss, 0.1) << "a score of 0 for all would have 1";
  EXPECT_LT(judged.metrics.at("absolute_error"), 0.3);
}

TEST_F(RewardRuns, AreTheSameOnEveryLayout) {
  const std::vector<Words> layouts = {
      {"parallel.ranks=2", "parallel.zero=2"}, {"parallel.tp=2"}, {"parallel.pp=2"}, {"parallel.cp=2"}};
  for (const Words& loss :
       {Words{"reward.margin=0.3", "train.steps=4"}, regression() + Words{"train.steps=4"}}) {
    train("one", loss);
    for (const Words& layout : layouts) {
      train("other", loss + layout);
      const auto one = losses("one"), other = losses("other");
      ASSERT_EQ(one.size(), other.size());
      for (size_t s = 0; s < one.size(); ++s)
        EXPECT_NEAR(other[s], one[s], 1e-9) << layout.front() << ", step " << s + 1;
      std::filesystem::remove_all(folder_ / "other");
    }
    std::filesystem::remove_all(folder_ / "one");
  }
}

TEST_F(RewardRuns, RowOfTheScoresMustBeThere) {
  const auto refusal = [&](const Words& more) -> std::string {
    try {
      train("refused", more);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal({"reward.token=<|reward|>"}), HasSubstr("reward.token"));
  EXPECT_THAT(refusal({"reward.loss=regression"}), HasSubstr("answers with a \"reward\""));
}

}  // namespace
}  // namespace longhaul::posttrain
