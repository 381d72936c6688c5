// Pre-training beside a plain implementation in fp64: an attention model of a few lines of tensor operations,
// automatic differentiation, AdamW by hand, and the batches a loader of its own gives. What is compared:
// losses, gradient norms and every weight, step by step.
#include "language/pretrain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numbers>

#include "base/files/temporary_folder.h"
#include "data/template_tokenizer.h"
#include "evaluate/perplexity.h"
#include "recipe/load.h"
#include "support/models.h"
#include "support/refused.h"
#include "train/by_hand.h"
#include "train/trainer.h"

namespace longhaul::language {
namespace {

using longhaul::testing::id_tensor;
using ::testing::HasSubstr;
using train::testing::Tensors;

// One pre-norm layer of softmax attention without positions, SwiGLU, RMS norms, an untied head. The loss is a
// sum over labels.
struct PlainModel {
  int64_t heads, head_dim;
  double norm_eps;

  Tensor norm(const Tensor& x, const Tensor& weight) const {
    return x * (x.square().mean(-1, true) + norm_eps).rsqrt() * weight;
  }

  Tensor loss(const Tensors& w, const data::Batch& batch) const {
    const auto tokens = static_cast<int64_t>(batch.inputs.size());
    std::vector<int64_t> document_of(batch.inputs.size());
    for (int64_t d = 0; d < batch.layout.documents(); ++d) {
      for (int64_t t = batch.layout.document_offsets[static_cast<size_t>(d)];
           t < batch.layout.document_offsets[static_cast<size_t>(d) + 1]; ++t)
        document_of[static_cast<size_t>(t)] = d;
    }
    const Tensor document = id_tensor(document_of), place = at::arange(tokens, at::kLong);
    const Tensor hidden_from =
        (document.unsqueeze(1) != document.unsqueeze(0)).logical_or(place.unsqueeze(0) > place.unsqueeze(1));
    const auto head_wise = [&](const Tensor& x, const char* which) {
      return x.matmul(w.at(std::string("layers.0.mixer.") + which + ".weight").t())
          .view({tokens, heads, head_dim})
          .transpose(0, 1);
    };
    const auto channel = [&](const char* which) {
      return w.at(std::string("layers.0.channel.") + which + ".weight").t();
    };

    Tensor x = w.at("embedding.weight").index_select(0, id_tensor(batch.inputs));
    const Tensor h = norm(x, w.at("layers.0.mixer_norm.weight"));
    const Tensor scores = head_wise(h, "query").matmul(head_wise(h, "key").transpose(1, 2)) /
                          std::sqrt(static_cast<double>(head_dim));
    const Tensor seen = scores.masked_fill(hidden_from, -std::numeric_limits<double>::infinity())
                            .softmax(-1)
                            .matmul(head_wise(h, "value"));
    x = x + seen.transpose(0, 1)
                .reshape({tokens, heads * head_dim})
                .matmul(w.at("layers.0.mixer.output.weight").t());
    const Tensor g = norm(x, w.at("layers.0.channel_norm.weight")), gate = g.matmul(channel("gate"));
    x = x + (gate * gate.sigmoid() * g.matmul(channel("up"))).matmul(channel("down"));
    const Tensor log_p = norm(x, w.at("norm.weight")).matmul(w.at("head.weight").t()).log_softmax(-1);
    const Tensor labels = id_tensor(batch.labels),
                 each = -log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
    const Tensor weight =
        batch.weights.empty() ? at::ones_like(each) : at::tensor(batch.weights).to(at::kDouble);
    return (each * weight).masked_select(labels >= 0).sum();
  }
};

class PretrainByHand : public ::testing::Test {
 protected:
  explicit PretrainByHand(int documents = 40) {
    for (int d = 0; d < documents; ++d) {
      std::string text;
      for (int i = 0; i <= d % 5; ++i)
        text += "line " + std::to_string(i * d) + " of " + std::to_string(d) + "\n";
      std::filesystem::create_directories(folder_ / "text");
      write_text_atomically(folder_ / "text" / (std::to_string(d) + ".txt"), text);
    }
  }

