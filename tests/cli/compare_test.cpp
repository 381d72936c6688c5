// `longhaul compare`: which tensor is named first, at which step, and what is said when no checkpoint tells.
// ctest: label=full timeout=600
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/process/process.h"
#include "layout/parameters.h"
#include "observe/events/event_log.h"
#include "recipe/load.h"
#include "recipe/write.h"
#include "storage/commit.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs of a model of twelve layers, so that "layers.10…" and "layers.2…" stand in another order by name than
// in the model, as do "norm" and the layers.
class CompareRuns : public ::testing::Test {
 protected:
  CompareRuns()
      : root_(fs::temp_directory_path() / ("longhaul-compare-" + std::to_string(::getpid()))),
        folder_(root_),
        recipe_(
            recipe::load_defaults({"model.layers=12", "model.hidden=4", "model.heads=1", "model.kv_heads=1",
                                   "model.head_dim=4", "model.rotary_dim=2", "model.vocabulary=257",
                                   "data.tokenizer=bytes", "model.intermediate=4", "model.mixers=softmax"})) {
    fs::remove_all(root_);
  }
  ~CompareRuns() override { fs::remove_all(root_); }

  std::string path(const std::string& run) const { return (folder_ / run).string(); }

  // Every tensor and its first moment, all zeros but the elements of `changed`.
  void save(const std::string& run, int64_t step, const std::map<std::string, float>& changed = {}) const {
    auto& files = storage::local_file_system();
    std::vector<std::vector<float>> values;
    std::vector<storage::ShardSource> shards;
    for (const std::string prefix : {"", "optimizer.m."}) {
      for (const auto& spec : layout::parameters(recipe_.recipe.model)) {
        const std::string name = prefix + spec.tensor.name;
        values.emplace_back(static_cast<size_t>(spec.elements()));
        if (const auto found = changed.find(name); found != changed.end()) values.back()[1] = found->second;
        const auto& shape = spec.tensor.global_shape;
        shards.push_back({.tensor = name,
                          .shape = shape,
                          .dtype = storage::DType::kF32,
                          .role = "weight",
                          .offset = std::vector<int64_t>(shape.size(), 0),
                          .length = shape});
      }
    }
    for (size_t i = 0; i < shards.size(); ++i) shards[i].data = std::as_bytes(std::span(values[i]));
    storage::CheckpointWriter writer(files, folder_ / run / "checkpoints", step, 1);
    writer.add(storage::write_checkpoint_file(files, writer.folder(), "rank-00000.safetensors", shards));
    storage::Manifest manifest;
    manifest.run_id = run;
    manifest.recipe = {{"toml", recipe::to_toml(recipe_)}};
    writer.commit(manifest);
  }
  void events(const std::string& run, int64_t differs_at) const {
    observe::EventWriter writer({.path = folder_ / run / "events.jsonl"});
    for (int64_t step = 1; step <= 9; ++step) {
      writer.write(observe::StepReport{.step = step, .loss = 3, .grad_norm = step >= differs_at ? 2.0 : 1.0});
    }
  }
  ProcessResult compare(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{program_file(), "compare", path("a"), path("b")};
    words.insert(words.end(), more.begin(), more.end());
    return run_process(words, {"NO_COLOR=1"}, 180);
  }

  fs::path root_, folder_;
  recipe::LoadedRecipe recipe_;
};

TEST_F(CompareRuns, TheFirstTensorIsTheFirstOfTheModel) {
  events("a", 100), events("b", 4);
  save("a", 3), save("b", 3);
  save("a", 6);
  save("b", 6,
       {{"layers.10.channel.up.weight", 1.0f},
        {"layers.2.mixer.key.weight", 0.5f},
        {"norm.weight", 0.25f},
        {"optimizer.m.layers.2.channel_norm.weight", 3.0f},
        {"optimizer.m.layers.11.mixer.query.weight", 4.0f}});
  const json found = json::parse(compare({"--json"}).output);
  EXPECT_EQ(found["first_step"], 4);
  EXPECT_EQ(found["equal_checkpoints"], json::array({3}));
  EXPECT_EQ(found["checkpoint_step"], 6);
  EXPECT_EQ(found["first_tensor"], "layers.2.mixer.key.weight");
  EXPECT_EQ(found["first_optimizer_tensor"], "optimizer.m.layers.2.channel_norm.weight");
  EXPECT_EQ(found["largest_tensor"], "optimizer.m.layers.11.mixer.query.weight");
  EXPECT_FALSE(found.contains("commands"));

  const ProcessResult text = compare();
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.output, HasSubstr("step 4 is the first that differs"));
  EXPECT_THAT(text.output, HasSubstr("differ at step 6"));
  EXPECT_THAT(text.output,
              HasSubstr("first tensor     layers.2.mixer.key.weight (1 of 16 elements, by 0.5 at most)"));
}

