// Recorded steps as files, as Chrome's JSON, and as a sum that says where the time went.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/files/temporary_folder.h"
#include "observe/trace/call_cost.h"
#include "observe/trace/chrome_trace.h"
#include "observe/trace/time_use.h"

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;

// Rank 0 begins a sum at 20 and stands still for it until 60; rank 1 comes at 50. Then 0 sends to 1, who has
// waited since 70 and gets it at 90.
std::vector<RankTrace> by_hand() {
  StepTrace first{.step = 5, .begin_ns = 10, .end_ns = 110}, second{.step = 5, .begin_ns = 12, .end_ns = 108};
  const CallSpan sum{
      .group = "world/dp 0", .kind = "all_reduce", .name = "loss", .sequence = 4, .sent = 8, .received = 8};
  const auto with = [](CallSpan call, int64_t begin, int64_t started, int64_t from, int64_t until,
                       int64_t end) {
    call.begin_ns = begin, call.started_ns = started, call.waited_from_ns = from,
    call.waited_until_ns = until, call.end_ns = end;
    return call;
  };
  first.spans = {{.kind = SpanKind::kData, .begin_ns = 10, .end_ns = 15},
                 {.kind = SpanKind::kForward, .begin_ns = 15, .end_ns = 100, .chunk = 0, .micro_batch = 0}};
  second.spans = {{.kind = SpanKind::kForward, .begin_ns = 12, .end_ns = 95, .chunk = 0, .micro_batch = 1}};
  const CallSpan message{.group = "world/pp 0", .kind = "exchange", .name = "hidden states", .sequence = 0};
  CallSpan sends = message, receives = message;
  sends.sends_to = {1};
  receives.receives_from = {0};
  first.calls = {with(sum, 20, 22, 25, 60, 58), with(sends, 80, 80, 0, 0, 90)};
  second.calls = {with(sum, 50, 52, 52, 60, 58), with(receives, 65, 65, 70, 90, 90)};
  return {{.rank = {.rank = 0, .pp = 0}, .steps = {first}},
          {.rank = {.rank = 1, .pp = 1}, .steps = {second}}};
}

TEST(TimeUse, ByHand) {
  const std::vector<TimeUse> use = time_use(by_hand());
  ASSERT_EQ(use.size(), 2u);
  // 0: still in [20, 22) and [25, 60), of which [50, 60) after rank 1 had come.
  EXPECT_EQ(use[0].wall_ns, 100);
  EXPECT_EQ(use[0].busy_ns, 85 - 2 - 35);
  EXPECT_EQ(use[0].exposed_ns, 10);
  EXPECT_EQ(use[0].idle_ns, 42);
  // 1: still in [50, 60), all of it after both had come, and [70, 90), of which [80, 90) after the send had
  // begun.
  EXPECT_EQ(use[1].wall_ns, 96);
  EXPECT_EQ(use[1].busy_ns, 83 - 10 - 20);
  EXPECT_EQ(use[1].exposed_ns, 10 + 10);
  EXPECT_EQ(use[1].idle_ns, 23);
  EXPECT_THAT(time_use_table(use, false), HasSubstr("communication exposed"));
}

// The same steps by call: the sum is waited for in [20, 22) and [25, 60) by rank 0 and in [50, 60) by rank 1,
// and both have come at 50. The message is waited for in [70, 90) by rank 1, and its sender comes at 80.
TEST(CallCost, ByHand) {
  std::vector<RankTrace> ranks = by_hand();
  ranks[0].steps[0].calls[0].sent = 40, ranks[1].steps[0].calls[0].sent = 8;
  const std::vector<CallCost> kinds = call_costs(ranks);
  ASSERT_EQ(kinds.size(), 2u);
  const CallCost &sum = kinds[0], &message = kinds[1];
  EXPECT_EQ(sum.exposed_ns, 10 + 10);
  EXPECT_EQ(sum.early_ns, 2 + 25);
  EXPECT_EQ(sum.calls, 2);
  EXPECT_EQ(sum.bytes, 48);
  EXPECT_EQ(message.group, "pp");
  EXPECT_EQ(message.name, "hidden states");
  EXPECT_EQ(message.exposed_ns, 10);
  EXPECT_EQ(message.early_ns, 10);
}