  recipe::LoadedRecipe recipe(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> overrides{"model.layers=1",
                                       "model.hidden=8",
                                       "model.heads=2",
                                       "model.kv_heads=2",
                                       "model.head_dim=4",
                                       "model.vocabulary=257",
                                       "model.intermediate=12",
                                       "model.rotary_dim=4",
                                       "model.position=none",
                                       "data.tokenizer=bytes",
                                       "data.source=" + (folder_ / "text").string(),
                                       "data.held_out_percent=30",
                                       "train.dtype=fp64",
                                       "train.batch=4",
                                       "train.micro_batch=2",
                                       "train.sequence=24",
                                       "train.steps=8",
                                       "train.evaluate_every=0",
                                       "train.checkpoint_every=0",
                                       "train.seed=5",
                                       "optim.lr=0.02",
                                       "optim.eps=0.01",
                                       "optim.clip_norm=0.2",
                                       "optim.warmup_steps=3",
                                       "sample.tokens=0"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return recipe::load_defaults(overrides);
  }
  data::RunData open(const recipe::LoadedRecipe& of) const {
    return data::open_run_data(of.recipe.data, {}, folder_ / "cache");
  }
  std::unique_ptr<Pretrain> task(const recipe::LoadedRecipe& of, const data::RunData& data) const {
    auto task = std::make_unique<Pretrain>(of.recipe, data, folder_ / "packing", at::kCPU, alone_);
    task->parameters().initialise(static_cast<uint64_t>(of.recipe.train.seed));
    return task;
  }
  // The batch of each step as the recipe's words have it: `batch` samples a step, from the first one on.
  data::Batch batch(const recipe::LoadedRecipe& of, const data::RunData& data, int64_t step) const {
    data::LoaderOptions options{.sequence = of.recipe.train.sequence,
                                .seed = static_cast<uint64_t>(of.recipe.data.seed),
                                .index_folder = folder_ / "packing-of-the-test"};
    const data::Loader loader(data.train(), data::with_batch(options, of.recipe.train.batch));
    return loader.batch_at(step - 1);
  }
  static double labels(const data::Batch& batch) {
    double sum = 0;
    for (size_t i = 0; i < batch.labels.size(); ++i)
      sum += batch.labels[i] < 0 ? 0 : batch.weights.empty() ? 1 : static_cast<double>(batch.weights[i]);
    return sum;
  }
  static Tensors weights(Pretrain& task) {
    Tensors weights;
    for (const auto& spec : task.parameters().specs()) {
      size_t part = 0;
      const model::Parameter* holder = task.parameters().holder_of(spec.tensor.name, &part);
      weights[spec.tensor.name] = holder->part_of(holder->value.detach(), part).clone();
    }
    return weights;
  }
  static void expect_weights(Pretrain& task, const Tensors& expected) {
    for (const auto& [name, weight] : weights(task)) {
      EXPECT_LT((weight - expected.at(name)).abs().max().item<double>(), 1e-10) << name;
    }
  }

  // A run by hand: what the rate of each step, its loss and its norm must be, and the weights after it.
  struct Step {
    double lr, loss, norm;
    Tensors weights;
  };
  std::vector<Step> by_hand(const recipe::LoadedRecipe& of, const data::RunData& data, Tensors weights,
                            int64_t steps) const {
    const auto& [train, optim] = std::pair(of.recipe.train, of.recipe.optim);
    const PlainModel model{of.recipe.model.heads, of.recipe.model.head_dim, of.recipe.model.norm_eps};
    train::testing::AdamwByHand adamw(optim);
    std::vector<Step> result;
    for (int64_t s = 1; s <= steps; ++s) {
      const data::Batch batch = this->batch(of, data, s);
      Tensors leaves, gradients;
      for (const auto& [name, weight] : weights) leaves[name] = weight.detach().clone().requires_grad_(true);
      const Tensor loss = model.loss(leaves, batch) / labels(batch);
      loss.backward();
      for (const auto& [name, leaf] : leaves) gradients[name] = leaf.grad();
      const double warmup = static_cast<double>(optim.warmup_steps), at = static_cast<double>(s),
                   length = static_cast<double>(train.steps);
      const double share =
          at < warmup
              ? at / warmup
              // cosine to a tenth
              : 0.1 + 0.9 * 0.5 * (1 + std::cos(std::numbers::pi * (at - warmup) / (length - warmup)));
      Step step{.lr = optim.lr * share, .loss = loss.item<double>()};
      step.norm = adamw.step(weights, gradients, step.lr);
      step.weights = weights;
      result.push_back(std::move(step));
    }
    return result;
  }

  TemporaryFolder folder_;
  parallel::Ranks alone_;
};

TEST_F(PretrainByHand, TwoStepsAreTheOnesWorkedOut) {
  const auto recipe = this->recipe();
  const data::RunData data = open(recipe);
  const auto task = this->task(recipe, data);
  const auto expected = by_hand(recipe, data, weights(*task), 2);
  ASSERT_GT(expected[0].norm, recipe.recipe.optim.clip_norm) << "clipping is not seen";
  const auto optimizer = optim::make_optimizer(recipe.recipe.optim, task->parameters(), task->precision());
  parallel::Ranks ranks;
  for (int64_t s = 1; s <= 2; ++s) {
    const Step& by_hand = expected[static_cast<size_t>(s - 1)];
    const train::StepResult result = train::run_step(
        *task, *optimizer, ranks, s, {.lr = by_hand.lr, .clip_norm = recipe.recipe.optim.clip_norm});
    EXPECT_NEAR(result.loss, by_hand.loss, 1e-12);
    EXPECT_NEAR(result.gradient_norm, by_hand.norm, 1e-12);
    expect_weights(*task, by_hand.weights);
  }
}

// Masks alone, which the usual loss takes, and weights, which the loss of single tokens takes.
TEST_F(PretrainByHand, TokensThatTheDataWeighsAreTheOnesWorkedOut) {
  for (const std::string loss_on : {"completion", "parts"}) {
    const bool parts = loss_on == "parts";
    std::string rows;
    for (int d = 0; d < 60; ++d) {
      const std::string ask = "ask " + std::to_string(d * 7) + " ",
                        answer = std::string(static_cast<size_t>(d % 9), 'a') + std::to_string(d);
      rows += parts ? R"({"text": [{"text": ")" + ask + R"(", "loss": 0.25}, {"text": ")" + answer +
                          R"("}, {"text": "!", "loss": false}]})"
                    : R"({"prompt": ")" + ask + R"(", "completion": ")" + answer + "\"}";
      rows += "\n";
    }
    write_text_atomically(folder_ / (loss_on + ".jsonl"), rows);
    const auto recipe =
        this->recipe({"data.source=" + (folder_ / (loss_on + ".jsonl")).string(), "data.loss_on=" + loss_on});
    const data::RunData data = open(recipe);
    const auto task = this->task(recipe, data);
    const auto expected = by_hand(recipe, data, weights(*task), 2);
    const auto optimizer = optim::make_optimizer(recipe.recipe.optim, task->parameters(), task->precision());
    parallel::Ranks ranks;
    for (int64_t s = 1; s <= 2; ++s) {
      const Step& by_hand = expected[static_cast<size_t>(s - 1)];
      const data::Batch batch = this->batch(recipe, data, s);
      const train::StepResult result = train::run_step(
          *task, *optimizer, ranks, s, {.lr = by_hand.lr, .clip_norm = recipe.recipe.optim.clip_norm});
      EXPECT_EQ(result.work.weight, labels(batch));
      EXPECT_DOUBLE_EQ(result.work.auxiliary_scale(),
                       labels(batch) / static_cast<double>(batch.inputs.size()));
      EXPECT_LT(labels(batch), static_cast<double>(batch.inputs.size()) * (parts ? 0.7 : 0.6))
          << "most tokens count";
      EXPECT_NEAR(result.loss, by_hand.loss, 1e-12) << loss_on;
      EXPECT_NEAR(result.gradient_norm, by_hand.norm, 1e-12) << loss_on;
      expect_weights(*task, by_hand.weights);
    }
  }
}