TEST_F(CompareRuns, OptimizerStateAloneIsADifference) {
  events("a", 100), events("b", 100);
  save("a", 3), save("b", 3, {{"optimizer.m.norm.weight", 1.0f}});
  const ProcessResult found = compare({"--json"});
  EXPECT_EQ(found.status, 1);
  EXPECT_EQ(json::parse(found.output)["first_tensor"], "optimizer.m.norm.weight");
}

TEST_F(CompareRuns, WithoutACheckpointThatTellsTheCommandsThatMakeOneAreGiven) {
  events("a", 100), events("b", 4);
  save("a", 3), save("b", 3);
  ProcessResult text = compare();
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.output, HasSubstr("no step from 4 on has a checkpoint in both runs"));
  for (const std::string run : {"a", "b"}) {
    EXPECT_THAT(text.output,
                HasSubstr(program_file() + " train " + path(run) +
                          "/recipe.toml train.checkpoint_every=4 train.checkpoint_keep_every=4 --run " +
                          path(run) + "-again"));
  }
  EXPECT_THAT(text.output,
              HasSubstr(program_file() + " compare " + path("a") + "-again " + path("b") + "-again"));

  save("b", 8);  // one of them suffices then
  text = compare();
  EXPECT_THAT(text.output,
              HasSubstr(program_file() + " train " + path("a") + "/recipe.toml train.checkpoint_every=8"));
  EXPECT_THAT(text.output,
              HasSubstr(program_file() + " compare " + path("a") + "-again " + path("b") + "\n"));
  EXPECT_THAT(text.output, Not(HasSubstr(path("b") + "-again")));
}

TEST_F(CompareRuns, TheCommandsThatAreGivenWork) {
  // Two real runs that part at step 3, by their learning rate, and keep no checkpoint in common. Their names
  // need quotes, and no longhaul is on PATH.
  folder_ = root_ / "it's here";
  fs::create_directories(folder_ / "text");
  for (int i = 0; i < 20; ++i)
    std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << std::string(300, 'a') << i << "\n";
  const std::vector<std::string> environment = {"NO_COLOR=1", "LONGHAUL_CACHE=" + path("cache"),
                                                "PATH=/usr/bin:/bin"};
  const auto run = [&](const std::string& words) {
    return run_process({"bash", "-c", words}, environment, 60);
  };
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words{program_file(), "train", path("tiny.toml"),
                                   "--quiet",      "--run", path(name)};
    words.insert(words.end(), more.begin(), more.end());
    return run_process(words, environment, 60).status;
  };
  std::ofstream(folder_ / "tiny.toml")
      << "version = 1\n[model]\nlayers = 1\nhidden = 16\nheads = 1\nkv_heads = 1\nhead_dim = 16\n"
         "vocabulary = 257\nmixers = [\"lightning\"]\nintermediate = 16\nrotary_dim = 8\n"
         "[data]\ntokenizer = \"bytes\"\nsource = [\""
      << path("text")
      << "\"]\n[train]\nsteps = 6\ndtype = \"fp32\"\nbatch = 1\n"
         "micro_batch = 1\nsequence = 32\nevaluate_every = 0\ncheckpoint_every = 0\n[optim]\nwarmup_steps = "
         "0\n[sample]\ntokens = 0\n";
  ASSERT_EQ(train("a", {"train.checkpoint_every=2", "train.checkpoint_keep=0"}), 0);
  ASSERT_EQ(train("b", {"optim.schedule=linear"}), 0);
  fs::remove_all(folder_ / "b" / "checkpoints");
  const json found = json::parse(compare({"--json"}).output);
  ASSERT_TRUE(found.contains("commands")) << found;
  for (size_t i = 0; i + 1 < found["commands"].size(); ++i) {
    const ProcessResult made = run(found["commands"][i]);
    ASSERT_EQ(made.status, 0) << found["commands"][i] << made.errors;
  }
  const ProcessResult compared = run(found["commands"].back());
  EXPECT_EQ(compared.status, 1) << compared.errors;
  EXPECT_THAT(compared.output, HasSubstr("first tensor     embedding.weight"));
}

}  // namespace
}  // namespace longhaul::cli
