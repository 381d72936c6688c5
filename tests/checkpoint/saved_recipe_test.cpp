// The recipe inside a manifest, the model that is made of it, and a checkpoint that lost a bit.
#include "checkpoint/saved_recipe.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "checkpoint/open_model.h"
#include "checkpoint/published/naming.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SavedModel : public ::testing::Test {
 protected:
  SavedModel() : folder_(fs::path(::testing::TempDir()) / ("longhaul-saved-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~SavedModel() override { fs::remove_all(folder_); }

  fs::path save(const nlohmann::json& recipe) {
    storage::Manifest manifest = training_.manifest();
    manifest.recipe = recipe;
    fs::path path;
    Saver saver(storage::local_file_system(), {.folder = folder_, .on_result = [&](const SaveResult& result) {
                                                 EXPECT_FALSE(result.failure) << result.failure->what();
                                                 path = result.path;
                                               }});
    saver.save(++step_, training_.state(), std::move(manifest));
    saver.wait();
    return path;
  }
  static Error error_of(const std::function<void()>& function) {
    try {
      function();
    } catch (const Error& error) {
      return error;
    }
    return Error({.code = ExitCode::kDone, .what = "no error was thrown"});
  }

  fs::path folder_;
  TinyTraining training_;
  int64_t step_ = 0;
};

TEST_F(SavedModel, OpensFromItsCheckpointAlone) {
  const OpenModel model = open_model(save(training_.manifest().recipe));
  EXPECT_EQ(model.recipe.recipe.model.hidden, 16);
  for (const auto& parameter : model.decoder->parameters().all()) {
    const auto& parts = parameter->parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const auto& tensor : training_.tensors()) {
        if (tensor.role != kWeightRole || tensor.name != parts[i].spec.tensor.name) continue;
        EXPECT_TRUE(at::equal(parameter->part_of(parameter->value.detach(), i), tensor.view)) << tensor.name;
      }
    }
  }
}

TEST_F(SavedModel, OpensFromARecipeOfAnEarlierVersion) {
  std::string toml = training_.manifest().recipe.at("toml").get<std::string>();
  toml.insert(toml.find("[model]\n") + std::string_view("[model]\n").size(), "chunk = 256  # default\n");
  EXPECT_EQ(open_model(save({{"toml", toml}})).recipe.recipe, training_.recipe.recipe);
}

// A checkpoint from elsewhere must not make this machine read a file that it names.
TEST_F(SavedModel, ARecipeThatNamesAnotherFileIsRefused) {
  fs::create_directories(folder_);
  const fs::path secret = folder_ / "other.toml";
  std::ofstream(secret) << "version = 1\nmodel.hidden = 16\n";
  for (const std::string& base : {secret.string(), std::string("/nowhere/secret.toml")}) {
    const auto path = save({{"toml", "version = 1\nbase = \"" + base + "\"\n"}});
    for (const auto& use : std::vector<std::function<void()>>{
             [&] { open_model(path); },
             [&] { saved_recipe(storage::Checkpoint::open(storage::local_file_system(), path)); }}) {
      const Error error = error_of(use);
      EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("builds on another file"), HasSubstr(base),
                                      HasSubstr("manifest.json"), HasSubstr("line 2")));
    }
  }
}

TEST_F(SavedModel, ARecipeThatCannotBeUsedIsTheCheckpointsFault) {
  for (const auto& recipe : std::vector<nlohmann::json>{nlohmann::json::object(),
                                                        {{"toml", 5}},
                                                        {{"toml", "version = 1\n[model]\nhiden = 5\n"}},
                                                        {{"toml", "version = 99\n"}},
                                                        {{"toml", "not TOML"}}}) {
    const auto path = save(recipe);
    const Error error = error_of([&] { open_model(path); });
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint) << recipe.dump() << error.what();
    EXPECT_THAT(error.what(), HasSubstr("manifest.json")) << recipe.dump();
  }
}

TEST_F(SavedModel, AFlippedBitOfAWeightIsNoticedBeforeTheModelIsUsed) {
  const auto path = save(training_.manifest().recipe);
  const auto file = path / "model.safetensors";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-5, std::ios::end);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(-5, std::ios::end);
  stream.put(byte);
  stream.close();
  const Error error = error_of([&] { open_model(path); });
  EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("model.safetensors"), HasSubstr("crc32c")));
}

}  // namespace
}  // namespace longhaul::checkpoint
