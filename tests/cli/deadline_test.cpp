// A run whose job will be ended soon, as an engine says it: it saves, ends with 74, and the same command goes
// on. ctest: label=full timeout=200
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/clock.h"
#include "cli/started_program.h"

namespace longhaul::cli {
namespace {

using ::testing::HasSubstr;

class DeadlineOfAJob : public StartedProgram {
 protected:
  ProcessResult train(const std::string& deadline) const {
    return run_process({program_file(), "train", path("recipe.toml"), "train.steps=3", "train.batch=2",
                        "train.micro_batch=2", "train.sequence=32", "model.layers=2", "model.hidden=64",
                        "train.evaluate_every=0", "sample.tokens=0", "--run", path("run")},
                       {cache_variable(path("cache")), "NO_COLOR=1", deadline}, 150);
  }
};

TEST_F(DeadlineOfAJob, IsASaveAndTheSameCommandGoesOn) {
  const ProcessResult first = train(fmt::format("LONGHAUL_DEADLINE={:.0f}", wall_time_s() + 30));
  EXPECT_EQ(first.status, 74) << first.output << first.errors;
  EXPECT_TRUE(std::filesystem::exists(path("run") + "/checkpoints"));
  const ProcessResult wrong = train("LONGHAUL_DEADLINE=soon");
  expect_error(wrong, 64, "LONGHAUL_DEADLINE");
  const ProcessResult second = train(fmt::format("SLURM_JOB_END_TIME={:.0f}", wall_time_s() + 30));
  EXPECT_EQ(second.status, 0) << "no job of Slurm's: " << second.errors;
  EXPECT_THAT(second.output + second.errors, HasSubstr("resum"));
}

}  // namespace
}  // namespace longhaul::cli