TEST_F(PretrainByHand, MaskedTokensRefuseDataThatSaysWhatCounts) {
  write_text_atomically(folder_ / "rows.jsonl",
                        "{\"prompt\": \"a question\", \"completion\": \"an answer\"}\n{\"prompt\": \"b\", "
                        "\"completion\": \"c\"}\n");
  const auto recipe = this->recipe({"data.source=" + (folder_ / "rows.jsonl").string(),
                                    "data.loss_on=completion", "data.held_out_percent=0",
                                    "train.objective=masked", "model.causal=false", "model.vocabulary=258"});
  const data::RunData data = open(recipe);
  try {
    task(recipe, data);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(error.fields().found, "train.objective = masked");
  }
}

TEST_F(PretrainByHand, TheLossCurveOfAWholeRunIsTheOneWorkedOut) {
  const auto recipe = this->recipe();
  const data::RunData data = open(recipe);
  const auto task = this->task(recipe, data);
  const auto expected = by_hand(recipe, data, weights(*task), 8);
  const auto optimizer = optim::make_optimizer(recipe.recipe.optim, task->parameters(), task->precision());
  observe::EventWriter events({.path = folder_ / "run" / "events.jsonl"});
  train::RunControl nobody;
  parallel::Ranks ranks;
  train::Trainer(*task, *optimizer, ranks, events, storage::local_file_system(), nobody,
                 {.recipe = recipe, .run_folder = folder_ / "run"})
      .run();
  size_t s = 0;
  for (const auto& event : observe::read_events(folder_ / "run" / "events.jsonl")) {
    const auto* step = std::get_if<observe::StepReport>(&event.body);
    if (step == nullptr) continue;
    EXPECT_NEAR(step->loss, expected[s].loss, 1e-11) << "step " << s + 1;
    EXPECT_NEAR(step->grad_norm, expected[s].norm, 1e-11) << "step " << s + 1;
    EXPECT_NEAR(step->learning_rate, expected[s].lr, 1e-15) << "step " << s + 1;
    ++s;
  }
  EXPECT_EQ(s, 8u);
  EXPECT_LT(expected.back().loss, expected.front().loss - 0.1) << "a run that learns nothing shows little";
  expect_weights(*task, expected.back().weights);
}

