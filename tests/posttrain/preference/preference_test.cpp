// ctest: label=full timeout=300
// Preference learning as whole runs: losses beside log-probabilities worked out answer by answer, the same
// numbers on every layout and micro-batch, a resume to the bit, and what is refused.
#include "posttrain/preference/preference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/files/file.h"
#include "checkpoint/starting_point.h"
#include "posttrain/tasks.h"
#include "recipe/load.h"
#include "run/run.h"
#include "run/run_fixture.h"
#include "run/words.h"
#include "storage/catalog.h"

namespace longhaul::posttrain {
namespace {

using run::Words;
using run::operator+;
using ::testing::HasSubstr;

Words preference_words() {
  return {"model.layers=2",
          "model.hidden=24",
          "model.heads=2",
          "model.kv_heads=2",
          "model.head_dim=8",
          "model.vocabulary=257",
          "model.mixers=lightning,softmax",
          "model.intermediate=20",
          "model.rotary_dim=4",
          "data.tokenizer=bytes",
          "train.task=preference",
          "train.sequence=64",
          "train.batch=8",
          "train.micro_batch=2",
          "train.steps=6",
          "train.dtype=fp64",
          "train.evaluate_every=3",
          "train.checkpoint_every=3",
          "train.threads=1",
          "optim.lr=0.01",
          "optim.schedule=constant",
          "optim.warmup_steps=0",
          "sample.tokens=0",
          "observe.report=false",
          "observe.tensorboard=false"};
}

class PreferenceRuns : public run::RunFixture {
 protected:
  PreferenceRuns() {
    train::declare_options(tasks());
    std::ofstream pairs(folder_ / "pairs.jsonl"), scored(folder_ / "scored.jsonl");
    for (int i = 0; i < 60; ++i) {
      const int a = i % 9, b = (i * 7) % 10;
      const std::string prompt = std::to_string(i) + ": " + std::to_string(a) + "+" + std::to_string(b) + "=";
      pairs << "{\"prompt\": \"" << prompt << "\", \"chosen\": \"" << a + b << "\", \"rejected\": \""
            << a + b + 1 + i % 3 << " or so\"}\n";
      scored << "{\"prompt\": \"" << prompt << "\", \"completions\": [\"" << a + b << "\", \"x" << i
             << "\", \"none\"], \"rewards\": [1, " << 0.1 * (i % 5) << ", 0]}\n";
    }
  }
  recipe::LoadedRecipe recipe(const Words& more = {}) const {
    return recipe::load_defaults(preference_words() +
                                 Words{"preference.data=" + (folder_ / "pairs.jsonl").string(),
                                       "preference.held_out_percent=20",
                                       "data.cache=" + (folder_ / "cache").string()} +
                                 more);
  }
  train::Outcome train(const std::string& name, const Words& more = {}) const {
    return run_training({.recipe = recipe(more), .run_folder = folder_ / name, .quiet = true}, tasks());
  }
  static train::Outcome run_training(run::RunRequest request, train::TaskEntries entries) {
    return run::run_training(std::move(request), entries);
  }
  Words of_scored() const { return {"preference.data=" + (folder_ / "scored.jsonl").string()}; }
  std::unique_ptr<Preference> task(const recipe::Recipe& of, const parallel::Ranks& ranks) const {
    const PreferenceOptions options = preference_options(of);
    const data::Tokenizer bytes = data::Tokenizer::bytes();
    return std::make_unique<Preference>(
        of, options,
        open_samples(
            options.data, AnswerEncoder(bytes, std::nullopt),
            {.unit = unit_of(options.loss), .sequence = of.train.sequence, .vocabulary = of.model.vocabulary},
            false),
        at::kCPU, ranks);
  }
  std::string refusal(const Words& more) const {
    try {
      train("refused", more);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }
  double near(const std::string& a, const std::string& b) const {
    double most = 0;
    const auto one = losses(a), two = losses(b);
    EXPECT_EQ(one.size(), two.size());
    for (size_t i = 0; i < std::min(one.size(), two.size()); ++i)
      most = std::max(most, std::abs(one[i] - two[i]));
    return most;
  }
};

// The log-probability of an answer, one token after the other, by the whole model on a row of its own.
double by_hand(Preference& task, const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer) {
  std::vector<int64_t> ids(prompt.begin(), prompt.end());
  ids.insert(ids.end(), answer.begin(), answer.end());
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, task.precision());
  const auto tokens = static_cast<int64_t>(ids.size());
  const Tensor logits = task.decoder().logits(
      task.decoder().hidden(context, at::tensor(ids, at::kLong), layout::make_single(tokens)));
  double sum = 0;
  for (int64_t t = static_cast<int64_t>(prompt.size()); t < tokens; ++t)
    sum += logits[t - 1].log_softmax(0)[ids[t]].item<double>();
  return sum;
}

double nats_of_step(Preference& task, int64_t micro_batches) {
  const at::NoGradGuard guard;
  double sum = 0;
  for (int64_t m = 0; m < micro_batches; ++m) {
    model::LocalOps ops;
    model::Context context(ops, task.precision());
    sum += task.forward(context, m, {}).item<double>();
  }
  return sum;
}

double log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }

TEST_F(PreferenceRuns, LossIsThatOfTheAnswersOneByOne) {
  const recipe::Recipe of = recipe({"preference.beta=0.3"}).recipe;
  const parallel::Ranks alone;
  const auto trained = task(of, alone);
  trained->parameters().initialise(0);
  train::StepWork work = trained->prepare(1);
  EXPECT_EQ(work.micro_batches, 4);
  EXPECT_EQ(work.weight, 8);
  EXPECT_NEAR(nats_of_step(*trained, 4), 8 * std::log(2.0), 1e-9) << "the policy is the reference";
  // Another policy beside the same reference.
  const std::vector<int64_t> samples = trained->samples_of_replica(2, 0);
  std::vector<double> before;
  const auto& all = trained->samples().train.samples;
  const auto of_pair = [&](int64_t i, size_t answer) {
    return by_hand(*trained, all[static_cast<size_t>(i)].prompt, all[static_cast<size_t>(i)].answers[answer]);
  };
  for (const int64_t i : samples) before.push_back(of_pair(i, 0) - of_pair(i, 1));
  trained->parameters().initialise(1);
  work = trained->prepare(2);
  double expected = 0, margin = 0, accuracy = 0;
  int64_t tokens = 0;
  for (size_t n = 0; n < samples.size(); ++n) {
    const double h = of_pair(samples[n], 0) - of_pair(samples[n], 1) - before[n];
    expected -= log_sigmoid(0.3 * h);
    margin += 0.3 * h;
    accuracy += h > 0 ? 1 : 0;
    tokens += all[static_cast<size_t>(samples[n])].inputs();
  }
  EXPECT_NEAR(nats_of_step(*trained, 4), expected, 1e-9);
  EXPECT_EQ(work.tokens, tokens);
  const auto metrics = trained->step_metrics();
  EXPECT_NEAR(metrics.at("reward_margin").sum, margin, 1e-9);
  EXPECT_EQ(metrics.at("reward_margin").weight, 8);
  EXPECT_EQ(metrics.at("accuracy").sum, accuracy);
}

// The divergence of KTO: every prompt with the answer to the next one that differs.
TEST_F(PreferenceRuns, KtoMeasuresItsDivergenceOnOtherAnswers) {
  const recipe::Recipe of =
      recipe({"preference.loss=kto", "preference.beta=0.3", "preference.desirable_weight=1.5"}).recipe;
  const parallel::Ranks alone;
  const auto trained = task(of, alone);
  trained->parameters().initialise(0);
  trained->prepare(1);
  EXPECT_NEAR(trained->divergence(), 0, 1e-12);
  const auto& all = trained->samples().train.samples;
  const std::vector<int64_t> samples = trained->samples_of_replica(2, 0);
  std::vector<double> own, other;
  const auto measure = [&] {
    own.clear(), other.clear();
    for (const int64_t i : samples) {
      const AnswerSample& sample = all[static_cast<size_t>(i)];
      size_t next = (static_cast<size_t>(i) + 1) % all.size();
      while (all[next].prompt == sample.prompt) next = (next + 1) % all.size();
      own.push_back(by_hand(*trained, sample.prompt, sample.answers[0]));
      other.push_back(by_hand(*trained, sample.prompt, all[next].answers[0]));
    }
  };
  measure();
  const std::vector<double> own_reference = own, other_reference = other;
  for (int64_t seed = 1; seed < 4; ++seed) {  // the estimate is 0 where the answers became less likely
    trained->parameters().initialise(static_cast<uint64_t>(seed));
    trained->prepare(2);
    measure();
    double divergence = 0, expected = 0;
    for (size_t n = 0; n < samples.size(); ++n) divergence += (other[n] - other_reference[n]) / 8;
    divergence = std::max(0.0, divergence);
    EXPECT_NEAR(trained->divergence(), divergence, 1e-9) << seed;
    for (size_t n = 0; n < samples.size(); ++n) {
      const double r = 0.3 * (own[n] - own_reference[n] - divergence);
      const bool good = all[static_cast<size_t>(samples[n])].good;
      expected += good ? 1.5 * (1 - std::exp(log_sigmoid(r))) : 1 - std::exp(log_sigmoid(-r));
    }
    EXPECT_NEAR(nats_of_step(*trained, 4), expected, 1e-9) << seed;
  }
}

TEST_F(PreferenceRuns, RewardsWeighAnswersOfOnePromptAgainstEachOther) {
  const recipe::Recipe of =
      recipe(of_scored() + Words{"preference.loss=reward_weighted", "preference.beta=0.5"}).recipe;
  const parallel::Ranks alone;
  const auto trained = task(of, alone);
  trained->parameters().initialise(0);
  const train::StepWork work = trained->prepare(1);
  const auto& all = trained->samples().train.samples;
  double expected = 0, weight = 0;
  for (const int64_t i : trained->samples_of_replica(1, 0)) {
    const AnswerSample& sample = all[static_cast<size_t>(i)];
    double mean = 0;
    for (const AnswerSample& other : all) mean += other.prompt == sample.prompt ? other.reward / 3 : 0;
    const double w = std::exp((sample.reward - mean) / 0.5);
    expected -= w * by_hand(*trained, sample.prompt, sample.answers[0]);
    weight += w * static_cast<double>(sample.answers[0].size());
  }
  EXPECT_NEAR(work.weight, weight, 1e-9);
  EXPECT_NEAR(nats_of_step(*trained, 4), expected, 1e-8);
}

class EachPreferenceLoss : public PreferenceRuns, public ::testing::WithParamInterface<const char*> {
 protected:
  Words words() const {
    Words all = {std::string("preference.loss=") + GetParam(), "preference.beta=0.4"};
    if (std::string(GetParam()) == "reward_weighted") all = all + of_scored();
    return all;
  }
};

TEST_P(EachPreferenceLoss, IsTheSameOnEveryLayoutAndMicroBatch) {
  train("one", words());
  ASSERT_EQ(losses("one").size(), 6u);
  const std::vector<std::pair<std::string, Words>> others = {
      {"whole", {"train.micro_batch=8"}},
      {"dp", {"parallel.ranks=2"}},
      {"zero3", {"parallel.ranks=2", "parallel.zero=3"}},
      {"tp", {"parallel.tp=2"}},
      {"pp", {"parallel.pp=2"}},
      {"cp", {"parallel.cp=2"}},
  };
  for (const auto& [name, more] : others) {
    train(name, words() + more);
    EXPECT_LT(near("one", name), 1e-9) << name;
    const auto one = events<observe::Evaluation>("one"), other = events<observe::Evaluation>(name);
    ASSERT_EQ(one.size(), other.size());
    for (size_t e = 0; e < one.size(); ++e) {
      EXPECT_NEAR(*other[e].loss, *one[e].loss, 1e-9) << name;
      for (const auto& [metric, value] : one[e].metrics) {
        if (metric.ends_with("_seconds")) continue;
        EXPECT_NEAR(other[e].metrics.at(metric), value, 1e-8) << name << ", " << metric;
      }
    }
    const auto steps = events<observe::StepReport>("one"), others_steps = events<observe::StepReport>(name);
    for (const auto& [metric, value] : steps.back().metrics) {
      if (metric.ends_with("_seconds")) continue;
      EXPECT_NEAR(others_steps.back().metrics.at(metric), value, 1e-8) << name << ", " << metric;
    }
  }
}

TEST_P(EachPreferenceLoss, GoesOnToTheBit) {
  train("whole", words() + Words{"train.dtype=fp32"});
  train("parts", words() + Words{"train.dtype=fp32", "train.steps=3"});
  train("parts", words() + Words{"train.dtype=fp32"});
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(*events<observe::Evaluation>("parts").back().loss,
            *events<observe::Evaluation>("whole").back().loss);
}

INSTANTIATE_TEST_SUITE_P(Each, EachPreferenceLoss,
                         ::testing::Values("dpo", "ipo", "kto", "orpo", "simpo", "reward_weighted",
                                           "rejection"),
                         [](const auto& of) { return std::string(of.param); });

TEST_F(PreferenceRuns, AnswersThatWereChosenWin) {
  train("run", {"train.steps=40", "train.evaluate_every=40", "train.checkpoint_every=0"});
  const auto judged = events<observe::Evaluation>("run").back();
  EXPECT_GT(judged.metrics.at("accuracy"), 0.95);
  EXPECT_GT(judged.metrics.at("reward_margin"), 0.1);
  EXPECT_LT(*judged.loss, std::log(2.0));
}

TEST_F(PreferenceRuns, ReferenceIsSavedAndOnlyWhereItIsNeeded) {
  const auto saved = [&](const std::string& name) {
    const auto found =
        storage::list_checkpoints(storage::local_file_system(), folder_ / name / "checkpoints");
    return storage::Checkpoint::open(storage::local_file_system(), found.front().path)
        .manifest()
        .tensors.contains("task.reference.train");
  };
  train("dpo", {"train.steps=1"});
  train("orpo", {"train.steps=1", "preference.loss=orpo"});
  EXPECT_TRUE(saved("dpo"));
  EXPECT_FALSE(saved("orpo"));
}

// The template of a run lies in its folder, where the next run finds it beside the tokenizer, and takes it
// along.
TEST_F(PreferenceRuns, ConversationsTakeTheTemplateOfTheRunThatTheyBeginWith) {
  train("base", {"train.steps=1", "train.evaluate_every=0"});
  const std::string source =
      "{% for m in messages %}{{ m.role }}:{{ m.content }}{{ '<|end_of_document|>' }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}";
  std::ofstream(folder_ / "base" / "chat_template.jinja") << source;
  std::ofstream file(folder_ / "said.jsonl");
  for (int i = 0; i < 40; ++i)
    file << "{\"prompt\": [{\"role\": \"user\", \"content\": \"" << i
         << "\"}], \"chosen\": \"a\", \"rejected\": \"b\"}\n";
  file.close();
  const Words words = {"preference.data=" + (folder_ / "said.jsonl").string(),
                       "data.tokenizer=" + (folder_ / "base" / "tokenizer.json").string(), "train.steps=2",
                       "train.evaluate_every=0"};
  run_training({.recipe = recipe(words),
                .run_folder = folder_ / "next",
                .from = checkpoint::StartingPoint::open(folder_ / "base"),
                .quiet = true},
               tasks());
  EXPECT_EQ(losses("next").size(), 2u);
  EXPECT_NEAR(losses("next").front(), std::log(2.0), 1e-9) << "the reference is the model that it began with";
  EXPECT_EQ(read_text(folder_ / "next" / "chat_template.jinja"), source);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "next" / "tokenizer.json"));
}

