// ctest: label=full timeout=120
// A checkpoint that lost a bit is not used: every command that opens a model exits 66 and names file and
// tensor.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

#include "../checkpoint/training_for_tests.h"
#include "base/process/process.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(DamagedCheckpoint, IsRefusedBySampleScoreAndEvaluate) {
  const fs::path folder = fs::temp_directory_path() / ("longhaul-damaged-" + std::to_string(::getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder / "text");
  std::ofstream(folder / "text" / "a.txt") << std::string(400, 'a') << "\n";
  std::ofstream(folder / "ids.json") << "[97, 97, 10]";
  fs::path saved;
  {
    checkpoint::TinyTraining training({"model.vocabulary=257", "data.tokenizer=bytes", "train.sequence=32"});
    checkpoint::Saver saver(
        storage::local_file_system(),
        {.folder = folder / "run" / "checkpoints",
         .on_result = [&](const checkpoint::SaveResult& result) { saved = result.path; }});
    saver.save(1, training.state(), training.manifest());
    saver.wait();
  }
  const std::vector<std::vector<std::string>> commands = {
      {"sample", saved, "--tokenizer", "bytes", "--prompt", "aaa", "--tokens", "2"},
      {"score", saved, "--ids", folder / "ids.json", "--out", folder / "logits.safetensors"},
      {"evaluate", saved, "--tokenizer", "bytes", "--data", folder / "text"}};
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.begin(), program_file());
    return run_process(command, {"LONGHAUL_CACHE=" + (folder / "cache").string()}, 60);
  };
  for (const auto& command : commands) {
    const ProcessResult whole = run(command);
    EXPECT_EQ(whole.status, 0) << command[0] << whole.errors;
  }
  {
    std::fstream file(saved / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-5, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-5, std::ios::end);
    file.put(byte);
  }
  for (const auto& command : commands) {
    const ProcessResult refused = run(command);
    EXPECT_EQ(refused.status, 66) << command[0] << refused.errors;
    EXPECT_THAT(refused.errors,
                AllOf(HasSubstr("model.safetensors"), HasSubstr("tensor '"), HasSubstr("crc32c")))
        << command[0];
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace longhaul::cli
