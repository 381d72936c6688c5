// Ranks that are processes: this program starts itself again, once a rank, with the bodies below; each of
// them looks at its own results. ctest: label=multi timeout=120
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/net/network.h"
#include "base/process/signals.h"
#include "comm/gloo/gloo.h"
#include "comm/gloo/gloo_world.h"
#include "comm/gloo/wire.h"
#include "comm/ranks.h"
#include "layout/mesh.h"
#include "support/child.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::comm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Exit codes of ranks 0 … ranks-1 of a job of `size`, which run the body; their output is shown where one is
// not as expected.
std::vector<int> run_processes(const std::string& body, int64_t ranks, int64_t size,
                               const std::vector<int>& expected, uint16_t port = free_port(),
                               const std::vector<std::string>& variables = {}) {
  const auto folder =
      std::filesystem::path(::testing::TempDir()) / fmt::format("processes-{}-{}", body, port);
  std::filesystem::create_directories(folder);
  std::vector<LaunchedProcess> processes;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    processes.push_back({.argv = {"/proc/self/exe", "--gtest_filter=ProcessBody." + body},
                         .environment = environment_of_rank(rank, size, port),
                         .log = folder / fmt::format("{}.log", rank)});
    processes.back().environment.push_back("OMP_NUM_THREADS=1");
    processes.back().environment.insert(processes.back().environment.end(), variables.begin(),
                                        variables.end());
  }
  const LaunchResult result = launch(processes, 69, {.others_s = 60});
  EXPECT_EQ(result.statuses, expected);
  for (size_t rank = 0; rank < result.statuses.size(); ++rank) {
    if (result.statuses[rank] != expected[rank])
      ADD_FAILURE() << "rank " << rank << ":\n" << read_text(*processes[rank].log);
  }
  std::filesystem::remove_all(folder);
  return result.statuses;
}

class ProcessBody : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!variable("RANK")) GTEST_SKIP() << "runs in the processes that the tests of Processes start";
  }
  static std::string error_of(const std::function<void()>& call, ExitCode code = ExitCode::kCommunication) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "no error";
  }
};

// A random list of all calls, in the world and in the groups of a mesh; what this rank holds after each.
std::vector<Tensor> every_call(Communicator& world) {
  const int64_t size = world.size(), rank = world.rank();
  std::mt19937_64 plan(static_cast<uint64_t>(size));
  std::vector<Tensor> held;
  const layout::Mesh mesh(size, {.tp = 2});
  const auto groups = world.split(mesh.group_kinds());
  for (const ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble, at::kLong}) {
    for (int round = 0; round < 4; ++round) {
      const auto width = static_cast<int64_t>(plan() % 3 == 0 ? plan() % 5 : plan() % 20000);
      const auto of = [&](std::vector<int64_t> sizes) { return values_of(rank, sizes, type, plan()); };
      held.push_back(of({width}));
      world.all_reduce(held.back(), round % 2 ? Reduction::kMax : Reduction::kSum, {"reduced"}).wait();
      for (const auto& group : groups) {  // tensor-parallel sums, then those over replicas
        if (group) group->all_reduce(held.back(), Reduction::kSum, {"in a group"}).wait();
      }
      const std::vector<int64_t> rows = uneven_rows(size);
      const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0}),
                    own = rows[static_cast<size_t>(rank)];
      const Tensor whole = of({all, width}), part = at::full({own, width}, 77, type),
                   gathered = at::full({all, width}, 77, type);
      world.reduce_scatter(whole, part, Reduction::kSum, {"part"}, rows).wait();
      world.all_gather(part, gathered, {"gathered"}, rows).wait();
      std::vector<int64_t> send, receive;
      for (int64_t other = 0; other < size; ++other) {
        send.push_back((rank + 2 * other + round) % 4);
        receive.push_back((other + 2 * rank + round) % 4);
      }
      const auto total = [](const std::vector<int64_t>& counts) {
        return std::accumulate(counts.begin(), counts.end(), int64_t{0});
      };
      const Tensor turned = at::full({total(receive), 3}, 77, type);
      world.all_to_all(of({total(send), 3}), turned, send, receive, {"turned"}).wait();
      const Tensor cast = of({width}), sent = of({width + 1}), message = at::full({width + 1}, 77, type);
      world.broadcast(cast, round % size, {"cast"}).wait();
      world
          .exchange({send_to((rank + 1) % size, sent), receive_from((rank + size - 1) % size, message)},
                    {"ring"})
          .wait();
      held.insert(held.end(), {part, gathered, turned, cast, message});
    }
  }
  world.barrier({"end"}).wait();
  return held;
}

