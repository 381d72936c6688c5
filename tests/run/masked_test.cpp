// ctest: label=full timeout=300
// Training on masked tokens, with models that read whole documents: what counts, the same on any ranks and
// continued, and that what stands behind a token is used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "data/order/masked.h"
#include "language/pretrain.h"
#include "observe/events/event_log.h"
#include "recipe/load.h"
#include "run/language_run.h"
#include "run/run_fixture.h"
#include "tensor/to_tensor.h"

namespace longhaul::run {
namespace {

// Texts of pairs of one random letter: "kkddaazz…". What a masked first one of a pair is, the one behind it
// says, and nobody else.
std::string pairs(int64_t document, int64_t count) {
  const RandomStream letters(3, "test/pairs");
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text +=
        std::string(2, static_cast<char>('a' + letters.below(static_cast<uint64_t>(document * 1000 + i), 8)));
  return text;
}

class MaskedRun : public RunFixture {
 protected:
  MaskedRun() {
    std::filesystem::create_directories(folder_ / "text");
    for (int64_t d = 0; d < 40; ++d)
      write_text_atomically(folder_ / "text" / (std::to_string(d) + ".txt"), pairs(d, 40 + d % 7));
  }
  recipe::LoadedRecipe recipe(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"model.layers=2",
                                   "model.hidden=32",
                                   "model.heads=2",
                                   "model.kv_heads=2",
                                   "model.head_dim=16",
                                   "model.vocabulary=258",
                                   "model.mixers=lightnet,softmax",
                                   "model.lightnet.positions=true",
                                   "model.causal=false",
                                   "model.intermediate=32",
                                   "model.rotary_dim=16",
                                   "data.tokenizer=bytes",
                                   "data.source=" + (folder_ / "text").string(),
                                   "data.cache=" + (folder_ / "cache").string(),
                                   "data.held_out_percent=20",
                                   "train.objective=masked",
                                   "train.masked_share=0.2",
                                   "train.sequence=33",
                                   "train.batch=8",
                                   "train.micro_batch=4",
                                   "train.steps=8",
                                   "train.dtype=fp64",
                                   "train.evaluate_every=4",
                                   "train.checkpoint_every=4",
                                   "train.threads=1",
                                   "optim.lr=0.01",
                                   "optim.warmup_steps=2",
                                   "optim.schedule=constant",
                                   "observe.tensorboard=false",
                                   "observe.report=false"};
    words.insert(words.end(), more.begin(), more.end());
    return recipe::load_defaults(words);
  }
  train::Outcome run(const std::string& name, const std::vector<std::string>& more = {}) const {
    return run_training({.recipe = recipe(more), .run_folder = folder_ / name, .quiet = true});
  }
};

// The loss of steps, worked out from the batches of a loader and the logits of each row by itself: −log p of
// the byte that was masked, where it was.
TEST_F(MaskedRun, TheLossCountsMaskedTokensAndTheyAlone) {
  const recipe::Recipe recipe = this->recipe().recipe;
  const data::RunData data = data::open_run_data(recipe.data, {}, folder_ / "cache");
  parallel::Ranks alone;
  language::Pretrain task(recipe, data, folder_ / "packing", at::kCPU, alone);
  task.parameters().initialise(0);
  const data::Loader loader(data.train(),
                            data::with_batch({.sequence = 33, .index_folder = folder_ / "packing"}, 8));
  const RandomStream stream(0, "data/masked");
  const at::NoGradGuard guard;
  for (const int64_t step : {int64_t{1}, int64_t{5}}) {
    const train::StepWork work = task.prepare(step);
    double nats = 0, expected = 0, weight = 0;
    for (int64_t m = 0; m < work.micro_batches; ++m) {
      model::LocalOps ops;
      model::Context context(ops, task.precision());
      nats += task.forward(context, m, {}).item<double>();
    }
    const data::Batch batch = loader.batch_at(step - 1);
    std::vector<int64_t> inputs = batch.inputs;
    std::vector<size_t> masked;
    for (size_t t = 0; t < inputs.size(); ++t) {
      const auto number = static_cast<uint64_t>((step - 1) * 8 * 33) + t;
      if (inputs[t] == 256 || stream.uniform(number) >= 0.2) continue;
      masked.push_back(t);
      inputs[t] = 257;
    }
    model::LocalOps ops;
    model::Context context(ops, task.precision());
    const Tensor log_p =
        task.decoder().logits(task.decoder().hidden(context, to_tensor(inputs), batch.layout)).log_softmax(1);
    for (const size_t t : masked) {
      expected -= log_p[static_cast<int64_t>(t)][batch.inputs[t]].item<double>();
      weight += 1;
    }
    EXPECT_GT(weight, 20);
    EXPECT_EQ(work.weight, weight);
    EXPECT_EQ(work.tokens, 8 * 33);
    EXPECT_NEAR(nats, expected, 1e-9);
  }
}

// Documents of one letter, twice to five times: "kkk". Who reads a whole document knows a masked letter
// unless all others are masked too: with a fifth masked, of two, three, four and five of them 2.77 · (2 · 0.2
// + 3 · 0.04 + …) / 14 = 0.11 nats are left of the ln 16 = 2.77 of a letter that nobody knows. Who reads
// those before it never knows the first one, one of 3.5 in the mean: at least 0.79.
TEST_F(MaskedRun, LearnsWhatOnlyTheTokensBehindATokenSay) {
  const std::filesystem::path documents = folder_ / "letters.jsonl";
  std::string lines;
  for (int64_t i = 0; i < 640; ++i)
    lines += "{\"text\": \"" +
             std::string(static_cast<size_t>(2 + i % 4), static_cast<char>('a' + i * 7 / 4 % 16)) + "\"}\n";
  write_text_atomically(documents, lines);
  const auto learned = [&](const std::string& name, std::vector<std::string> words) {
    words.insert(words.begin(), {"data.source=" + documents.string(), "train.steps=200", "train.batch=16",
                                 "train.micro_batch=16", "train.dtype=fp32", "train.evaluate_every=200",
                                 "train.checkpoint_every=0"});
    run(name, words);
    const auto last = events<observe::Evaluation>(name).back();
    EXPECT_FALSE(last.bits_per_byte.has_value()) << "it would be compared with that of other objectives";
    EXPECT_NEAR(last.metrics.at("bits_per_masked_token"), *last.loss / std::log(2.0), 1e-12);
    // there is nothing to learn by heart: other tokens are masked each time
    const std::vector<double> all = losses(name);
    return std::accumulate(all.end() - 50, all.end(), 0.0) / 50;
  };
  for (const char* mixer : {"lightnet", "softmax"}) {
    const std::string mixers = std::string("model.mixers=") + mixer;
    EXPECT_LT(learned(std::string(mixer) + "-whole", {mixers}), 0.4) << mixer;
    EXPECT_GT(learned(std::string(mixer) + "-causal", {mixers, "model.causal=true"}), 0.75) << mixer;
  }
}

TEST_F(MaskedRun, GoesOnAsIfNobodyHadStoppedIt) {
  run("whole");
  run("parts", {"train.steps=4"});
  run("parts");
  ASSERT_EQ(losses("whole").size(), 8u);
  EXPECT_EQ(losses("parts"), losses("whole"));
}

// Sums in another order: not the same bits. The same evaluation too.
TEST_F(MaskedRun, IsTheSameOnAnyRanks) {
  run("one");
  const auto one = losses("one");
  const double judged = *events<observe::Evaluation>("one").back().loss;
  for (const auto& [name, words] :
       std::map<std::string, std::vector<std::string>>{{"micro", {"train.micro_batch=8"}},
                                                       {"dp", {"parallel.ranks=2", "parallel.zero=2"}},
                                                       {"cp", {"parallel.cp=2"}},
                                                       {"tp", {"parallel.tp=2"}},
                                                       {"pp", {"parallel.pp=2"}}}) {
    run(name, words);
    const auto found = losses(name);
    ASSERT_EQ(found.size(), one.size()) << name;
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(found[i], one[i], 1e-9) << name << ", step " << i + 1;
    EXPECT_NEAR(*events<observe::Evaluation>(name).back().loss, judged, 1e-9) << name;
  }
}

// Documents of 3 × 3 pixels; 34 of them, so that the last of the rows of three is padding from its second
// third on, further than a grid reaches.
TEST_F(MaskedRun, DocumentsThatAreGridsAreTrainedOnAndOthersRefused) {
  const std::filesystem::path images = folder_ / "images.jsonl";
  std::string lines;
  for (int64_t d = 0; d < 34; ++d) lines += "{\"text\": \"" + pairs(d, 5).substr(0, 9) + "\"}\n";
  write_text_atomically(images, lines);
  const std::vector<std::string> more = {"data.source=" + images.string(),
                                         "data.held_out_percent=0",
                                         "model.lightnet.grid=3,3",
                                         "train.sequence=30",
                                         "train.steps=6",
                                         "train.batch=4"};
  run("grids", more);
  const auto found = losses("grids");
  ASSERT_EQ(found.size(), 6u);  // two epochs
  for (const double loss : found) EXPECT_TRUE(std::isfinite(loss));

  write_text_atomically(images, lines + "{\"text\": \"abcdefgh\"}\n");
  try {
    run("others", more);
    FAIL() << "it began";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_EQ(error.fields().expected, "9 tokens");
    EXPECT_EQ(error.fields().found, "8");
  }
}

TEST_F(MaskedRun, RefusesATokenizerThatLeavesNoRowForTheMask) {
  recipe::Recipe recipe = this->recipe().recipe;
  recipe.model.vocabulary = 257;
  const data::RunData data = data::open_run_data(recipe.data, {}, folder_ / "cache");
  parallel::Ranks alone;
  try {
    language::Pretrain task(recipe, data, folder_ / "packing", at::kCPU, alone);
    FAIL() << "no refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.fields().hint, ::testing::StartsWith("model.vocabulary=258"));
  }
}

}  // namespace
}  // namespace longhaul::run
