// What a run writes at its end, and its model opened again to write more: the prompt, and the memory it
// takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/open_model.h"
#include "generate/generate.h"
#include "language/pretrain.h"
#include "recipe/load.h"
#include "run/language_run.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::run {
namespace {

namespace fs = std::filesystem;

class Sample : public ::testing::Test {
 protected:
  Sample() : folder_(fs::temp_directory_path() / ("longhaul-sample-" + std::to_string(::getpid()))) {
    install_cpu_allocator();
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 30; ++i) {  // characters of three bytes each, so 32 bytes end inside one
      std::ofstream file(folder_ / "text" / (std::to_string(i) + ".txt"));
      for (int j = 0; j < 40; ++j) file << "\u4e2d\u6587\u5b57";
      file << i << "\n";
    }
  }
  ~Sample() override { fs::remove_all(folder_); }

  recipe::LoadedRecipe loaded(std::vector<std::string> more = {}) const {
    std::vector<std::string> overrides{"model.layers=2",
                                       "model.hidden=32",
                                       "model.heads=2",
                                       "model.kv_heads=1",
                                       "model.head_dim=16",
                                       "model.vocabulary=257",
                                       "model.mixers=lightning,softmax",
                                       "model.intermediate=32",
                                       "model.rotary_dim=8",
                                       "data.tokenizer=bytes",
                                       "data.held_out_percent=20",
                                       "data.source=" + (folder_ / "text").string(),
                                       "data.cache=" + (folder_ / "cache").string(),
                                       "train.dtype=bf16",
                                       "train.batch=2",
                                       "train.micro_batch=2",
                                       "train.sequence=32",
                                       "train.steps=2",
                                       "train.evaluate_every=0",
                                       "optim.warmup_steps=0",
                                       "observe.compression_baseline=false",
                                       "observe.tensorboard=false",
                                       "observe.report=false",
                                       "sample.tokens=5"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return recipe::load_defaults(overrides);
  }
  train::TaskSample sample(std::vector<std::string> more = {}) const {
    const recipe::Recipe options = loaded(std::move(more)).recipe;
    const data::RunData data = data::open_run_data(options.data, {}, folder_ / "cache");
    const parallel::Ranks alone;
    language::Pretrain task(options, data, folder_ / "cache" / "packing", at::kCPU, alone);
    task.parameters().initialise(1);
    return *task.sample();
  }

  fs::path folder_;
};

// Of learned positions there are only so many: what is taken leaves room, what is given and does not fit is
// refused before training.
TEST_F(Sample, ThePromptFitsTheModelsPositions) {
  const std::vector<std::string> short_model{"model.mixers=softmax", "model.position=learned",
                                             "model.max_positions=32"};
  const train::TaskSample written = sample(short_model);
  EXPECT_LE(written.prompt.size(), 26u) << "less the separator and the five tokens that are written";
  EXPECT_GE(written.prompt.size(), 20u);
  auto too_long = short_model;
  too_long.push_back("sample.prompt=" + std::string(32, 'a'));
  try {
    sample(too_long);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("at most 31 tokens"), std::string::npos) << error.what();
  }
  too_long.back().pop_back();
  EXPECT_EQ(sample(too_long).prompt, std::string(31, 'a'));
}

TEST_F(Sample, WithoutAPromptBeginsAsAHeldOutDocumentDoes) {
  const train::TaskSample written = sample();
  std::string ten;
  for (int i = 0; i < 10; ++i)
    ten += std::vector<std::string>{"\u4e2d", "\u6587", "\u5b57"}[static_cast<size_t>(i % 3)];
  EXPECT_EQ(written.prompt, ten) << "32 bytes, less the two of a character that goes on";
  EXPECT_FALSE(written.text.empty());
  EXPECT_EQ(sample({"sample.prompt=abc"}).prompt, "abc");
  EXPECT_EQ(sample({"data.held_out_percent=0"}).prompt, "")
      << "nothing is held out: the separator begins the text";
}

TEST_F(Sample, AModelOpenedForInferenceHoldsNoGradients) {
  const RunRequest request{.recipe = loaded(), .run_folder = folder_ / "run", .quiet = true};
  ASSERT_EQ(run_training(request).reason, "finished");
  const int64_t before = memory_statistics().of(MemoryPurpose::kGradients).bytes;
  reset_memory_peaks();
  const auto opened = checkpoint::open_model(folder_ / "run");
  generate::generate(*opened.decoder, {1, 2, 3}, {.tokens = 2});
  EXPECT_EQ(memory_statistics().of(MemoryPurpose::kGradients).peak, before);
  EXPECT_GT(memory_statistics().of(MemoryPurpose::kParameters).bytes, 0);
}

}  // namespace
}  // namespace longhaul::run
