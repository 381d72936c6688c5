// What a run took beside what was planned of it, as `train` says it at its end.
#include "run/local_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "observe/events/event.h"
#include "recipe/load.h"

namespace longhaul::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string told_of(const std::string& device, int64_t steps,
                    const std::vector<observe::MeasuredMemory>& memory) {
  const TemporaryFolder folder;
  std::string events =
      observe::to_json({.common = {.run = "r"}, .body = observe::RunStart{.device = device}}) + "\n";
  for (int64_t step = 1; step <= steps; ++step)
    events += observe::to_json(
                  {.common = {.run = "r"}, .body = observe::StepReport{.step = step, .milliseconds = 3000}}) +
              "\n";
  for (const observe::MeasuredMemory& row : memory)
    events += observe::to_json({.common = {.run = "r"}, .body = row}) + "\n";
  write_text_atomically(folder.path() / "events.jsonl", events);
  return planned_against_measured(folder.path(), recipe::load_defaults({}).recipe);
}

TEST(PlannedAgainstMeasured, SaysOfShortRunsThatTheyAreShort) {
  EXPECT_THAT(told_of("cpu", 3, {}), HasSubstr("3 steps are too few"));
  EXPECT_THAT(told_of("cpu", 1, {}), HasSubstr("One step is too few"));
  EXPECT_EQ(told_of("cpu", 0, {}), "");
}

TEST(PlannedAgainstMeasured, SaysMemory) {
  const std::vector<observe::MeasuredMemory> rows = {{"weights", 1 << 20, 1 << 20, 1 << 20},
                                                     {"together", 0, 100'000'000, 102'500'000},
                                                     {"of the machine", 0, 300'000'000, {}}};
  EXPECT_THAT(told_of("cpu", 3, rows), HasSubstr("(+2.5 %)"));
  EXPECT_THAT(told_of("cuda:0", 3, {{"cuda:0, tensors", 0, 100'000'000, 90'000'000}, {"together", 0, 1, {}}}),
              AllOf(HasSubstr("(-10.0 %)"), Not(HasSubstr("too few"))))
      << "the processors' memory is not the plan's there";
}

}  // namespace
}  // namespace longhaul::run
