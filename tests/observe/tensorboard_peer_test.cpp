// ctest: label=peer timeout=300
// Our TensorBoard files read by TensorBoard itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files/temporary_folder.h"
#include "base/process/process.h"
#include "observe/tensorboard.h"
#include "support/places.h"

namespace longhaul::observe {
namespace {

TEST(TensorBoardPeer, ReadsEveryPointAndDropsWhatAResumeMadeVoid) {
  const TemporaryFolder folder;
  auto write = [&](double now, std::optional<int64_t> resumed, int64_t first, int64_t last, float offset) {
    TensorBoard board(folder.path());
    if (resumed) board.on({.common = {.wall_time = now}, .body = Resume{.step = *resumed}});
    for (int64_t step = first; step <= last; ++step) {
      board.on(
          {.common = {.wall_time = now + static_cast<double>(step)},
           .body = StepReport{
               .step = step, .loss = 1.0 / static_cast<double>(step) + offset, .grad_norm = 2, .mfu = 0.5}});
    }
    board.on({.common = {.wall_time = now + 500},
              .body = Evaluation{.step = last, .loss = 3, .bits_per_byte = 1.75}});
  };
  write(1.79e9, std::nullopt, 1, 300, 0);
  write(1.79e9 + 1000, 200, 201, 400, 0.5);

  const std::string source = source_folder();
  const auto result = run_process(
      {source + "/scripts/peer-python", source + "/tests/peer/tensorboard_read.py", folder.path().string()});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto read = nlohmann::json::parse(result.output);
  RecordProperty("tensorboard", read["version"].get<std::string>());
  for (const char* tag : {"loss", "grad_norm", "learning_rate", "tokens_per_second", "mfu"}) {
    const auto& points = read["scalars"][tag];
    ASSERT_EQ(points.size(), 400u) << tag;
    for (size_t i = 0; i < 400; ++i) ASSERT_EQ(points[i][0].get<size_t>(), i + 1) << tag;
  }
  for (int step = 1; step <= 400; ++step) {
    const auto expected = static_cast<float>(1.0 / step + (step > 200 ? 0.5 : 0));
    ASSERT_EQ(read["scalars"]["loss"][static_cast<size_t>(step - 1)][1].get<float>(), expected) << step;
  }
  ASSERT_EQ(read["scalars"]["bits_per_byte"].size(), 1u);  // the one of step 300 is void
  EXPECT_EQ(read["scalars"]["bits_per_byte"][0][1].get<double>(), 1.75);
  EXPECT_EQ(read["records"].get<int>(), 2 + 300 + 200 + 2 + 1);
}

}  // namespace
}  // namespace longhaul::observe