TEST_F(ProcessBody, EveryCall) {
  const auto world = join_world();
  const std::vector<Tensor> held = every_call(*world);
  std::vector<Tensor> expected;
  run_ranks(world->size(), [&](Communicator& thread) {
    const std::vector<Tensor> its = every_call(thread);
    if (thread.rank() == world->rank()) expected = its;
  });
  ASSERT_EQ(held.size(), expected.size());
  for (size_t i = 0; i < held.size(); ++i)
    EXPECT_TRUE(held[i].view(at::kByte).equal(expected[i].view(at::kByte))) << i;
}

TEST(Processes, GiveTheBitsOfThreads) {
  for (const int64_t size : {2, 4})
    run_processes("EveryCall", size, size, std::vector<int>(static_cast<size_t>(size), 0));
}

TEST_F(ProcessBody, OneIsKilled) {
  const auto world = join_world();
  const auto pairs = world->split({{"pair", {{0, 1}, {2, 3}}}});
  world->barrier({"start"}).wait();
  const Stopwatch watch;
  if (world->rank() == 1) ::raise(SIGKILL);
  // Rank 0 waits for the dead one; the others for somebody who waits.
  const std::string text = error_of([&] {
    if (world->rank() == 2) pairs[0]->exchange({receive_from(1, at::ones({3}))}, {"input"}).wait();
    world->all_reduce(at::ones({5000}), Reduction::kSum, {"gradients"}).wait();
  });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1 has died"), HasSubstr("all_reduce 'gradients' (call 2)")));
  EXPECT_LT(watch.seconds(), 10);
}

TEST_F(ProcessBody, TheFirstIsKilled) {
  const auto world = join_world();
  world->barrier({"start"}).wait();
  if (world->rank() == 0) ::raise(SIGKILL);
  const std::string text = error_of([&] { world->barrier({"end"}).wait(); });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 0"), HasSubstr("barrier 'end' (call 1)")));
}

TEST(Processes, ADeadOneIsNamedByAll) {
  run_processes("OneIsKilled", 4, 4, {0, 137, 0, 0});
  run_processes("TheFirstIsKilled", 3, 3, {137, 0, 0});
}

// Rank 0 holds the store, and stands still: nothing that others want of it is answered, nor refused.
TEST_F(ProcessBody, TheFirstStandsStill) {
  const auto world = join_world({.timeout = Timeout(1500)});
  const auto later = world->split({{"later", {{1, 2}}}});
  world->barrier({"start"}).wait();
  if (world->rank() == 0) ::raise(SIGSTOP);
  const Stopwatch watch;
  EXPECT_THAT(error_of([&] { world->all_reduce(at::ones({5000}), Reduction::kSum, {"gradients"}).wait(); }),
              AllOf(HasSubstr("all_reduce 'gradients' (call 2) of 'world' waited too long"),
                    HasSubstr("within 1500 ms"), HasSubstr("rank 0 has not come")));
  EXPECT_LT(watch.seconds(), 30);
}

