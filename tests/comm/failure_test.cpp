// Ranks that disagree, that are late, that give up: everybody learns of it, with who said what, and nobody
// hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "comm/ranks.h"

namespace longhaul::comm {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Matcher;

// Ranks 0 and 2 make one call, rank 1 another; all get an error with both.
void expect_disagreement(const std::function<void(Communicator&)>& most,
                         const std::function<void(Communicator&)>& one, const std::string& of_most,
                         const std::string& of_one) {
  const auto errors = errors_of(3, [&](Communicator& world) {
    world.barrier({"start"}).wait();
    (world.rank() == 1 ? one : most)(world);
    world.barrier({"end"}).wait();
  });
  // Who comes last of three need not have come: the two that were compared are named.
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("ranks disagree about call 1 of 'world'"),
                                 HasSubstr("the same calls in the same order on all 3 ranks"),
                                 HasSubstr(of_most), HasSubstr("rank 1: " + of_one))));
  for (size_t rank = 0; rank < errors.size(); ++rank)
    EXPECT_THAT(errors[rank], HasSubstr(fmt::format("rank {} of 'world'", rank)));
}

void reduce(Communicator& world, const Tensor& values, const char* name = "values",
            Reduction reduction = Reduction::kSum) {
  world.all_reduce(values, reduction, {name}).wait();
}

TEST(Mismatch, ShapesDtypesNamesAndReductions) {
  const auto most = [](Communicator& world) { reduce(world, at::ones({3, 2})); };
  const std::string text = ": all_reduce 'values' (sum, fp32 [3, 2])";
  expect_disagreement(
      most,
      [](Communicator& world) {
        reduce(world, at::ones({2, 3}));
      },
      text, "all_reduce 'values' (sum, fp32 [2, 3])");
  expect_disagreement(
      most,
      [](Communicator& world) {
        reduce(world, at::ones({3, 2}, at::kBFloat16));
      },
      text, "all_reduce 'values' (sum, bf16 [3, 2])");
  expect_disagreement(
      most,
      [](Communicator& world) {
        reduce(world, at::ones({3, 2}), "other");
      },
      text, "all_reduce 'other' (sum, fp32 [3, 2])");
  expect_disagreement(
      most,
      [](Communicator& world) {
        reduce(world, at::ones({3, 2}), "values", Reduction::kMax);
      },
      text, "all_reduce 'values' (max, fp32 [3, 2])");
}

TEST(Mismatch, KindsOfCalls) {
  const auto gather = [](Communicator& world) {
    world.all_gather(at::ones({2}), at::ones({6}), {"values"}).wait();
  };
  expect_disagreement([](Communicator& world) { reduce(world, at::ones({2})); }, gather,
                      ": all_reduce 'values' (sum, fp32 [2])", "all_gather 'values' (fp32 [6], rows 2 2 2)");
  expect_disagreement(
      gather, [](Communicator& world) { world.barrier({"values"}).wait(); }, ": all_gather 'values'",
      "barrier 'values'");
  expect_disagreement(
      gather,
      [](Communicator& world) {
        (void)world.split({{"pair", {{0, 1}, {2}}}});
      },
      ": all_gather 'values'", "split 'split' (pair {0 1} {2})");
}

TEST(Mismatch, RootsAndRows) {
  const auto from = [](int64_t root) {
    return [root](Communicator& world) { world.broadcast(at::ones({2}), root, {"values"}).wait(); };
  };
  expect_disagreement(from(0), from(2), "(fp32 [2] of rank 0)", "broadcast 'values' (fp32 [2] of rank 2)");
  const auto scatter = [](std::vector<int64_t> rows) {
    return [rows](Communicator& world) {
      const Tensor own = at::ones({rows[static_cast<size_t>(world.rank())]});
      world.reduce_scatter(at::ones({6}), own, Reduction::kSum, {"values"}, rows).wait();
    };
  };
  expect_disagreement(scatter({1, 2, 3}), scatter({2, 2, 2}), "rows 1 2 3",
                      "reduce_scatter 'values' (sum, fp32 [6], rows 2 2 2)");
  const auto gather = [](int64_t rows) {
    return [rows](Communicator& world) {
      world.all_gather(at::ones({rows}), at::ones({3 * rows}), {"values"}).wait();
    };
  };
  expect_disagreement(gather(1), gather(2), "rows 1 1 1", "all_gather 'values' (fp32 [6], rows 2 2 2)");
  const auto turn = [](int64_t width) {
    return [width](Communicator& world) {
      world.all_to_all(at::ones({3, width}), at::ones({3, width}), {1, 1, 1}, {1, 1, 1}, {"values"}).wait();
    };
  };
  expect_disagreement(turn(2), turn(4), "(fp32 rows of [2])", "all_to_all 'values' (fp32 rows of [4])");
}

