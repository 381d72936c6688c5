// Pictures of time: as many boxes as the schedule has passes, where they belong.
#include "observe/report/report_timelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files/temporary_folder.h"
#include "support/text.h"

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t passes_in(const layout::Schedule& schedule) {
  size_t passes = 0;
  for (const auto& rank : schedule.ranks)
    passes += static_cast<size_t>(
        std::ranges::count_if(rank, [](const auto& action) { return !action.transfer(); }));
  return passes;
}

TEST(Timelines, ABoxForEachPassOfEverySchedule) {
  using enum recipe::PipelineSchedule;
  for (const auto& [method, chunks] :
       {std::pair(kGpipe, 1), {k1F1B, 1}, {kInterleaved, 2}, {kZbH1, 1}, {kZbV, 1}, {kDualPipe, 1}}) {
    const layout::Schedule schedule =
        layout::make_schedule(layout::Pipeline(2, {.schedule = method, .chunks = chunks}), 4);
    const PassPicture picture = simulated_passes(schedule, {});
    EXPECT_EQ(testing::count_of(picture.html(), "<rect class=\"box "), passes_in(schedule))
        << static_cast<int>(method);
    for (const auto& row : picture.rows) {
      for (size_t i = 1; i < row.size(); ++i) EXPECT_LE(row[i - 1].end, row[i].begin + 1e-9);
    }
  }
}

// By hand: two ranks, two micro-batches, in milliseconds; rank 1 waits for the first forward pass. An
// evaluation behind them runs passes too.
std::vector<RankTrace> ranks_of_a_pipeline() {
  constexpr int64_t kMs = 1'000'000;
  const auto span = [](SpanKind kind, int64_t micro_batch, int64_t begin, int64_t end) {
    return Span{
        .kind = kind, .begin_ns = begin * kMs, .end_ns = end * kMs, .chunk = 0, .micro_batch = micro_batch};
  };
  using enum SpanKind;
  StepTrace first{.step = 3, .begin_ns = 100 * kMs, .end_ns = 140 * kMs}, second = first;
  first.spans = {span(kForward, 0, 102, 104),  span(kForward, 1, 104, 106), span(kBackward, 0, 112, 116),
                 span(kBackward, 1, 120, 124), span(kForward, 0, 131, 133), span(kEvaluation, -1, 130, 135)};
  second.spans = {span(kForward, 0, 104, 106), span(kBackward, 0, 106, 112), span(kForward, 1, 112, 114),
                  span(kBackward, 1, 114, 120)};
  return {{.rank = {.rank = 0, .pp = 0}, .steps = {first}},
          {.rank = {.rank = 1, .pp = 1}, .steps = {second}}};
}

TEST(Timelines, MeasuredPassesBeginWithTheFirstAndLeaveOutAnEvaluations) {
  const PassPicture picture = measured_passes(ranks_of_a_pipeline());
  ASSERT_EQ(picture.rows.size(), 2u);
  ASSERT_EQ(picture.rows[0].size(), 4u);
  ASSERT_EQ(picture.rows[1].size(), 4u);
  EXPECT_DOUBLE_EQ(picture.rows[0][0].begin, 0);
  EXPECT_DOUBLE_EQ(picture.rows[1][0].begin, 2);
  EXPECT_DOUBLE_EQ(picture.rows[1][3].end, 18);
  EXPECT_EQ(testing::count_of(picture.html(), "<rect class=\"box "), 8u);
  // 2 ranks of 22 ms, of which 12 and 16 are passes.
  EXPECT_THAT(picture.caption, HasSubstr("36.4 % of the ranks' time"));
  const layout::PassCosts costs = measured_costs(picture, 1);
  EXPECT_DOUBLE_EQ(costs.forward, 2);
  EXPECT_DOUBLE_EQ(costs.backward_input + costs.backward_weight, 5);
}

TEST(Timelines, OfOneRankWithoutATraceThereIsNothing) {
  const TemporaryFolder folder;
  EXPECT_EQ(timelines_section(folder.path()), "");
  std::ofstream(folder / "recipe.toml") << "version = 1\n";
  EXPECT_EQ(timelines_section(folder.path()), "");
}

TEST(Timelines, WithoutATraceTheScheduleAloneIsShownAndSaidSo) {
  const TemporaryFolder folder;
  std::ofstream(folder / "recipe.toml")
      << "version = 1\n[train]\nbatch = 8\nmicro_batch = 1\n[parallel]\npp = 2\nranks = 4\n";
  const std::string html = timelines_section(folder.path());
  EXPECT_EQ(testing::count_of(html, "<figure"), 1u);
  EXPECT_EQ(testing::count_of(html, "<rect class=\"box "), 16u)
      << "4 micro-batches of each replica, forward and backward, on 2 ranks";
  EXPECT_THAT(html, HasSubstr("No step was recorded (observe.trace_every)"));
}

TEST(Timelines, WithATraceThePicturesStandBesideEachOther) {
  const TemporaryFolder folder;
  std::ofstream(folder / "recipe.toml")
      << "version = 1\n[train]\nbatch = 8\nmicro_batch = 4\n[parallel]\npp = 2\n";
  for (const RankTrace& rank : ranks_of_a_pipeline())
    TraceWriter(folder.path(), rank.rank).write(rank.steps[0]);
  // of an earlier start on more ranks
  TraceWriter(folder.path(), {.rank = 2, .generation = 0}).write({.step = 9});
  const std::string html = timelines_section(folder.path());
  EXPECT_EQ(testing::count_of(html, "<figure"), 3u);
  EXPECT_EQ(testing::count_of(html, "<rect class=\"box "), 16u);
  EXPECT_THAT(html, HasSubstr("Step 3 as measured"));
  EXPECT_THAT(html, HasSubstr("Step 3, rank by rank"));
  EXPECT_THAT(html, Not(HasSubstr("No step was recorded")));
}

}  // namespace
}  // namespace longhaul::observe
