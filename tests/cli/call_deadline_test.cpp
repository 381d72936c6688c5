// ctest: label=multi timeout=300
// parallel.timeout: a rank that hangs in the middle of a step, and what the others say of it before they end:
// ranks that are processes and ranks that are threads.
#include "cli/launched_run.h"

#include "base/clock.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CallDeadline : public LaunchedRun {
 protected:
  static constexpr int kCommunication = 69;
  // On the side of a loaded machine: a step of this model takes milliseconds.
  const Words deadline_ = {"parallel.timeout=6", "train.steps=1000"};
  static constexpr double kAtMost_s = 60;
};

TEST_F(CallDeadline, ProcessesEndByItAndNameTheRankAndTheCall) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (int r = 0; r < 3; ++r) {
    Words more = deadline_;
    more.insert(more.end(), {"train.batch=6", "train.micro_batch=2"});
    ranks.push_back(
        rank(r, 3, port, more, program_file(), {"LONGHAUL_FAULTS=step.reduce:step=4:rank=1 hang"}));
  }
  ASSERT_TRUE(ranks[0]->wait_for([&] { return steps_done() == 3; })) << ranks[0]->output();
  const Stopwatch since;
  for (const int r : {0, 2}) {
    EXPECT_EQ(ranks[static_cast<size_t>(r)]->wait(), kCommunication);
    EXPECT_THAT(ranks[static_cast<size_t>(r)]->output(),
                AllOf(ContainsRegex("'[^']+' \\(call [0-9]+\\) of '[^']+' waited too long"),
                      HasSubstr("within 6000 ms"), HasSubstr("rank 1 ")));
  }
  EXPECT_GT(since.seconds(), 5) << "it was given its time";
  EXPECT_LT(since.seconds(), kAtMost_s);
  ranks[1]->send(SIGKILL);
}

// It has come to the call and is stopped before its bytes are sent; behind the start and the first step,
// which have calls with deadlines of their own. Whether the others had heard by then that it has come is a
// race: of a few such stops one must be half way, and each ends the run in time.
TEST_F(CallDeadline, ProcessesEndByItInTheMiddleOfACall) {
  bool half_way = false;
  for (int count = 150; count < 154 && !half_way; ++count) {
    fs::remove_all(run_);
    const uint16_t port = free_port();
    std::vector<std::unique_ptr<Child>> ranks;
    for (int r = 0; r < 2; ++r) {
      Words more = deadline_;
      more.insert(more.end(), {"train.batch=4", "train.micro_batch=2"});
      ranks.push_back(rank(r, 2, port, more, program_file(),
                           {fmt::format("LONGHAUL_FAULTS=call.move:rank=1:count={} stop", count)}));
    }
    EXPECT_EQ(ranks[0]->wait(), kCommunication);
    const std::string told = ranks[0]->output();
    ranks[1]->send(SIGKILL);
    EXPECT_THAT(told, HasSubstr("within 6000 ms"));
    half_way = told.find("has stopped half way") != std::string::npos;
    if (!half_way) continue;
    EXPECT_THAT(told, AllOf(ContainsRegex("'[^']+' \\(call [0-9]+\\) of '[^']+' has stopped half way"),
                            HasSubstr("rank 0 waits for rank 1")));
  }
  EXPECT_TRUE(half_way);
}

// Rank 0 holds the store that ranks tell each other their failures by. Nobody watches over ranks that were
// started by hand, by srun or by a JobSet.
TEST_F(CallDeadline, ProcessesEndByItWhereTheFirstOneStandsStill) {
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (int r = 0; r < 2; ++r) {
    Words more = deadline_;
    more.insert(more.end(), {"train.batch=4", "train.micro_batch=2"});
    ranks.push_back(
        rank(r, 2, port, more, program_file(), {"LONGHAUL_FAULTS=step.passes:step=5:rank=0 stop"}));
  }
  ASSERT_TRUE(ranks[1]->wait_for([&] { return steps_done() == 4; })) << ranks[1]->output();
  const Stopwatch since;
  EXPECT_EQ(ranks[1]->wait(), kCommunication) << ranks[1]->output();
  EXPECT_THAT(ranks[1]->output(), AllOf(ContainsRegex("'[^']+' \\(call [0-9]+\\) of '[^']+' waited too long"),
                                        HasSubstr("within 6000 ms"), HasSubstr("rank 0 has not come")));
  EXPECT_LT(since.seconds(), kAtMost_s);
  ranks[0]->send(SIGKILL);
}

TEST_F(CallDeadline, ThreadsEndByItTogetherWithTheirProcess) {
  Words more = deadline_;
  more.insert(more.end(), {"parallel.ranks=2", "train.batch=4", "train.micro_batch=2"});
  Child run(
      words({"train"}, more),
      {"NO_COLOR=1", cache_variable(folder_ / "home"), "LONGHAUL_FAULTS=step.reduce:step=4:count=1 hang"},
      folder_ / "run.log");
  ASSERT_TRUE(run.wait_for([&] { return steps_done() == 3; })) << run.output();
  const Stopwatch since;
  EXPECT_EQ(run.wait(), kCommunication);
  EXPECT_THAT(run.output(), AllOf(ContainsRegex("'[^']+' \\(call [0-9]+\\) of '[^']+' waited too long"),
                                  HasSubstr("within 6000 ms"),
                                  ContainsRegex("rank [01] has not come: it has made [0-9]+ calls"),
                                  ContainsRegex("rank [01] is still between two calls")));
  EXPECT_GT(since.seconds(), 5);
  EXPECT_LT(since.seconds(), kAtMost_s);
}

}  // namespace
}  // namespace longhaul::cli
