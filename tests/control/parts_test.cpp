// The pure parts of the driver: journal, ledger, time-outs, places, widths, the search for deadly samples,
// the use of time.
#include <gtest/gtest.h>

#include "base/error.h"
#include "control/driver/batch_search.h"
#include "control/driver/effective_time.h"
#include "control/driver/time_outs.h"
#include "control/journal.h"
#include "control/ledger.h"
#include "control/rank_placement.h"
#include "control/widths.h"

namespace longhaul::control {
namespace {

std::vector<JournalEntry> some_entries() {
  std::vector<JournalBody> bodies = {
      DriverBegan{.run = "r", .recipe = "first.toml"},
      StateChanged{.state = "LOAD", .reason = "a \"reason\", with\nlines"},
      NodeChanged{.node = "node-0", .host = "h", .boot_id = "b", .state = "active", .slots = 4},
      GenerationBegan{.generation = 1, .world = 4, .placement = {{.node = "node-0", .ranks = {0, 1, 2, 3}}}},
      GenerationResumed{.generation = 1, .step = 0},
      StepCommitted{.step = 7},
      IncidentOpened{.id = 1,
                     .generation = 1,
                     .rank = 2,
                     .step = 9,
                     .fault = "killed",
                     .node = "node-0",
                     .suspects = {"rank 2"},
                     .restarts = true},
      IncidentDiagnosed{.id = 1, .fault = "killed", .node = "node-0", .rank = 2},
      GenerationEnded{.generation = 1, .step = 9, .productive_s = 12.5, .longest_s = {{"forward", 2.0}}},
      IncidentClosed{.id = 1, .lost_steps = 2, .recovered_milliseconds = 1500},
      SearchChanged{.active = true, .begin = 8, .end = 16, .trace = "139 x"},
      SamplesSkipped{.begin = 9, .end = 10, .reason = "deadly"},
      RunEnded{.code = 0, .text = "done"}};
  std::vector<JournalEntry> entries;
  for (JournalBody& body : bodies)
    entries.push_back({.sequence = static_cast<int64_t>(entries.size()) + 1,
                       .at_s = 1000.25 + static_cast<double>(entries.size()),
                       .body = std::move(body)});
  return entries;
}

std::string text_of(const std::vector<JournalEntry>& entries) {
  std::string text;
  for (const JournalEntry& entry : entries) text += to_line(entry);
  return text;
}

TEST(Journal, ComesBack) {
  const std::vector<JournalEntry> entries = some_entries();
  const std::string text = text_of(entries);
  const Journal journal = journal_from_text(text, "j");
  EXPECT_EQ(journal.entries, entries);
  EXPECT_EQ(journal.whole_bytes, static_cast<int64_t>(text.size()));
  EXPECT_TRUE(journal_from_text("", "j").entries.empty());
}

// Wherever a crash cuts it off, what was whole comes back.
TEST(Journal, ATornLineIsCutOff) {
  const std::vector<JournalEntry> entries = some_entries();
  const std::string text = text_of(entries);
  for (size_t length = 0; length < text.size(); ++length) {
    const Journal journal = journal_from_text(std::string_view(text).substr(0, length), "j");
    ASSERT_LE(journal.whole_bytes, static_cast<int64_t>(length));
    ASSERT_TRUE(std::equal(journal.entries.begin(), journal.entries.end(), entries.begin()));
    ASSERT_EQ(text_of(journal.entries).size(), static_cast<size_t>(journal.whole_bytes));
  }
}

// Every byte of it: no change is taken for what was written.
TEST(Journal, DamageIsNoticed) {
  const std::vector<JournalEntry> entries = some_entries();
  const std::string text = text_of({entries.begin(), entries.begin() + 3});
  const size_t last_begin = text.rfind('\n', text.size() - 2) + 1;
  for (size_t i = 0; i < last_begin; ++i) {
    std::string bad = text;
    bad[i] = static_cast<char>(bad[i] ^ 0x11);
    try {
      const Journal journal = journal_from_text(bad, "journal.jsonl");
      ADD_FAILURE() << "byte " << i << " changed, and nobody noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDisk);
      EXPECT_NE(error.fields().where.find("journal.jsonl:"), std::string::npos);
    }
  }
  // the first is missing
  EXPECT_THROW(journal_from_text(to_line(entries[1]), "j"), Error);
  EXPECT_THROW(journal_from_text(to_line(entries[0]) + to_line(entries[0]), "j"), Error);  // twice
}

TEST(Ledger, IsWhatItsEntriesSay) {
  const Policy policy;
  Ledger ledger;
  for (const JournalEntry& entry : some_entries()) ledger.apply(entry, policy);
  EXPECT_EQ(ledger.generation, 1);
  EXPECT_EQ(ledger.committed_step, 7);
  EXPECT_EQ(ledger.restarts, 1);
  EXPECT_EQ(ledger.incidents.size(), 1U);
  EXPECT_EQ(ledger.incidents[0].closed->lost_steps, 2);
  EXPECT_EQ(ledger.skipped, (std::vector<data::SampleRange>{{9, 10}}));
  EXPECT_EQ(ledger.longest_s.at("forward"), 2.0);
  EXPECT_EQ(ledger.ended->code, 0);
  EXPECT_EQ(ledger.cycles, 0) << "a skipped sample begins anew";
}

TEST(Ledger, TheBudgetIsRefilledEvenly) {
  Policy policy;
  policy.restarts = 2;
  policy.restarts_window_s = 100;
  Ledger ledger;
  double now_s = 1000;
  const auto restart = [&] {
    ledger.apply({.sequence = ledger.next_sequence,
                  .at_s = now_s,
                  .body = IncidentOpened{.id = 1, .fault = "killed", .restarts = true}},
                 policy);
  };
  EXPECT_EQ(ledger.budget_left(now_s, policy), 2);
  restart();
  EXPECT_NEAR(ledger.budget_left(now_s, policy), 1, 1e-9);
  now_s += 25;
  EXPECT_NEAR(ledger.budget_left(now_s, policy), 1.5, 1e-9);
  restart();
  EXPECT_NEAR(ledger.budget_left(now_s, policy), 0.5, 1e-9);
  now_s += 1000;
  EXPECT_NEAR(ledger.budget_left(now_s, policy), 2, 1e-9);
}

// A step that was committed since makes the count begin anew; machines' faults do not count.
TEST(Ledger, CyclesWithoutProgress) {
  const Policy policy;
  Ledger ledger;
  const auto add = [&](JournalBody body) {
    ledger.apply({.sequence = ledger.next_sequence, .at_s = 1, .body = std::move(body)}, policy);
  };
  const auto fault = [&](const char* kind) { add(IncidentOpened{.id = 1, .fault = kind, .restarts = true}); };
  fault("killed");
  EXPECT_EQ(ledger.cycles, 1);
  fault("machine_unreachable");
  EXPECT_EQ(ledger.cycles, 1);
  fault("unclear");
  EXPECT_EQ(ledger.cycles, 2);
  add(StepCommitted{.step = 4});
  fault("unclear");
  EXPECT_EQ(ledger.cycles, 1);
  add(GenerationResumed{.generation = 2, .step = 4});
  fault("unclear");
  EXPECT_EQ(ledger.cycles, 2) << "going on from the same step again is no progress";
}

TEST(Ledger, LongestIntervalsAreAveraged) {
  Policy policy;
  policy.progress_average = 0.25;  // a quarter of what was learnt before
  Ledger ledger;
  for (const double seconds : {10.0, 20.0})
    ledger.apply({.sequence = ledger.next_sequence,
                  .at_s = 1,
                  .body = GenerationEnded{.generation = 1, .longest_s = {{"forward", seconds}}}},
                 policy);
  EXPECT_EQ(ledger.longest_s.at("forward"), 0.25 * 10 + 0.75 * 20);
}

// 5 times the longest, half of what was known before (specs §4.3).
TEST(TimeOuts, AreLearnt) {
  Policy policy;
  policy.progress_floor_s = 10;
  ProgressTimeOuts first(policy, {});
  EXPECT_EQ(first.limit_s("forward"), 10);
  EXPECT_EQ(first.limit_s("evaluation"), policy.first_step_s) << "it comes seldom and takes long";
  first.saw("forward", 1);
  EXPECT_EQ(first.limit_s("forward"), 10);
  first.saw("forward", 4);
  first.saw("forward", 3);
  EXPECT_EQ(first.limit_s("forward"), 20);
  first.saw("evaluation", 100);
  EXPECT_EQ(first.limit_s("evaluation"), 500);
  EXPECT_EQ(first.limit_s("backward"), 10);

  Ledger ledger;
  const auto end = [&](observe::Metrics longest) {
    ledger.apply({.sequence = ledger.next_sequence,
                  .at_s = 1,
                  .body = GenerationEnded{.longest_s = std::move(longest)}},
                 policy);
  };
  end(first.seen());
  end({{"forward", 8}});
  EXPECT_EQ(ledger.longest_s.at("forward"), 6);
  EXPECT_EQ(ProgressTimeOuts(policy, ledger.longest_s).limit_s("forward"), 30);
}

// What the task states stands until a phase was seen, and is never cut short by what was seen.
TEST(TimeOuts, OfPhasesThatTheTaskNames) {
  Policy policy;
  policy.progress_floor_s = 10;
  ProgressTimeOuts times(policy, {});
  EXPECT_EQ(times.task_limit_s("rollout", 0), policy.first_step_s) << "nothing is known of it";
  EXPECT_EQ(times.task_limit_s("rollout", 40), 40);
  EXPECT_EQ(times.task_limit_s("rollout", 4), 10) << "not below the floor";
  times.saw_task("rollout", 6);
  EXPECT_EQ(times.task_limit_s("rollout", 0), 30);
  EXPECT_EQ(times.task_limit_s("rollout", 20), 30);
  EXPECT_EQ(times.task_limit_s("rollout", 40), 40);
  times.saw_task("rollout", 1);
  EXPECT_EQ(times.task_limit_s("rollout", 0), 30);
  EXPECT_EQ(times.task_limit_s("reward", 0), policy.first_step_s);
  times.saw_task("data", 50);
  EXPECT_EQ(times.limit_s("data"), 10) << "a phase of the task may be called as one of the trainer";
}

std::string placement_text(const std::optional<std::vector<NodeRanks>>& placement) {
  if (!placement) return "none";
  std::string text;
  for (const NodeRanks& node : *placement)
    text += fmt::format("{}:{} ", node.node, fmt::join(node.ranks, ","));
  return text;
}

TEST(RankPlacement, WholeNodesInOrder) {
  EXPECT_EQ(placement_text(place_ranks(4, {{"a", 2}, {"b", 2}}, {})), "a:0,1 b:2,3 ");
  EXPECT_EQ(placement_text(place_ranks(3, {{"a", 2}, {"b", 2}}, {})), "a:0,1 b:2 ");
  EXPECT_EQ(placement_text(place_ranks(5, {{"a", 2}, {"b", 2}}, {})), "none");
}

TEST(RankPlacement, WhoStaysKeepsItsRanks) {
  const std::vector<NodeRanks> before = {{"a", {0, 1}}, {"b", {2, 3}}, {"c", {4, 5}}};
  EXPECT_EQ(placement_text(place_ranks(6, {{"c", 2}, {"a", 2}, {"s", 2}}, before)), "a:0,1 s:2,3 c:4,5 ");
  EXPECT_EQ(placement_text(place_ranks(6, {{"b", 2}, {"s", 4}}, before)), "s:0,1,4,5 b:2,3 ");
  EXPECT_EQ(placement_text(place_ranks(6, {{"a", 2}, {"c", 2}, {"s", 1}, {"t", 1}}, before)),
            "a:0,1 s:2 t:3 c:4,5 ");
  EXPECT_EQ(placement_text(place_ranks(6, {{"a", 2}, {"c", 2}}, before)), "none");
  EXPECT_EQ(placement_text(place_ranks(4, {{"c", 2}, {"a", 2}}, before)), "c:0,1 a:2,3 ")
      << "fewer ranks: another mesh";
  EXPECT_EQ(node_of(before, 3), "b");
  EXPECT_EQ(node_of(before, 9), "");
}

TEST(RankPlacement, NamesCountAsPeopleDo) {
  EXPECT_TRUE(natural_less("node-2", "node-10"));
  EXPECT_FALSE(natural_less("node-10", "node-2"));
  EXPECT_TRUE(natural_less("a", "b"));
  EXPECT_TRUE(natural_less("node-2", "node-2a"));
  EXPECT_FALSE(natural_less("node-2", "node-2"));
}

recipe::Recipe a_recipe(int64_t batch, int64_t micro_batch) {
  recipe::Recipe recipe;
  recipe.train.batch = batch;
  recipe.train.micro_batch = micro_batch;
  return recipe;
}

std::string widths_text(const std::vector<Width>& widths) {
  std::string text;
  for (const Width& width : widths)
    text += fmt::format("{}{} ", width.ranks,
                        width.overrides.empty() ? "" : fmt::format("[{}]", fmt::join(width.overrides, " ")));
  return text;
}

TEST(Widths, WholeReplicasWithTheSameBatch) {
  EXPECT_EQ(widths_text(widths_of(a_recipe(8, 1), 8)), "8 4 2 1 ");
  EXPECT_EQ(widths_text(widths_of(a_recipe(24, 1), 4)), "4 3 2 1 ");
  EXPECT_EQ(widths_text(widths_of(a_recipe(24, 4), 4)), "4[train.micro_batch=2] 3 2 1 ");
  recipe::Recipe tensor = a_recipe(12, 1);
  tensor.parallel.tp = 2;
  EXPECT_EQ(widths_text(widths_of(tensor, 8)), "8 6 4 2 ");
  tensor.parallel.ranks = 8;
  EXPECT_EQ(widths_text(widths_of(tensor, 8)),
            "8 6[parallel.ranks=6] 4[parallel.ranks=4] 2[parallel.ranks=2] ");
  recipe::Recipe elastic = a_recipe(24, 4);
  elastic.train.elastic = true;
  EXPECT_EQ(widths_text(widths_of(elastic, 3)), "3 2 1 ");
  EXPECT_EQ(widths_text(widths_of(a_recipe(8, 8), 3)), "3 2[train.micro_batch=4] 1 ")
      << "what was asked for, whether it is possible or not";
}

// Workers of an outer loop go whole, and one alone is none.
TEST(Widths, WorkersOfAnOuterLoop) {
  recipe::Recipe recipe = a_recipe(24, 1);
  recipe.optim.outer.method = recipe::Outer::kCo2;
  EXPECT_EQ(widths_text(widths_of(recipe, 4)), "4 3 2 ");
  recipe.parallel.tp = 2;
  EXPECT_EQ(widths_text(widths_of(recipe, 8)), "8 6 4 ");
  recipe.parallel.workers = 4;
  EXPECT_EQ(widths_text(widths_of(recipe, 8)), "8 6[parallel.workers=3] 4[parallel.workers=2] ");
  recipe.parallel.workers = 2;
  EXPECT_EQ(widths_text(widths_of(recipe, 8)), "8 4 ")
      << "one island is left: its ranks are two smaller ones";
}

TEST(Widths, BatchesThatChange) {
  recipe::Recipe recipe = a_recipe(8, 4);
  recipe.train.sequence = 10;
  recipe.optim.stages = {
      {.from_step = 3, .batch = 12}, {.from_step = 5, .lr = 1e-3}, {.from_step = 6, .batch = 16}};
  RunPlan plan;
  plan.batches = batches_of(recipe);
  // Steps 1 and 2 have 8 samples, 3 to 5 have 12, from 6 on 16.
  const std::vector<int64_t> positions = {0, 8, 16, 28, 40, 52, 68};
  for (size_t step = 0; step < positions.size(); ++step)
    EXPECT_EQ(plan.first_position(static_cast<int64_t>(step)), positions[step]) << step;
  recipe.optim.stages = {{.from_tokens = 161, .batch = 12}};  // 17 samples: after three steps of 8
  plan.batches = batches_of(recipe);
  EXPECT_EQ(plan.first_position(3), 24);
  EXPECT_EQ(plan.first_position(4), 36);
  // 40 samples in 5 steps of 8; from there to 120 in 7 of 12 (124); from there to 240 in 8 of 16 (252): all
  // before a stage count.
  recipe.optim.stages = {{.from_tokens = 400, .batch = 12},
                         {.from_tokens = 1200, .batch = 16},
                         {.from_tokens = 2400, .batch = 20}};
  plan.batches = batches_of(recipe);
  ASSERT_EQ(plan.batches.size(), 4U);
  EXPECT_EQ(plan.batches[1].from_step, 5);
  EXPECT_EQ(plan.batches[2].from_step, 12);
  EXPECT_EQ(plan.batches[3].from_step, 20);
  EXPECT_EQ(plan.first_position(20), 252);
  // 16 in two steps, 24 in two of 12
  recipe.optim.stages = {{.from_step = 3, .batch = 12}, {.from_tokens = 400, .batch = 16}};
  plan.batches = batches_of(recipe);
  EXPECT_EQ(plan.batches.back().from_step, 4);
}

// By hand as in tests/optim/schedule_test.cpp: 8 sequences of 10 tokens a step, from 200 tokens on 4 of 30,
// from 500 on 4 of 90. A step of the second stage has 120 tokens, 1.5 times 80, in sequences three times as
// long; of the third 3 times as many, in sequences three times as long.
TEST(Widths, SequencesThatChange) {
  recipe::Recipe recipe = a_recipe(8, 4);
  EXPECT_EQ(longest_growth(recipe), 1);
  recipe.train.sequence = 10;
  recipe.optim.stages = {{.from_tokens = 200, .batch = 4, .sequence = 30},
                         {.from_tokens = 500, .sequence = 90},
                         {.from_tokens = 700, .batch = 8}};
  const std::vector<BatchSize> batches = batches_of(recipe);
  ASSERT_EQ(batches.size(), 4U);
  EXPECT_EQ(batches[1].from_step, 3);
  EXPECT_EQ(batches[2].from_step, 6);
  EXPECT_EQ(batches[3].from_step, 7);
  EXPECT_DOUBLE_EQ(longest_growth(recipe), 9);
  recipe.optim.stages = {{.from_step = 5, .batch = 2, .sequence = 40}};
  EXPECT_DOUBLE_EQ(longest_growth(recipe), 4) << "as many tokens, in sequences four times as long";
}

// One deadly sample anywhere, or none: what a search finds, and in how many generations.
TEST(BatchSearch, FindsTheSample) {
  RunPlan plan;
  plan.batches = {{.from_step = 0, .samples = 8}};
  plan.prefetch = 1;
  const std::vector<data::SampleRange> skipped = {{3, 5}, {90, 91}};
  const SearchChanged begin = begin_search(10, "t", plan, skipped);
  EXPECT_EQ(begin.begin, 82);  // position 80, two passed over before it
  EXPECT_EQ(begin.end, 99);    // positions 80 to 95, and 90 passed over among them
  EXPECT_EQ(survived_at(begin, plan), 13);
  for (int64_t deadly = begin.begin; deadly < begin.end; ++deadly) {
    SearchStep step{.next = begin, .found = {}};
    int generations = 0;
    while (step.next.active && generations < 10) {
      const bool died = deadly < step.next.skipped_begin || deadly >= step.next.skipped_end;
      step = after_probe(step.next, died, begin.begin, 1);
      ++generations;
    }
    ASSERT_TRUE(step.found.has_value()) << deadly;
    EXPECT_EQ(*step.found, (data::SampleRange{deadly, deadly + 1}));
    EXPECT_LE(generations, deadly == begin.begin ? 7 : 6);
  }
  // What is passed over behind the last sample is not suspected.
  RunPlan alone;
  alone.batches = {{.from_step = 0, .samples = 8}};
  EXPECT_EQ(begin_search(10, "t", alone, {{88, 96}}).begin, 80);
  EXPECT_EQ(begin_search(10, "t", alone, {{88, 96}}).end, 88);
  const SearchStep nothing = after_probe(begin, true, begin.begin, 1);
  EXPECT_FALSE(nothing.next.active);
  EXPECT_TRUE(nothing.next.failed);
  EXPECT_FALSE(nothing.found.has_value());
  SearchStep lucky{.next = begin, .found = {}};  // nobody dies any more
  while (lucky.next.active) lucky = after_probe(lucky.next, false, begin.begin, 1);
  EXPECT_FALSE(lucky.found.has_value());
  EXPECT_FALSE(lucky.next.failed);
}

TEST(BatchSearch, SamplesPassedOver) {
  const std::vector<data::SampleRange> skipped = {{2, 4}, {6, 7}};
  std::vector<int64_t> samples;
  for (int64_t position = 0; position < 6; ++position) samples.push_back(sample_at(position, skipped));
  EXPECT_EQ(samples, (std::vector<int64_t>{0, 1, 4, 5, 7, 8}));
  EXPECT_EQ(joined({{6, 7}, {2, 4}, {3, 5}, {5, 6}, {9, 9}}), (std::vector<data::SampleRange>{{2, 7}}));
}

TEST(EffectiveTime, StepsDoneAgainAreLost) {
  EffectiveTime time(100, 0);
  time.resumed(0, 110);  // 10 s to start
  for (int step = 1; step <= 10; ++step) time.done(step, 110 + step);
  EXPECT_NEAR(time.productive_s(), 10, 1e-9);
  EXPECT_NEAR(time.ratio(120), 0.5, 1e-9);
  time.stopped();
  time.done(11, 125);  // nobody trains
  EXPECT_NEAR(time.productive_s(), 10, 1e-9);
  time.resumed(7, 130);  // three steps are void
  EXPECT_NEAR(time.productive_s(), 7, 1e-9);
  time.done(10, 133);
  EXPECT_NEAR(time.productive_s(), 10, 1e-9);
  EXPECT_NEAR(time.ratio(133), 10.0 / 33, 1e-9);
  // Several steps in one stretch: a part of it is kept.
  time.done(20, 143);
  time.resumed(15, 150);
  EXPECT_NEAR(time.productive_s(), 15, 1e-9);
  time.done(25, 170);  // two seconds a step
  time.resumed(18, 180);
  EXPECT_NEAR(time.productive_s(), 21, 1e-9) << "three of ten steps, not seven";
}

TEST(EffectiveTime, TheLastHour) {
  EffectiveTime time(0, 5000);
  time.resumed(100, 10000);
  for (int i = 1; i <= 1800; ++i) time.done(100 + i, 10000 + i);
  EXPECT_NEAR(time.ratio_of_hour(13600), 0.5, 1e-9);
  EXPECT_NEAR(time.productive_s(), 6800, 1e-9);
  EXPECT_NEAR(time.ratio_of_hour(11800), 0.5, 1e-9);
  EffectiveTime long_steps(0, 0);
  long_steps.resumed(0, 0);
  long_steps.done(1, 3000);  // one stretch, half of which is within the hour before 5100
  EXPECT_NEAR(long_steps.ratio_of_hour(5100), 1500.0 / 3600, 1e-9);
}

}  // namespace
}  // namespace longhaul::control
