#include "observe/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/temporary_folder.h"

namespace longhaul::observe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

TEST(TensorBoard, MaskedChecksum) {
  EXPECT_EQ(masked_crc32c("\x1a\x11"
                          "CRC test, one two"),
            0x5794d08au);
}

TEST(TensorBoard, FirstRecordHasTheKnownBytes) {
  EXPECT_EQ(hex(tensorboard_record(tensorboard_version(0))),
            "1800000000000000"
            "a37f4b22"
            "0900000000000000001a0d627261696e2e4576656e743a32"
            "eedf28a3");
}

TEST(TensorBoard, ScalarsAndSessionStartAreEncodedByHandAsProtoc) {
  // wall_time 1.0, step 300; summary {value {tag "loss" simple_value 0.5}}
  EXPECT_EQ(hex(tensorboard_scalars(1.0, 300, {{"loss", 0.5}})),
            "09000000000000f03f"
            "10ac02"
            "2a0d"
            "0a0b"
            "0a046c6f7373"
            "150000003f");
  EXPECT_EQ(hex(tensorboard_session_start(1.0, 5)),
            "09000000000000f03f"
            "1005"
            "3a020801");
}

std::vector<std::string> messages_of(const std::filesystem::path& path) {
  const std::string bytes = read_text(path);
  std::vector<std::string> messages;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | static_cast<unsigned char>(bytes.at(at + static_cast<size_t>(i)));
    messages.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(tensorboard_record(messages.back()), bytes.substr(at, 16 + length));
    at += 16 + length;
  }
  return messages;
}

TEST(TensorBoard, EveryProcessWritesANewFileThatSortsLater) {
  const TemporaryFolder folder;
  {
    TensorBoard first(folder / "tensorboard");
    first.on(
        {.common = {.wall_time = 1.79e9},
         .body = StepReport{
             .step = 1, .loss = 2, .mfu = 0.4, .mfu_full_attention = 0.5, .metrics = {{"accuracy", 0.5}}}});
    first.on({.common = {.wall_time = 1.79e9 + 1},
              .body = evaluation_of(1, {{"bits_per_byte", 1.7}, {"solved", 0.5}, {"won", 0.25}})});
  }
  TensorBoard second(folder / "tensorboard");
  second.on({.common = {.wall_time = 1.79e9}, .body = RunStart{}});  // in the same second
  second.on({.common = {.wall_time = 1.79e9}, .body = Resume{.step = 1}});
  second.on({.common = {.wall_time = 1.79e9}, .body = StepReport{.step = 2}});

  const auto files = list_files(folder / "tensorboard");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(folder / "tensorboard" / files[1].filename(), second.path());
  EXPECT_THAT(files[0].filename().string(), HasSubstr("events.out.tfevents.1790000000."));

  const auto first = messages_of(folder / "tensorboard" / files[0].filename());
  ASSERT_EQ(first.size(), 3u);
  EXPECT_THAT(first[0], EndsWith("brain.Event:2"));
  for (const char* tag :
       {"loss", "grad_norm", "learning_rate", "tokens_per_second", "mfu", "mfu_full_attention", "accuracy"})
    EXPECT_THAT(first[1], HasSubstr(tag));
  for (const char* tag : {"bits_per_byte", "heldout_solved", "heldout_won"})
    EXPECT_THAT(first[2], HasSubstr(tag));
  const auto again = messages_of(folder / "tensorboard" / files[1].filename());
  ASSERT_EQ(again.size(), 3u);
  EXPECT_THAT(hex(again[1]), EndsWith("1002"
                                      "3a020801"));  // what begins again is step 2
}

}  // namespace
}  // namespace longhaul::observe