TEST(CallCost, NumbersDoNotMakeAKind) {
  StepTrace step{.step = 1, .begin_ns = 0, .end_ns = 100};
  for (const char* const name : {"gradients of layers.3", "gradients of layers.12", "values of layers.3"}) {
    step.calls.push_back(
        {.group = "world/dp 2", .kind = "all_reduce", .name = name, .begin_ns = 1, .end_ns = 2});
    step.calls.back().sequence = std::ssize(step.calls);
  }
  const std::vector<CallCost> kinds = call_costs({{.rank = {.rank = 0}, .steps = {step}}});
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].group, "dp");
  EXPECT_EQ(kinds[0].name, "gradients of layers.*");
  EXPECT_EQ(kinds[0].calls, 2);
  EXPECT_EQ(kinds[1].name, "values of layers.*");
  const std::string text = call_cost_table(kinds, 1, 0, false);
  EXPECT_THAT(text, ::testing::ContainsRegex("others +3 ")) << "three calls, in one row";
  EXPECT_THAT(text, ::testing::Not(HasSubstr("gradients of")));
}

TEST(TimeUse, SumsToTheWallWhateverTheSpans) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<RankTrace> ranks;
    for (int64_t rank = 0; rank < 3; ++rank) {
      StepTrace step{.step = 1, .begin_ns = 1000, .end_ns = 2000};
      const auto time = [&] { return 1000 + static_cast<int64_t>(random() % 1001); };
      for (int i = 0; i < 6; ++i) {
        const auto [begin, end] = std::minmax({time(), time()});
        step.spans.push_back(
            {.kind = static_cast<SpanKind>(random() % kSpanKinds), .begin_ns = begin, .end_ns = end});
      }
      for (int64_t i = 0; i < 5; ++i) {
        int64_t times[4] = {time(), time(), time(), time()};
        std::ranges::sort(times);
        step.calls.push_back({.group = "world",
                              .kind = "barrier",
                              .sequence = i,
                              .begin_ns = times[0],
                              .end_ns = times[3],
                              .started_ns = times[1],
                              .waited_from_ns = times[2],
                              .waited_until_ns = times[3]});
      }
      ranks.push_back({.rank = {.rank = rank}, .steps = {step}});
    }
    for (const TimeUse& use : time_use(ranks)) {
      EXPECT_EQ(use.busy_ns + use.exposed_ns + use.idle_ns, use.wall_ns);
      EXPECT_GE(use.busy_ns, 0);
      EXPECT_GE(use.exposed_ns, 0);
      EXPECT_GE(use.idle_ns, 0);
    }
  }
}

nlohmann::json chrome(const std::vector<RankTrace>& ranks) {
  std::string text;
  write_chrome_trace(ranks, [&](std::string_view part) { text += part; });
  return nlohmann::json::parse(text);
}

TEST(ChromeTrace, EveryRankAndRowHasAName) {
  const nlohmann::json events = chrome(by_hand()).at("traceEvents");
  std::map<int64_t, std::set<std::string>> rows;
  std::set<int64_t> named;
  int arrows = 0;
  for (const auto& event : events) {
    if (event.at("name") == "thread_name") rows[event.at("pid")].insert(event.at("args").at("name"));
    if (event.at("name") == "process_name") named.insert(event.at("pid").get<int64_t>());
    if (event.at("ph") == "s" || event.at("ph") == "f") ++arrows;
  }
  EXPECT_EQ(named, (std::set<int64_t>{0, 1}));
  EXPECT_EQ(rows[0], (std::set<std::string>{"compute", "data", "communication dp", "communication pp"}));
  EXPECT_EQ(rows[1], (std::set<std::string>{"compute", "communication dp", "communication pp"}));
  EXPECT_EQ(arrows, 2);
}

TEST(ChromeTrace, SlicesOfARowLieInEachOtherOrApart) {
  std::vector<RankTrace> ranks = by_hand();
  auto& calls = ranks[0].steps[0].calls;
  for (int64_t i = 0; i < 3; ++i) {  // under way at the same time
    calls.push_back({.group = "world/dp 0",
                     .kind = "all_reduce",
                     .name = "gradients",
                     .sequence = 5 + i,
                     .begin_ns = 61 + i,
                     .end_ns = 80 + i});
  }
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<double, double>>> rows;
  const nlohmann::json trace = chrome(ranks);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts");
    rows[{event.at("pid"), event.at("tid")}].push_back({begin, begin + event.at("dur").get<double>()});
  }
  ASSERT_EQ(rows.size(), 4u + 2u + 3u) << "of rank 0 with three rows for its sums";
  for (auto& [row, slices] : rows) {
    std::ranges::sort(slices, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> open;
    for (const auto& [begin, end] : slices) {
      while (!open.empty() && open.back() <= begin + 1e-9) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(end, open.back() + 1e-9) << "rank " << row.first << ", row " << row.second;
      }
      open.push_back(end);
    }
  }
}