// So little text that the first batch holds the end of it, and with that padding.
class PretrainOnLittle : public PretrainByHand {
 protected:
  PretrainOnLittle() : PretrainByHand(3) {}
};

TEST_F(PretrainOnLittle, TheFirstStepTakesTheFirstBatchAndWeighsItsLabels) {
  const auto recipe = this->recipe();
  const data::RunData data = open(recipe);
  const auto task = this->task(recipe, data);
  const data::Batch first = batch(recipe, data, 1), second = batch(recipe, data, 2);
  ASSERT_LT(labels(first), 4 * 24) << "no padding";
  const train::StepWork work = task->prepare(1);
  EXPECT_EQ(work.micro_batches, 2);
  EXPECT_EQ(work.tokens, 4 * 24);
  EXPECT_EQ(work.weight, labels(first));

  model::LocalOps ops;
  double loss = 0;
  for (int64_t m = 0; m < work.micro_batches; ++m) {
    model::Context context(ops, task->precision());
    loss += task->forward(context, m, {}).item<double>();
  }
  const PlainModel model{2, 4, recipe.recipe.model.norm_eps};
  EXPECT_NEAR(loss, model.loss(weights(*task), first).item<double>(), 1e-9);
  EXPECT_GT(std::abs(loss - model.loss(weights(*task), second).item<double>()), 1e-3)
      << "two batches alike tell nothing";
}