// Who waits in calls that may take much longer, for another rank, hears of it too.
TEST_F(ProcessBody, TheFirstStandsStillWhileOthersWaitForEachOther) {
  const auto world = join_world({.timeout = Timeout(1500)});
  const auto others = world->split({{"others", {{0}, {1, 2}}}});
  world->barrier({"start"}).wait();
  if (world->rank() == 0) ::raise(SIGSTOP);
  const std::string text = error_of([&] {
    while (world->rank() == 1) others[0]->exchange({}, {"nothing"}).wait();
    others[0]->barrier({.name = "saved", .timeout = std::chrono::hours(1)}).wait();
  });
  EXPECT_THAT(text, AllOf(HasSubstr("the store of rank 0 does not answer"), HasSubstr("within 1500 ms"),
                          HasSubstr("stands still")));
}

TEST_F(ProcessBody, OneGivesUp) {
  const auto world = join_world();
  if (world->rank() == 2) world->abort("the data are damaged");
  EXPECT_THAT(error_of([&] { world->barrier({"end"}).wait(); }),
              AllOf(HasSubstr("rank 2 of 'world' aborted"), HasSubstr("the data are damaged")));
}

TEST_F(ProcessBody, OneIsLate) {
  const auto world = join_world();
  const std::string text = error_of([&] {
    while (world->rank() == 1) world->exchange({}, {"nothing"}).wait();
    world->barrier({.name = "end", .timeout = Timeout(1500)}).wait();
  });
  EXPECT_THAT(text, AllOf(HasSubstr("barrier 'end' (call 0) of 'world' waited too long"),
                          HasSubstr("rank 1 has not come")));
}

TEST(Processes, ReasonsReachAll) {
  run_processes("OneGivesUp", 4, 4, {0, 0, 0, 0});
  run_processes("OneIsLate", 3, 3, {0, 0, 0});
}

// Beside the tensors of a sum lie its parts, of all ranks together at most a round of them, however large it
// is and whoever gets what of it; of a group of one nothing. Sums are right across the rounds: each element
// is known.
TEST_F(ProcessBody, SumsInRounds) {
  install_cpu_allocator();
  const auto world = join_world();
  const auto alone = world->split({{"alone", {{0}, {1}, {2}}}});
  const auto peak = [] { return memory_statistics().of(MemoryPurpose::kWorkspace).peak; };
  const std::vector<int64_t> rows = {9'000'001, 0, 5'000'003};  // 56 MB, of which a round is 32 MiB
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0}),
                first = world->rank() == 0 ? 0 : rows[0];
  const Tensor input =
      at::arange(all, at::kInt).bitwise_and(0xffff).to(at::kFloat).add_(static_cast<double>(world->rank()));
  // 0 + 1 + 2
  const Tensor expected = at::arange(all, at::kInt).bitwise_and(0xffff).to(at::kFloat).mul_(3).add_(3);
  const Tensor own = at::empty({rows[static_cast<size_t>(world->rank())]});
  alone[0]->reduce_scatter(input, at::empty_like(input), Reduction::kSum, {"of one"}, {all}).wait();
  alone[0]->all_reduce(input, Reduction::kSum, {"of one"}).wait();
  EXPECT_EQ(peak(), 0);
  world->reduce_scatter(input, own, Reduction::kSum, {"shares"}, rows).wait();
  EXPECT_TRUE(own.equal(expected.narrow(0, first, own.numel())));
  EXPECT_LE(peak(), kGlooRoundBytes + 64);
  if (world->rank() == 0) {
    EXPECT_GT(peak(), kGlooRoundBytes / 2) << "of a rank that gets most of it";
  }
  // In place: this rank's rows of the input.
  const Tensor again = input.clone(), in_place = again.narrow(0, first, own.numel());
  world->reduce_scatter(again, in_place, Reduction::kSum, {"in place"}, rows).wait();
  EXPECT_TRUE(in_place.equal(own));
  world->all_reduce(input, Reduction::kSum, {"whole"}).wait();
  EXPECT_TRUE(input.equal(expected));
  EXPECT_LE(peak(), kGlooRoundBytes + 64);
}

TEST(Processes, SumsTakeARoundOfMemoryBesideThem) { run_processes("SumsInRounds", 3, 3, {0, 0, 0}); }