TEST(TraceFile, ComesBackAsItWas) {
  const TemporaryFolder folder;
  std::vector<RankTrace> ranks = by_hand();
  // Values on their way since the step before, whose call was started below this step's begin; and at its
  // very begin.
  CallSpan values = ranks[0].steps[0].calls[0];
  values.name = "values";
  values.begin_ns = values.end_ns = 10, values.started_ns = 3, values.waited_from_ns = 9,
  values.waited_until_ns = 0;
  ranks[0].steps[0].calls.push_back(values);
  for (const RankTrace& rank : ranks) TraceWriter(folder.path(), rank.rank).write(rank.steps[0]);
  const std::vector<RankTrace> back = read_trace(folder.path());
  ASSERT_EQ(back.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back[i].rank.rank, static_cast<int64_t>(i));
    EXPECT_EQ(back[i].rank.pp, static_cast<int64_t>(i));
    EXPECT_EQ(back[i].steps, ranks[i].steps);
  }
}

TEST(TraceFile, TimesAreReadOnTheFirstRanksClock) {
  const TemporaryFolder folder;
  TraceWriter(folder.path(), {.rank = 1, .clock_offset_ns = -7})
      .write({.step = 1, .begin_ns = 100, .end_ns = 200, .spans = {{.begin_ns = 110, .end_ns = 120}}});
  const StepTrace step = read_trace(folder.path())[0].steps[0];
  EXPECT_EQ(step.begin_ns, 93);
  EXPECT_EQ(step.spans[0].end_ns, 113);
}

TEST(TraceFile, ATornLineIsLeftOutAndAStepDoneAgainCountsOnce) {
  const TemporaryFolder folder;
  const auto path = folder / "trace/rank-0.jsonl";
  TraceWriter(folder.path(), {.generation = 1}).write({.step = 4, .begin_ns = 1, .end_ns = 2});
  std::ofstream(path, std::ios::app) << R"({"step":5,"begin_ns":3)";
  EXPECT_EQ(read_trace(folder.path())[0].steps.size(), 1u);
  TraceWriter(folder.path(), {.generation = 2}).write({.step = 4, .begin_ns = 7, .end_ns = 9});
  const RankTrace trace = read_trace(folder.path())[0];
  EXPECT_EQ(trace.rank.generation, 2);
  ASSERT_EQ(trace.steps.size(), 1u);
  EXPECT_EQ(trace.steps[0].begin_ns, 7);
}

// Told between two recorded steps, it stands in the second one, with times of its own.
TEST(TraceFile, HasWhatWentOnBesideTheSteps) {
  SpanRecorder recorder;
  recorder.add(BesideSpan{"nobody asks", 1, 2});
  recorder.start(2);
  EXPECT_TRUE(recorder.stop().beside.empty()) << "before the first recorded step";
  recorder.add(BesideSpan{"checkpoint of step 2 to the disk", 5, 7});
  recorder.start(4);
  StepTrace step = recorder.stop();
  ASSERT_EQ(step.beside, (std::vector<BesideSpan>{{"checkpoint of step 2 to the disk", 5, 7}}));
  const TemporaryFolder folder;
  TraceWriter(folder.path(), {}).write(step);
  EXPECT_EQ(read_trace(folder.path())[0].steps[0], step);
  recorder.start(6);
  EXPECT_TRUE(recorder.stop().beside.empty()) << "told once";
}

TEST(TraceFile, AFileHasAnEnd) {
  const TemporaryFolder folder;
  TraceWriter writer(folder.path(), {}, 1000);
  for (int64_t step = 1; step <= 100; ++step) writer.write({.step = step, .begin_ns = 1, .end_ns = 2});
  EXPECT_TRUE(writer.full());
  EXPECT_LE(std::filesystem::file_size(folder / "trace/rank-0.jsonl"), 1000u);
  const auto steps = read_trace(folder.path())[0].steps;
  EXPECT_GT(steps.size(), 3u);
  EXPECT_EQ(steps.back().step, static_cast<int64_t>(steps.size())) << "the first ones are there, whole";
}

TEST(TraceFile, WithoutOneItIsSaidWhatMakesOne) {
  const TemporaryFolder folder;
  try {
    read_trace(folder.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.fields().hint, HasSubstr("observe.trace_every=10"));
  }
  TraceWriter(folder.path(), {}).write({.step = 20, .begin_ns = 1, .end_ns = 2});
  EXPECT_THROW(require_steps(read_trace(folder.path(), step_choice("3-19")), folder.path(), "3-19"), Error);
  EXPECT_EQ(read_trace(folder.path(), step_choice("20"))[0].steps.size(), 1u);
  for (const char* const wrong : {"-3", "4-3", "x", "3-", "3-4-5"})
    EXPECT_THROW(step_choice(wrong), Error) << wrong;
}

}  // namespace
}  // namespace longhaul::observe