TEST_F(PreferenceRuns, OtherAnswersAreNoContinuation) {
  train("refused", {"train.steps=3"});
  std::ofstream(folder_ / "pairs.jsonl", std::ios::app)
      << "{\"prompt\": \"new\", \"chosen\": \"a\", \"rejected\": \"b\"}\n";
  EXPECT_THAT(refusal({}), HasSubstr("other answers than it began with"));
}

TEST_F(PreferenceRuns, WhatCannotBeIsRefusedBeforeAnythingIsWritten) {
  EXPECT_THAT(refusal({"preference.data="}), HasSubstr("preference.data=PAIRS.jsonl"));
  EXPECT_THAT(refusal({"data.tokenizer=train", "data.vocabulary=257"}), HasSubstr("--from RUN"));
  EXPECT_THAT(refusal({"preference.loss=simpo", "preference.per_token=true"}),
              HasSubstr("preference.per_token"));
  EXPECT_THAT(refusal({"train.objective=masked"}), HasSubstr("train.objective"));
  EXPECT_THAT(refusal({"train.sequence=8"}), HasSubstr("too long"));
  EXPECT_THAT(refusal(Words{"preference.loss=kto"} + of_scored()), HasSubstr("\"label\""));
}

}  // namespace
}  // namespace longhaul::posttrain