TEST(Mismatch, SplitsIntoOtherGroups) {
  const auto split = [](std::vector<layout::GroupKind> kinds) {
    return [kinds](Communicator& world) { (void)world.split(kinds); };
  };
  expect_disagreement(split({{"pair", {{0, 1}, {2}}}}), split({{"pair", {{0}, {1, 2}}}}), "pair {0 1} {2}",
                      "split 'split' (pair {0} {1 2})");
}

TEST(Mismatch, RowsThatAreSentAndNotReceived) {
  const auto errors = errors_of(2, [](Communicator& world) {
    world.all_to_all(at::ones({3}), at::ones({3}), {1, 2}, {1, 2}, {"tokens"}).wait();
  });
  EXPECT_THAT(errors,
              Each(HasSubstr("ranks contradict each other in all_to_all 'tokens' (call 0) of 'world'")));
  // Both are wrong. Threads find the first; of processes each sees what it receives itself, and the first to
  // say so is heard by all.
  const char* first = "rank 0 sends 2 rows to rank 1, which receives 1";
  const char* second = "rank 1 sends 1 rows to rank 0, which receives 2";
  EXPECT_THAT(errors, on_gloo() ? Matcher<std::vector<std::string>>(
                                      AnyOf(Each(HasSubstr(first)), Each(HasSubstr(second))))
                                : Matcher<std::vector<std::string>>(Each(HasSubstr(first))));
}

TEST(Mismatch, MemoryThatTwoRanksWriteTo) {
  const Tensor shared = at::ones({8});
  const auto errors =
      errors_of(2, [&](Communicator& world) { reduce(world, shared.narrow(0, world.rank() * 3, 5)); });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("each rank's tensors in memory of its own"),
                                 HasSubstr("rank 0 writes fp32 [5]"))));
  on_ranks(2, [&](Communicator& world) {  // side by side, and read by several
    reduce(world, shared.narrow(0, world.rank() * 4, 4));
    world.all_gather(shared, at::empty({16}), {"read"}).wait();
  });
  EXPECT_EQ(numbers(shared), std::vector<double>(8, 2));
}

TEST(Refused, WhatMakesNoSenseByItself) {
  on_ranks(2, [](Communicator& world) {
    const auto refused = [&](const std::function<void()>& call, const std::string& expected) {
      try {
        call();
        ADD_FAILURE() << "not refused: " << expected;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kInternal);
        EXPECT_THAT(error.what(), AllOf(HasSubstr(expected), HasSubstr("'x'"),
                                        HasSubstr(fmt::format("rank {} of 'world'", world.rank()))));
      }
    };
    const auto gather = [&](const Tensor& input, const Tensor& output, std::vector<int64_t> rows = {}) {
      world.all_gather(input, output, {"x"}, rows).wait();
    };
    refused([&] { reduce(world, at::ones({3, 2}).t(), "x"); }, "a contiguous tensor");
    refused([&] { reduce(world, Tensor(), "x"); }, "a tensor as tensor");
    refused([&] { reduce(world, at::ones({2}, at::kComplexFloat), "x"); }, "a dtype that has a sum");
    refused([&] { reduce(world, at::ones({2}, at::kBool), "x"); }, "a dtype that has a sum");
    refused([&] { reduce(world, at::ones({2}, at::TensorOptions().device(at::kMeta)), "x"); },
            "tensors on the CPU");
    refused([&] { gather(at::ones({2}), at::ones({4}, at::kDouble)); }, "one dtype and device");
    refused([&] { gather(at::ones({2, 2}), at::ones({4, 3})); }, "rows of one shape");
    refused([&] { gather(at::ones({}), at::ones({})); }, "rows of one shape");
    refused([&] { gather(at::ones({2}), at::ones({5})); }, "as many rows as its parts");
    refused([&] { gather(at::ones({1}), at::ones({4})); }, "2 rows for rank");
    refused([&] { gather(at::ones({2}), at::ones({4}), {2}); }, "for each of 2 ranks");
    refused([&] { gather(at::ones({2}), at::ones({4}), {5, -1}); }, "no negative number");
    const Tensor whole = at::ones({4});
    refused([&] { gather(whole.narrow(0, 1, 2), whole); }, "input and output apart");
    refused([&] { world.all_to_all(whole, whole, {2, 2}, {2, 2}, {"x"}).wait(); }, "input and output apart");
    refused([&] { world.broadcast(whole, 2, {"x"}).wait(); }, "a rank from 0 to 1 as root");
    refused([&] { world.barrier({.name = "x", .timeout = Timeout(0)}).wait(); }, "a positive timeout");
    refused([&] { (void)world.split({{"k", {{0, 1}, {1}}}}, {"x"}); }, "each rank in one group of a kind");
    refused([&] { (void)world.split({{"k", {{0, 2}}}}, {"x"}); }, "as member");
    reduce(world, whole);  // the group goes on
    EXPECT_EQ(numbers(whole), std::vector<double>(4, 2));
  });
}

