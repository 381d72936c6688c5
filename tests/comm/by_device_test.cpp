// What of the way of GPUs' tensors can be tried without a GPU: how C10dGroup asks a back end of c10d
// (recording_backend.h), and how a failure goes from one half of ByDevice to the other.
// ctest: timeout=120
#include "comm/c10d/by_device.h"

#include <gmock/gmock.h>

#include "comm/c10d/own_gpus.h"
#include "comm/ranks.h"
#include "comm/recording_backend.h"
#include "comm/threads/thread_group.h"

namespace longhaul::comm {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int kTimeOut = 1, kBroken = 2;   // c10d::ErrorType
constexpr std::chrono::seconds kSoon{60};  // far beyond the tenth of a second that it takes

std::string error_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCommunication);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Tensor rows(int64_t first, int64_t count) {
  return at::arange(first, first + count, at::kFloat).view({count, 1});
}

TEST(C10dGroup, WaitsHoldTheStreamAndNotTheHost) {
  const RecordingBackend backend;
  const auto group = C10dGroup::make(backend.maker(), 0, 2, Timeout(90000));
  const Tensor values = at::ones({3});
  group->all_reduce(values, Reduction::kSum, {.name = "loss"}).wait();
  group->all_reduce(values, Reduction::kSum, {.name = "loss", .timeout = Timeout(5000)}).wait();
  group->exchange({send_to(1, values), receive_from(1, at::empty({3}))}, {.name = "states"}).wait();
  EXPECT_THAT(backend.waited_ms(), AllOf(SizeIs(3), Each(0)));
  EXPECT_THAT(backend.calls(), ElementsAre("all_reduce 90000", "all_reduce 5000", "group begins", "send 1",
                                           "receive 1", "group ends"));
  EXPECT_TRUE(group->in_order());
}

TEST(C10dGroup, UnevenSharesAreOneCall) {
  const RecordingBackend backend;
  const auto group = C10dGroup::make(backend.maker(), 0, 3, Timeout(90000));
  const Tensor all = at::full({6, 1}, -1.0F);
  group->all_gather(rows(1, 2), all, {.name = "weights"}, {2, 1, 3}).wait();
  // What the back end made of this rank's rows, which were padded to three: of rank 2 the third row is the
  // padding.
  EXPECT_TRUE(at::equal(all.view(-1), at::tensor({1.0F, 2.0F, 101.0F, 201.0F, 202.0F, 200.0F})));
  const Tensor own = at::empty({2, 1});
  group->reduce_scatter(rows(1, 6), own, Reduction::kSum, {.name = "gradients"}, {2, 1, 3}).wait();
  EXPECT_TRUE(at::equal(own.view(-1), at::tensor({3.0F, 6.0F})));
  EXPECT_THAT(backend.calls(), ElementsAre("all_gather", "reduce_scatter"));
}

TEST(C10dGroup, AnErrorThatTheBackEndFindsEndsAllGroups) {
  RecordingBackend backend;
  const auto group = C10dGroup::make(backend.maker(), 0, 2, Timeout(90000));
  auto parts = group->split({{.name = "tp", .groups = {{0, 1}}}});
  std::promise<std::string> told;
  group->on_failure([&](const std::string& reason) { told.set_value(reason); });
  parts[0]->all_reduce(at::ones({1}), Reduction::kSum, {.name = "loss"}).wait();
  backend.find_error(kTimeOut);
  auto reason = told.get_future();
  ASSERT_EQ(reason.wait_for(kSoon), std::future_status::ready);
  EXPECT_THAT(reason.get(), AllOf(HasSubstr("a call has not ended in time"), HasSubstr("'world'")));
  EXPECT_THAT(error_text([&] { (void)group->barrier({.name = "end"}); }),
              HasSubstr("a call has not ended in time"));
  EXPECT_THAT(error_text([&] { (void)parts[0]->barrier({.name = "end"}); }),
              HasSubstr("ranks lost each other"));
  backend.aborted().wait();
  parts.clear();
  EXPECT_THAT(backend.ended(), AllOf(Contains(StartsWith("abort world")), Each(StartsWith("abort"))));
}

// Before the watcher looks, whoever has read values asks.
TEST(C10dGroup, RequireWellLooksAtOnce) {
  RecordingBackend backend;
  const auto group = C10dGroup::make(backend.maker(), 0, 2, Timeout(90000));
  group->require_well();
  (void)group->all_reduce(at::ones({1}), Reduction::kSum, {.name = "norm"});
  backend.find_error(kBroken);
  EXPECT_THAT(error_text([&] { group->require_well(); }),
              AllOf(HasSubstr("its process has ended"), HasSubstr("all_reduce 'norm'")));
}

