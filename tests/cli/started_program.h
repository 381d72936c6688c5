// The program in a folder of its own, with thirty small texts and a recipe, for tests that type its commands.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/temporary_folder.h"
#include "base/process/process.h"
#include "storage/commit.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {

class StartedProgram : public ::testing::Test {
 protected:
  StartedProgram() {
    std::filesystem::create_directories(folder_ / "texts");
    for (int file = 0; file < 30; ++file) {
      write("texts/" + std::to_string(file) + ".txt",
            "the cat sat on mat " + std::to_string(file) + "\nand then it slept the day away\n");
    }
    write("recipe.toml", "version = 1\n[model]\npreset = \"first-run\"\n[data]\nsource = [\"" +
                             path("texts") + "\"]\ntokenizer = \"bytes\"\nheld_out_percent = 20\n");
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  ProcessResult run(std::vector<std::string> words) const {
    words.insert(words.begin(), program_file());
    return run_process(words, {cache_variable(path("cache")), "NO_COLOR=1"}, 180);
  }

  // A checkpoint of one tensor, w = [0, 1, …, 7] with `first` in front.
  std::filesystem::path save(const std::string& run, int64_t step, float first) const {
    auto& files = storage::local_file_system();
    std::vector<float> values = {first, 1, 2, 3, 4, 5, 6, 7};
    const storage::ShardSource shard{.tensor = "w",
                                     .shape = {8},
                                     .dtype = storage::DType::kF32,
                                     .role = "weight",
                                     .offset = {0},
                                     .length = {8},
                                     .data = std::as_bytes(std::span(values))};
    storage::CheckpointWriter writer(files, folder_ / run / "checkpoints", step, 1);
    writer.add(storage::write_checkpoint_file(files, writer.folder(), "rank-00000.safetensors", {&shard, 1}));
    storage::Manifest manifest;
    manifest.run_id = run;
    const std::filesystem::path path = writer.commit(manifest);
    writer.point_latest_here();
    return path;
  }
  void events(const std::string& run, const std::string& second_loss) const {
    const std::string common =
        R"({"schema":1,"run":"r","generation":1,"rank":0,"wall_time":1.0,"monotonic_ns":1,)";
    const auto step = [&](int n, const std::string& loss) {
      return common + R"("event":"step","step":)" + std::to_string(n) + R"(,"loss":)" + loss +
             R"(,"tokens":8,"tokens_per_second":1.0,"grad_norm":1.0,"learning_rate":0.1,"milliseconds":1.0})" +
             "\n";
    };
    write(run + "/events.jsonl", step(1, "2.5") + step(2, second_loss));
  }

  TemporaryFolder folder_;
};

inline void expect_error(const ProcessResult& result, int code, const std::string& part) {
  EXPECT_EQ(result.status, code) << result.errors;
  EXPECT_THAT(result.errors, ::testing::HasSubstr("error: "));
  EXPECT_THAT(result.errors, ::testing::HasSubstr(part));
}

}  // namespace longhaul::cli