// A sum of gradients stands still for some seconds on its way: what is more urgent does not.
TEST_F(ProcessBody, UrgentCallsPassSlowOnes) {
  const auto world = join_world();
  const Tensor slow = at::ones({5000}), queued = at::ones({5000});
  std::vector<Work> behind;
  behind.push_back(world->all_reduce(slow, Reduction::kSum, {.name = "gradients", .priority = -2}));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until it moves
  behind.push_back(world->all_reduce(queued, Reduction::kSum, {.name = "more gradients", .priority = -2}));
  for (const int priority : {0, -1, -3}) {
    const Tensor much = at::ones({5000}), little = at::ones({3});
    world->all_reduce(much, Reduction::kSum, {.name = "much", .priority = priority}).wait();
    world->all_reduce(little, Reduction::kSum, {.name = "little", .priority = priority}).wait();
    EXPECT_EQ(much.sum().item<double>(), 10'000);
    EXPECT_EQ(little.sum().item<double>(), 6);
  }
  EXPECT_FALSE(behind[0].done());
  EXPECT_FALSE(behind[1].done()) << "calls of one priority stay in order";
  for (Work& work : behind) work.wait();
  EXPECT_EQ(slow.sum().item<double>(), 10'000);
  EXPECT_EQ(queued.sum().item<double>(), 10'000);
  const int other = static_cast<int>(-world->rank());
  EXPECT_THAT(error_of([&] {
                world->all_reduce(slow, Reduction::kSum, {.name = "values", .priority = other}).wait();
              }),
              AllOf(HasSubstr("ranks disagree about call 8 of 'world'"),
                    HasSubstr("rank 1: all_reduce 'values' (sum, fp32 [5000]), priority -1")));
}

TEST(Processes, UrgentCallsPassSlowOnes) {
  run_processes("UrgentCallsPassSlowOnes", 2, 2, {0, 0}, free_port(),
                {"LONGHAUL_FAULTS=call.move:rank=1:count=1 slow=5"});
}

TEST_F(ProcessBody, OneHasAnotherRecipe) {
  const bool odd = variable("RANK") == "1";
  const Identity recipe = {
      "recipe", odd ? "b0b" : "a11", {{"train.steps", "10"}, {"optim.lr", odd ? "0.5" : "0.25"}}};
  EXPECT_THAT(
      error_of([&] { (void)join_world({.identity = {recipe}}); }, ExitCode::kUsage),
      AllOf(HasSubstr("rank 1 has another recipe than rank 0\n"), HasSubstr("on rank 0: optim.lr = 0.25\n"),
            HasSubstr("on rank 1: optim.lr = 0.5\n"), Not(HasSubstr("train.steps"))));
}

TEST_F(ProcessBody, OneDoesNotJoin) {
  EXPECT_THAT(error_of([] { (void)join_world({.join_timeout = Timeout(2000)}); }),
              AllOf(HasSubstr("1 of 3 ranks did not join"), HasSubstr("rank 2 missing")));
}

TEST_F(ProcessBody, ThePortIsTaken) {
  const Placement mine = find_place();
  const std::string text = error_of([&] { (void)join_world({.join_timeout = Timeout(2000)}, mine); });
  EXPECT_THAT(text, HasSubstr(fmt::format("cannot open port {}", mine.port)));
}

// Ranks 0 and 1 of 4 are here, and would wait for longer than this test may take. Rank 1 is asked to stop,
// which ends it for both.
TEST_F(ProcessBody, OneIsStoppedWhileOthersAreMissing) {
  install_signal_handlers();
  EXPECT_THAT(error_of([] { (void)join_world({.join_timeout = std::chrono::hours(1)}); },
                       ExitCode::kPreemptedNotSaved),
              AllOf(HasSubstr("stopped while the ranks were joining"), HasSubstr("expected  all 4 ranks"),
                    HasSubstr(fmt::format("signal {} at rank 1; ranks 2, 3 missing", SIGTERM))));
}

// Whoever listens at rank 0's port is none of ours, and never answers.
TEST_F(ProcessBody, OneIsStoppedWhileRankZeroIsMissing) {
  install_signal_handlers();
  const Placement mine = find_place();
  EXPECT_THAT(error_of([&] { (void)join_world({.join_timeout = std::chrono::hours(1)}, mine); },
                       ExitCode::kPreemptedNotSaved),
              AllOf(HasSubstr(fmt::format("rank 0's store at {}:{}", mine.host, mine.port)),
                    HasSubstr(fmt::format("signal {} at rank 1", SIGTERM))));
}

std::unique_ptr<Child> started(const std::string& body, int64_t rank, int64_t size, uint16_t port,
                               const std::filesystem::path& folder) {
  return std::make_unique<Child>(
      std::vector<std::string>{"/proc/self/exe", "--gtest_filter=ProcessBody." + body},
      environment_of_rank(rank, size, port), folder / fmt::format("{}-{}.log", body, rank));
}

TEST(Processes, AFirstOneThatStandsStillIsNamedByAll) {
  const TemporaryFolder folder;
  for (const char* const body : {"TheFirstStandsStill", "TheFirstStandsStillWhileOthersWaitForEachOther"}) {
    const uint16_t port = free_port();
    std::vector<std::unique_ptr<Child>> ranks;
    for (const int64_t rank : {0, 1, 2}) ranks.push_back(started(body, rank, 3, port, folder.path()));
    for (const size_t rank : {size_t{1}, size_t{2}})
      EXPECT_EQ(ranks[rank]->wait(), 0) << ranks[rank]->output();
  }
}

// Ranks that wait for the last one, which may take minutes, are no load for the store.
TEST(Processes, AskTheStoreSoonAndThenSeldom) {
  using std::chrono::milliseconds;
  milliseconds sum{0};
  for (int64_t n = 0; n < 6; ++n) sum += pause_before_asking(n, 2);
  EXPECT_EQ(sum, milliseconds(2 + 4 + 8 + 16 + 32 + 64));
  for (const int64_t n : {int64_t{6}, int64_t{1000}, INT64_MAX}) {
    EXPECT_EQ(pause_before_asking(n, 2), milliseconds(100));
    EXPECT_EQ(pause_before_asking(n, 4000), milliseconds(n == 6 ? 128 : 4000))
        << "a thousand questions a second of all";
  }
}

TEST(Processes, ARequestToStopEndsTheWaitForThoseThatAreMissing) {
  const TemporaryFolder folder;
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Child>> ranks;
  for (const int64_t rank : {0, 1})
    ranks.push_back(started("OneIsStoppedWhileOthersAreMissing", rank, 4, port, folder.path()));
  {
    Wire store({.port = port, .prefix = "/longhaul/attempt_0"});
    for (const char* const announced : {"rank/0", "rank/1"})
      ASSERT_TRUE(store.wait_for(announced, std::chrono::minutes(1)));
  }
  ranks[1]->send(SIGTERM);
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->output();
}

TEST(Processes, ARequestToStopEndsTheWaitForRankZero) {
  const TemporaryFolder folder;
  const Listener other = listen_on(0);
  const auto rank = started("OneIsStoppedWhileRankZeroIsMissing", 1, 2, other.port, folder.path());
  const int client = ::accept(other.descriptor, nullptr, nullptr);
  ASSERT_GE(client, 0);
  rank->send(SIGTERM);
  EXPECT_EQ(rank->wait(), 0) << rank->output();
  ::close(client);
  ::close(other.descriptor);
}

TEST(Processes, WhoDoesNotFitIsNamedAtTheStart) {
  run_processes("OneHasAnotherRecipe", 3, 3, {0, 0, 0});
  run_processes("OneDoesNotJoin", 2, 3, {0, 0});
  const Wire taken({.serves = true});
  run_processes("ThePortIsTaken", 1, 2, {0}, taken.port());
}

}  // namespace
}  // namespace longhaul::comm