// A token that was added above the rows of a model: training takes the tokenizer as long as no text holds
// that token.
TEST_F(PretrainByHand, ATokenWithoutARowIsRefusedWhereATextHoldsIt) {
  const std::filesystem::path tokenizer = folder_ / "tokenizer.json";
  data::bytes_with("</s>", {"<pad>"}).save(tokenizer);
  const std::string named = "data.tokenizer=" + tokenizer.string();
  const auto refusal = [&](const std::vector<std::string>& more) {
    const auto recipe = this->recipe(more);
    const data::RunData data = open(recipe);
    return longhaul::testing::refused([&] { task(recipe, data); });
  };
  const auto recipe = this->recipe({named});
  const data::RunData data = open(recipe);
  EXPECT_EQ(data.tokenizer.vocabulary(), 258);
  EXPECT_NO_THROW(task(recipe, data));
  EXPECT_THAT(refusal({named, "sample.prompt=a<pad>"}), HasSubstr("sample.prompt"));
  EXPECT_THAT(refusal({named, "train.objective=masked"}), HasSubstr("at most 257"));
  EXPECT_THAT(refusal({named, "model.vocabulary=256"}), HasSubstr("</s> is token 256"));
  write_text_atomically(folder_ / "text" / "more.txt", "one more <pad> text");
  EXPECT_THAT(refusal({named}), ::testing::AllOf(HasSubstr("id 257 as token 10 of document"),
                                                 HasSubstr("model.vocabulary=258")));
}

// Also where nothing is trained any more because the run goes on at its end.
TEST_F(PretrainByHand, HeldOutTextsAreReadInSequencesOfTheLastStep) {
  const auto recipe = this->recipe({"optim.stages=[{from_step=4, sequence=36}]"});
  const data::RunData data = open(recipe);
  const auto task = this->task(recipe, data);
  const auto expected = [&](int64_t sequence) {
    data::EvaluationReader reader(data.held_out(), {.context = sequence, .tokens_per_batch = 2 * sequence});
    return evaluate::evaluate(task->decoder(), reader)->loss;
  };
  const double of_short = expected(24), of_long = expected(36);
  ASSERT_GT(std::abs(of_short - of_long), 1e-9);
  const auto found = [&] { return task->evaluate(/*whole=*/true, [] { return true; })->at("loss"); };
  EXPECT_NEAR(found(), of_short, 1e-12);
  task->continue_after(4);
  EXPECT_NEAR(found(), of_long, 1e-12);
  task->continue_after(3);
  EXPECT_NEAR(found(), of_short, 1e-12) << "the run has gone back";
  EXPECT_EQ(task->prepare(4).tokens, 4 * 36);
  EXPECT_NEAR(found(), of_long, 1e-12);
}

TEST_F(PretrainByHand, OnTheWayAPartOfTheHeldOutTextIsReadAtTheEndAllOfIt) {
  const auto recipe = this->recipe({"train.evaluate_tokens=60"});
  const data::RunData data = open(recipe);
  const auto task = this->task(recipe, data);
  const auto expected = [&](int64_t limit) {
    data::EvaluationReader reader(data.held_out(),
                                  {.context = 24, .tokens_per_batch = 48, .limit_tokens = limit});
    return *evaluate::evaluate(task->decoder(), reader);
  };
  const auto part = expected(60), all = expected(0);
  int64_t documents_and_tokens = 0;
  for (const data::TokenDataset* side : data.held_out())
    documents_and_tokens += side->tokens() + side->documents();
  ASSERT_EQ(all.tokens, documents_and_tokens);
  ASSERT_LT(part.tokens, all.tokens - 24);
  int batches = 0;
  const auto count = [&] {
    ++batches;
    return true;
  };
  const auto on_the_way = task->evaluate(/*whole=*/false, count);
  const int batches_on_the_way = std::exchange(batches, 0);
  const auto whole = task->evaluate(/*whole=*/true, count);
  EXPECT_NEAR(on_the_way->at("loss"), part.loss, 1e-12);
  EXPECT_NEAR(whole->at("loss"), all.loss, 1e-12);
  EXPECT_NEAR(whole->at("bits_per_byte"), all.bits_per_byte, 1e-12);
  EXPECT_GT(std::abs(all.loss - part.loss), 1e-9) << "the two tell nothing apart";
  EXPECT_LT(batches_on_the_way, batches);
  EXPECT_FALSE(task->evaluate(true, [] { return false; })) << "told to stop";
}

}  // namespace
}  // namespace longhaul::language