// What an abort has let go is not what the ranks have computed.
TEST(C10dGroup, AWaitThatAnAbortEndsThrows) {
  RecordingBackend backend;
  const auto group = C10dGroup::make(backend.maker(), 0, 2, Timeout(90000));
  Work good = group->all_reduce(at::ones({1}), Reduction::kSum, {.name = "one"});
  backend.do_not_complete();
  Work bad = group->all_reduce(at::ones({1}), Reduction::kSum, {.name = "two"});
  group->abort("the disk is full");
  good.wait();  // it had ended
  EXPECT_THAT(error_text([&] { bad.wait(); }), HasSubstr("the disk is full"));
}

TEST(C10dGroup, AGoodEndShutsDownInOrder) {
  const RecordingBackend backend;
  {
    const auto group = C10dGroup::make(backend.maker(), 0, 2, Timeout(90000));
    const auto parts = group->split({{.name = "tp", .groups = {{0, 1}}}});
  }
  EXPECT_THAT(backend.ended(), ElementsAre(StartsWith("shutdown world/0/tp 0"), "shutdown world"));
}

bool floats_go(const Tensor& tensor) { return tensor.is_floating_point(); }

// Rank 0 of two, whose floats go to the recording back end and whose other calls meet those of rank 1 in this
// process.
struct TwoHalves {
  RecordingBackend backend;
  std::vector<std::unique_ptr<Communicator>> threads = ThreadGroup::make(2);
  ByDevice both{std::move(threads[0]), C10dGroup::make(backend.maker(), 0, 2, Timeout(90000)), floats_go};
  Communicator& other() { return *threads[1]; }
};

TEST(ByDevice, CallsGoWhereTheirTensorsAre) {
  TwoHalves halves;
  const Tensor own = at::full({1}, 5, at::kLong), of_other = at::full({1}, 7, at::kLong);
  Work there = halves.other().all_reduce(of_other, Reduction::kSum, {.name = "count"});
  halves.both.all_reduce(own, Reduction::kSum, {.name = "count"}).wait();
  there.wait();
  EXPECT_EQ(own.item<int64_t>(), 12);
  EXPECT_THAT(halves.backend.calls(), SizeIs(0));
  halves.both.all_reduce(at::ones({1}), Reduction::kSum, {.name = "loss"}).wait();
  EXPECT_THAT(halves.backend.calls(), ElementsAre("all_reduce 90000"));
  EXPECT_TRUE(halves.both.in_order());
  EXPECT_FALSE(halves.other().in_order());
}

TEST(ByDevice, NumbersThatAGpuLeftUndefinedAreNotHandedOn) {
  TwoHalves halves;
  Work there = halves.other().all_reduce(at::ones({1}, at::kLong), Reduction::kSum, {.name = "count"});
  halves.backend.find_error(kTimeOut);
  EXPECT_THAT(error_text([&] {
                (void)halves.both.all_reduce(at::ones({1}, at::kLong), Reduction::kSum, {.name = "count"});
              }),
              HasSubstr("a call has not ended in time"));
  EXPECT_THAT(error_text([&] { there.wait(); }), HasSubstr("a call has not ended in time"))
      << "and the other ranks hear of it";
}

TEST(ByDevice, AFailureOnTheCpusLetsGoOfTheGpus) {
  const uint16_t port = free_port();
  run_ranks(2, [&](Communicator& thread) {
    const Placement placement{.rank = thread.rank(), .size = 2, .host = "127.0.0.1", .port = port};
    auto world = join_world({.join_timeout = Timeout(60000), .timeout = Timeout(60000)}, placement);
    if (thread.rank() == 1) return world->abort("the disk is full");
    const RecordingBackend backend;
    ByDevice both(std::move(world), C10dGroup::make(backend.maker(), 0, 2, Timeout(90000)), floats_go);
    EXPECT_EQ(backend.aborted().wait_for(kSoon), std::future_status::ready);
    EXPECT_THAT(error_text([&] { (void)both.all_reduce(at::ones({1}), Reduction::kSum, {.name = "loss"}); }),
                HasSubstr("the disk is full"));
    EXPECT_THAT(error_text([&] { (void)both.barrier({.name = "end"}); }), HasSubstr("the disk is full"));
  });
}

TEST(OwnGpus, TwoRanksWithOneAreNamedOnAll) {
  const auto refusal = [](const std::vector<std::string>& identities) {
    std::vector<std::string> texts(identities.size());
    run_ranks(std::ssize(identities), [&](Communicator& world) {
      const auto rank = static_cast<size_t>(world.rank());
      try {
        require_own_gpus(world, identities[rank], at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(rank)));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage);
        texts[rank] = error.what();
      }
    });
    return texts;
  };
  EXPECT_THAT(refusal({"a", "b", "c"}), Each(""));
  EXPECT_THAT(refusal({"a", "b", "c", "b"}),
              Each(AllOf(HasSubstr("ranks 1 and 3"), HasSubstr("leave train.device out"))));
}

}  // namespace
}  // namespace longhaul::comm