TEST(Deadline, NamesWhoHasNotCome) {
  std::latch others_failed(2);
  const auto errors = errors_of(3, [&](Communicator& world) {
    world.barrier({"start"}).wait();
    if (world.rank() == 2) {
      others_failed.wait();
      EXPECT_THROW((void)world.barrier({"end"}), Error);
      world.barrier({"end"}).wait();
    }
    try {
      world.all_reduce(at::ones({2}), Reduction::kSum, {.name = "gradients", .timeout = Timeout(20)}).wait();
    } catch (const Error&) {
      others_failed.count_down();
      throw;
    }
  });
  EXPECT_THAT(
      errors,
      Each(AllOf(HasSubstr("all_reduce 'gradients' (call 1) of 'world' waited too long"),
                 HasSubstr("all 3 ranks within 20 ms"),
                 HasSubstr("rank 2 has not come: it has made 1 calls, the last barrier 'start' (call 0)"))));
  EXPECT_THAT(errors[2], HasSubstr("barrier 'end' (call 1), which was not started"));
}

TEST(Deadline, IsNoticedByAskingToo) {
  std::latch failed(1);
  const auto errors = errors_of(2,
                                [&](Communicator& world) {
                                  if (world.rank() == 1) return failed.wait();
                                  Work work = world.barrier({"end"});
                                  while (!work.done()) std::this_thread::yield();
                                  failed.count_down();
                                  work.wait();
                                },
                                {.timeout = Timeout(10)});  // the group's
  EXPECT_THAT(errors[0], HasSubstr("all 2 ranks within 10 ms"));
}

TEST(Deadline, DoesNotCountOnceAllHaveCome) {
  on_ranks(2, [](Communicator& world) {
    const Tensor values = at::ones({2000000});
    for (int i = 0; i < 5; ++i) {
      world.barrier({"together"}).wait();
      world.all_reduce(values, Reduction::kSum, {.name = "values", .timeout = Timeout(2000)}).wait();
    }
    EXPECT_EQ(values[1999999].item<float>(), 32);
  });
}

TEST(Abort, WakesEverybodyWithTheReason) {
  std::atomic<int> waiting = 0;
  const auto errors = errors_of(4, [&](Communicator& world) {
    auto pairs = world.split({{"pair", {{0, 1}, {2, 3}}}});
    Work work;
    if (world.rank() == 0) work = world.barrier({"in the world"});
    if (world.rank() == 1) work = pairs[0]->exchange({receive_from(0, at::ones({2}))}, {"in a pair"});
    if (world.rank() == 2) work = pairs[0]->barrier({"in a pair"});
    ++waiting;
    if (world.rank() == 3) {
      while (waiting < 4) std::this_thread::yield();
      pairs[0]->abort("the machine is on fire");
      world.abort("a second reason");
      world.barrier({"later"}).wait();
    }
    work.wait();
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("rank 1 of 'pair 1' aborted"), HasSubstr("the machine is on fire"))));
  EXPECT_THAT(errors[0], HasSubstr("barrier 'in the world' (call 1)"));
  EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 1 of 'pair 0', exchange 'in a pair' (exchange 0)")));
}

TEST(Abort, ACallThatAllHadStartedEndsWell) {
  std::latch started(2), aborted(1);
  on_ranks(2, [&](Communicator& world) {
    const Tensor values = at::ones({300000});
    Work work = world.all_reduce(values, Reduction::kSum, {"values"});
    started.arrive_and_wait();
    if (world.rank() == 0) {
      world.abort("no more");
      aborted.count_down();
    }
    aborted.wait();
    work.wait();
    EXPECT_TRUE(values.eq(2).all().item<bool>());
    EXPECT_THROW((void)world.barrier({"later"}), Aborted);
  });
}

TEST(Abort, NobodyWritesToTheTensorsAfterTheError) {
  on_ranks(2, [](Communicator& world) {
    const Tensor values = at::ones({100});
    if (world.rank() == 1) world.abort("no more");
    EXPECT_THROW(reduce(world, values), Aborted);
    EXPECT_EQ(numbers(values), std::vector<double>(100, 1));
  });
}

// Before the others come, and while they wait.
TEST(Leaving, WhoIsStillNeededIsMissed) {
  for (const bool early : {true, false}) {
    std::latch left(1), waiting(2);
    const auto errors = errors_of(3, [&](Communicator& world) {
      auto group = std::move(world.split({{"all", {{0, 1, 2}}}}).front());
      group->barrier({"start"}).wait();
      if (world.rank() == 1) {
        if (!early) waiting.wait();
        group.reset();
        return left.count_down();
      }
      if (early) left.wait();
      Work work = group->barrier({"end"});
      waiting.count_down();
      work.wait();
    });
    for (const size_t rank : {0, 2}) {
      EXPECT_THAT(errors[rank],
                  AllOf(HasSubstr("rank 1 has left 'all 0' while others need it"),
                        HasSubstr("all 3 ranks in barrier 'end' (call 1)"),
                        HasSubstr("rank 1 left after 1 calls, the last barrier 'start' (call 0)")));
    }
    EXPECT_EQ(errors[1], "");
  }
}

}  // namespace
}  // namespace longhaul::comm
