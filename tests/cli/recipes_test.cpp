// ctest: label=full timeout=600
// The recipes that come with Longhaul: each is in order as it stands, and each trains, shrunk to a model of
// seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/process/process.h"
#include "cli/register.h"
#include "recipe/load.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recipes() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(source_folder()) / "recipes")) {
    if (entry.path().extension() == ".toml") found.push_back(entry.path());
  }
  return found;
}

// Conversations for recipes that learn from them, and rows that they fit into.
std::vector<std::string> words_of_task(const fs::path& recipe, const fs::path& folder) {
  const std::string task = recipe::load(recipe).recipe.train.task;
  // of the pairs beside the recipe
  if (task == "preference" || task == "reward") return {"train.sequence=1024"};
  if (task != "chat") return {};
  std::ofstream rows(folder / "chat.jsonl");
  for (int i = 0; i < 20; ++i)
    rows << "{\"prompt\": \"" << i << "\", \"completion\": \"the cat " << i << "\"}\n";
  return {"data.source=" + (folder / "chat.jsonl").string(), "chat.template=chatml", "train.sequence=128"};
}

TEST(Recipes, AreInOrderAsTheyStand) {
  train::declare_options(tasks());
  ASSERT_GE(recipes().size(), 4u);
  for (const fs::path& path : recipes()) {
    const auto loaded = recipe::load(path);
    EXPECT_FALSE(loaded.recipe.description.empty()) << path;
    // What the first comment says to type is this file.
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(text,
                ::testing::HasSubstr("./longhaul train " + path.lexically_relative(source_folder()).string()))
        << path;
  }
}

TEST(Recipes, Train) {
  const fs::path folder = fs::temp_directory_path() / ("longhaul-recipes-" + std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder / "text");
  for (int i = 0; i < 20; ++i)
    std::ofstream(folder / "text" / (std::to_string(i) + ".txt")) << "the cat sat on mat " << i << "\n"
                                                                  << std::string(60, 'a');
  train::declare_options(tasks());
  fs::current_path(source_folder());  // paths of data in recipes are seen from there
  for (const fs::path& path : recipes()) {
    const fs::path run = folder / path.stem();
    std::vector<std::string> words{program_file(),         "train",
                                   path.string(),          "--run",
                                   run.string(),           "data.source=" + (folder / "text").string(),
                                   "data.weights=[]",      "data.mix=[]",
                                   "data.vocabulary=260",  "model.layers=2",
                                   "model.hidden=32",      "model.heads=2",
                                   "model.kv_heads=2",     "model.head_dim=16",
                                   "model.rotary_dim=8",   "model.intermediate=32",
                                   "model.vocabulary=260", "model.lightnet.grid=[]",
                                   "train.steps=2",        "train.sequence=32",
                                   "train.batch=4",        "train.micro_batch=1",
                                   "train.threads=1",      "sample.tokens=3"};
    for (const std::string& word : words_of_task(path, folder)) words.push_back(word);
    const ProcessResult trained = run_process(words, {cache_variable(folder / "cache"), "NO_COLOR=1"}, 180);
    EXPECT_EQ(trained.status, 0) << path << "\n" << trained.errors;
    EXPECT_THAT(trained.output, ::testing::HasSubstr("Finished at step 2")) << path;
    EXPECT_TRUE(fs::exists(run / "checkpoints/latest")) << path;
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace longhaul::cli
