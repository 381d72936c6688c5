// A program that reads a checkpoint while another one removes old ones, and is killed while it reads.
// ctest: label=fault timeout=300
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "started_program.h"
#include "support/child.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ReadAndRemoved : public StartedProgram {
 protected:
  ReadAndRemoved() {
    write(
        "tiny.toml",
        "version = 1\n[model]\nlayers = 1\nhidden = 16\nheads = 2\nkv_heads = 1\nhead_dim = 8\n"
        "vocabulary = 257\nmixers = [\"softmax\"]\nintermediate = 16\nrotary_dim = 8\n[data]\nsource = [\"" +
            path("texts") +
            "\"]\ntokenizer = \"bytes\"\nheld_out_percent = 20\n[train]\nsteps = 3\nbatch = 2\nmicro_batch = "
            "2\nsequence = "
            "16\n"
            "checkpoint_every = 1\ncheckpoint_keep = 0\nevaluate_every = 0\nthreads = 1\n[sample]\ntokens = "
            "0\n");
  }
  Child start(std::vector<std::string> words, const std::string& faults) const {
    words.insert(words.begin(), program_file());
    return {words,
            {cache_variable(path("cache")), "NO_COLOR=1", "LONGHAUL_FAULTS=" + faults},
            path("output-" + faults.substr(0, 4))};
  }
  fs::path checkpoints() const { return fs::path(path("run")) / "checkpoints"; }
  std::vector<std::string> leases() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(checkpoints())) {
      const std::string name = entry.path().filename().string();
      if (name.find(".lease-") != std::string::npos) found.push_back(name);
    }
    return found;
  }
  ProcessResult prune() const { return run({"checkpoint", "prune", path("run"), "--keep", "1"}); }
  bool there(int64_t step) const { return fs::exists(checkpoints() / fmt::format("step-{:09}", step)); }
};

TEST_F(ReadAndRemoved, AReaderThatIsKilledHoldsItsCheckpointNoLonger) {
  ASSERT_EQ(run({"train", path("tiny.toml"), "--run", path("run")}).status, 0);
  ASSERT_TRUE(there(1) && there(2) && there(3));
  EXPECT_TRUE(leases().empty()) << "the start had nothing to read";

  Child reader = start({"evaluate", (checkpoints() / "step-000000001").string(), "--data", path("texts")},
                       "open.load stop");
  ASSERT_TRUE(reader.wait_for([&] { return !leases().empty(); })) << reader.output();
  EXPECT_THAT(leases()[0], HasSubstr("step-000000001.lease-"));
  const ProcessResult first = prune();
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_THAT(first.output, HasSubstr(fmt::format("process {} on ", reader.pid()))) << first.output;
  EXPECT_TRUE(there(1) && !there(2) && there(3));

  reader.send(SIGKILL);
  EXPECT_NE(reader.wait(), 0);
  EXPECT_EQ(leases().size(), 1U);
  EXPECT_EQ(prune().status, 0);
  EXPECT_TRUE(!there(1) && there(3));
  EXPECT_TRUE(leases().empty());
}

TEST_F(ReadAndRemoved, AResumingStartHoldsItsCheckpointUntilItHasReadIt) {
  ASSERT_EQ(run({"train", path("tiny.toml"), "--run", path("run"), "train.steps=2"}).status, 0);
  Child resuming = start({"train", path("tiny.toml"), "--run", path("run")}, "start.load stop");
  ASSERT_TRUE(resuming.wait_for([&] { return !leases().empty(); })) << resuming.output();
  EXPECT_THAT(leases()[0], HasSubstr("step-000000002.lease-"));
  resuming.send(SIGCONT);
  EXPECT_EQ(resuming.wait(), 0) << resuming.output();
  EXPECT_TRUE(leases().empty());
  EXPECT_TRUE(fs::exists(checkpoints() / "step-000000003.g2")) << "of the second start";
}

}  // namespace
}  // namespace longhaul::cli
