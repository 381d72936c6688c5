// ctest: timeout=120
#include "observe/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>

#include "base/files/temporary_folder.h"
#include "base/progress.h"
#include "observe/events/event_log.h"
#include "observe/synthetic_run.h"
#include "support/text.h"

namespace longhaul::observe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string page_of(const test::SyntheticRun& shape) {
  const TemporaryFolder folder;
  test::write_synthetic_run(folder.path(), shape);
  return read_text(write_report(folder.path()));
}

// Every element that is opened is closed, in order: what a browser would silently repair.
void expect_balanced(const std::string& html) {
  std::string text = html;
  for (const char* raw : {"style", "script"}) {  // their content is not markup
    const std::string close = std::string("</") + raw + ">";
    for (size_t at = text.find(std::string("<") + raw); at != std::string::npos;
         at = text.find(std::string("<") + raw, at + 1)) {
      const size_t begin = text.find('>', at) + 1;
      text.erase(begin, text.find(close, begin) - begin);
    }
  }
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)([^>]*)>");
  for (std::sregex_iterator it(text.begin(), text.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (name == "br" || name == "meta" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*it)[1] == "/") {
      ASSERT_FALSE(open.empty()) << name;
      ASSERT_EQ(open.back(), name);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(Report, HoldsWhatAPersonLooksFor) {
  const std::string page = page_of({});
  expect_balanced(page);
  for (const char* id : {"loss", "gradient", "rate", "speed", "time", "memory"})
    EXPECT_THAT(page, HasSubstr(std::string("id=\"") + id + "\""));
  EXPECT_THAT(page, HasSubstr("bits/byte"));
  EXPECT_THAT(page, HasSubstr("of the measured peak (MFU, causal)"));
  EXPECT_THAT(page, HasSubstr("with full attention counted"));
  EXPECT_THAT(page, HasSubstr("14.7 % below</span> gzip −9"));
  EXPECT_THAT(page, HasSubstr("gzip −9  1.820"));
  EXPECT_THAT(page, HasSubstr("<span class=\"status good\">finished</span>"));
  EXPECT_THAT(page, HasSubstr("def forward(self, hidden"));
  // the checkpoints and the key to the picture
  EXPECT_EQ(testing::count_of(page, "<path class=\"flag save\" d=\"M"), 4 + 1);
  EXPECT_THAT(page, HasSubstr("All 8 evaluations as a table"));
  EXPECT_THAT(page,
              HasSubstr("<td>activations</td><td class=\"n\">299.9 MB</td><td class=\"n\">302.0 MB</td>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("The run folder has no recipe.toml."));
}

TEST(Report, FetchesNothing) {
  const std::string page = page_of({});
  for (const char* sign : {"http://", "https://", "src=", "@import", "url(h", "<link"})
    EXPECT_THAT(page, Not(HasSubstr(sign)));
}

TEST(Report, OneStepWithoutEvaluation) {
  const std::string page =
      page_of({.steps = 1, .evaluate_every = 0, .checkpoint_every = 0, .finished = false, .sample = false});
  expect_balanced(page);
  EXPECT_THAT(page, HasSubstr("not ended"));
  EXPECT_THAT(page, HasSubstr("<circle class=\"dot train\""));  // one point has no line
  EXPECT_THAT(page, Not(HasSubstr("Held-out text</span>")));
  EXPECT_THAT(page, Not(HasSubstr("=\"nan\"")));
}

TEST(Report, WhatATaskMeasuresHasAChartAndAColumn) {
  const TemporaryFolder folder;
  {
    EventWriter events({.path = folder / "events.jsonl"});
    for (int64_t step = 1; step <= 4; ++step) {
      const double share = 0.2 * static_cast<double>(step);
      events.write(StepReport{.step = step, .loss = 1 / share, .metrics = {{"accuracy <u>", share}}});
      events.write(evaluation_of(step, {{"accuracy <u>", share / 2}, {"loss", 2 / share}, {"won", share}}));
    }
  }
  const std::string html = read_text(write_report(folder.path()));
  expect_balanced(html);
  EXPECT_EQ(testing::count_of(html, "id=\"metric-"), 2);
  EXPECT_THAT(html, AllOf(HasSubstr("accuracy &lt;u&gt;"), Not(HasSubstr("<u>")),
                          HasSubstr("<th class=\"n\">won</th>"), Not(HasSubstr("perplexity</th>")),
                          Not(HasSubstr("bits/byte"))));
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">4</td><td class=\"n\">2.5000</td><td "
                              "class=\"n\">0.4000</td><td class=\"n\">0.8000</td>"));
}

// The newest of the first rank's, and as an image: the file could hold anything.
TEST(Report, ShowsWhereTensorsLie) {
  const TemporaryFolder folder;
  test::write_synthetic_run(folder.path(), {});
  EXPECT_THAT(read_text(write_report(folder.path())), Not(HasSubstr("tensors lie")));
  std::filesystem::create_directories(folder / "arena");
  std::ofstream(folder / "arena" / "0a-0-of-2.svg") << "<svg><script>alert(1)</script></svg>";
  std::ofstream(folder / "arena" / "0a-1-of-2.svg") << "<svg>of another rank</svg>";
  const std::string page = read_text(write_report(folder.path()));
  expect_balanced(page);
  EXPECT_THAT(page, AllOf(HasSubstr("Where a step's tensors lie"), Not(HasSubstr("alert(1)")),
                          // of `<svg><script>alert(1)</script></svg>`, by Python's base64
                          HasSubstr("base64,PHN2Zz48c2NyaXB0PmFsZXJ0KDEpPC9zY3JpcHQ+PC9zdmc+\"/>")));
}

TEST(Report, NoStepAtAll) {
  const TemporaryFolder folder;
  { EventWriter({.path = folder / "events.jsonl"}).write(RunStart{.name = "new"}); }
  const std::string page = read_text(write_report(folder.path()));
  expect_balanced(page);
  EXPECT_THAT(page, HasSubstr("No step has been recorded yet."));
}

TEST(Report, AResumedRunShowsEachStepOnce) {
  const TemporaryFolder folder;
  test::write_synthetic_run(folder.path(), {.resume_at = 200});
  const RunHistory run = read_run(folder.path());
  EXPECT_EQ(run.steps.size(), 400u);
  EXPECT_TRUE(std::is_sorted(run.steps.begin(), run.steps.end(),
                             [](const auto& a, const auto& b) { return a.step < b.step; }));
  EXPECT_EQ(run.repeated_steps, 20);
  EXPECT_EQ(run.resumes, std::vector<int64_t>{200});
  EXPECT_EQ(run.generations, 2);
  EXPECT_EQ(run.evaluations.size(), 8u);
  EXPECT_EQ(run.memory.size(), 3u);  // of one process
  const std::string page = report_html(run, {});
  EXPECT_THAT(page, HasSubstr("<td>activations</td><td class=\"n\">299.9 MB</td><td class=\"n\">302.0 "
                              "MB</td><td class=\"n\">+0.7 %</td>"));
  EXPECT_THAT(page, HasSubstr("resumed once (20 steps done again)"));
  EXPECT_THAT(page, HasSubstr("class=\"mark resume\""));
}

// What a run grew by behind the step that it went back to is done again.
TEST(Report, HowTheBatchGrew) {
  const TemporaryFolder folder;
  {
    EventWriter events({.path = folder / "events.jsonl"});
    for (const EventBody& body : std::initializer_list<EventBody>{
             RunStart{.steps = 9}, StepReport{.step = 1, .loss = 2}, StepReport{.step = 2, .loss = 2},
             BatchGrowth{.step = 2, .batch = 16, .batch_before = 8, .critical_batch_tokens = 7'000},
             StepReport{.step = 3, .loss = 2},
             BatchGrowth{.step = 3, .batch = 32, .batch_before = 16, .critical_batch_tokens = 6'500},
             Resume{.step = 2}}) {
      events.write(body);
    }
  }
  const RunHistory run = read_run(folder.path());
  ASSERT_EQ(run.growths.size(), 1u);
  EXPECT_EQ(run.growths[0].batch, 16);
  const std::string page = report_html(run, {}, "", "", "");
  expect_balanced(page);
  EXPECT_THAT(page, AllOf(HasSubstr("How the batch grew"), HasSubstr("7.00 k"), Not(HasSubstr("6.50 k"))));
  EXPECT_THAT(page_of({}), Not(HasSubstr("How the batch grew")));
}

TEST(Report, NanLossesBreakTheLineAndAreMarked) {
  const std::string page = page_of({.steps = 40, .nan_at = 20});
  expect_balanced(page);
  EXPECT_THAT(page, HasSubstr("step 20: loss nan, skipped"));
  EXPECT_THAT(page, HasSubstr("What went wrong on the way"));
  EXPECT_THAT(page, HasSubstr("layers.3.mixer.q.weight"));
  for (const char* number : {"\"nan\"", "inf ", "nan,", "nan "})
    EXPECT_EQ(page.substr(0, page.find("What went")).find(std::string("d=\"M") + number), std::string::npos);
  const std::regex coordinates("(x1|x2|y1|y2|cx|cy|x|y)=\"[^\"]*(nan|inf)");
  EXPECT_FALSE(std::regex_search(page, coordinates));
}

// A learning rate of zero: an axis from 0 to 1, not to the smallest number there is. A model without experts:
// no chart of their loss.
TEST(Report, CurvesOfZeros) {
  RunHistory run{.run = "zeros"};
  for (int step = 1; step <= 10; ++step)
    run.steps.push_back({.step = step, .loss = 3, .milliseconds = 5, .auxiliary_loss = 0.0});
  EXPECT_THAT(report_html(run, {}), AllOf(Not(HasSubstr("e-30")), Not(HasSubstr("Auxiliary loss"))));
  run.steps[5].auxiliary_loss = 0.1;
  EXPECT_THAT(report_html(run, {}), HasSubstr("Auxiliary loss"));
}

TEST(Report, EveryLossNan) {
  RunHistory run{.run = "bad"};
  for (int step = 1; step <= 100; ++step)
    run.steps.push_back({.step = step, .loss = std::nan(""), .grad_norm = std::nan(""), .milliseconds = 5});
  const std::string page = report_html(run, {});
  expect_balanced(page);
  EXPECT_THAT(page, HasSubstr("no step had a finite loss"));
  EXPECT_FALSE(std::regex_search(page, std::regex("(x1|x2|y1|y2|cx|cy|x|y|d)=\"[^\"]*(nan|inf)")));
}

TEST(Report, AHundredThousandStepsStaySmallAndKeepTheirSpikes) {
  RunHistory run{.run = "long"};
  for (int step = 1; step <= 100'000; ++step)
    run.steps.push_back({.step = step, .loss = step == 54'321 ? 9.75 : 2.0, .milliseconds = 1});
  const auto charts = report_charts(run);
  const auto& raw = charts.at(0).series.at(0).points;
  EXPECT_LE(raw.size(), 1001u);
  EXPECT_TRUE(
      std::any_of(raw.begin(), raw.end(), [](const Point& p) { return p.x == 54'321 && p.y == 9.75; }));
  EXPECT_LT(report_html(run, {}).size(), 1'000'000u);
}

TEST(Report, EscapesEverythingThatComesFromOutside) {
  const std::string evil = "</script><script>alert(1)</script>\"'&<b>\x01";
  RunHistory run{.run = evil};
  run.start = RunStart{.name = evil,
                       .version = evil,
                       .commit = evil,
                       .host = evil,
                       .processor = evil,
                       .cpu_features = {evil},
                       .dtype = evil,
                       .model = evil};
  run.steps.push_back({.step = 1, .loss = 1});
  run.samples.push_back({.prompt = evil, .text = evil});
  run.alarms.push_back({1, {evil, evil}});
  run.nonfinite.push_back({1, evil, evil, evil});
  run.checkpoints.push_back({1, evil, 1});
  run.memory.push_back({evil, 1, 1, 1});
  run.end = End{.reason = evil};
  const std::string page = report_html(run, {{evil, evil, evil, evil}}, "");
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<b>\x01")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_EQ(page.find('\x01'), std::string::npos);
  expect_balanced(page);
}

TEST(Report, RecipeChangesHaveTheirOrigin) {
  const TemporaryFolder folder;
  test::write_synthetic_run(folder.path(), {.steps = 3});
  write_text_atomically(
      folder / "recipe.toml",
      "# Resolved recipe\nversion = 1\n[train]\nsteps = 77\nbatch = 24  # recipes/mine.toml:9\n");
  const auto changes = recipe_changes(folder / "recipe.toml");
  const auto found = std::find_if(changes.begin(), changes.end(),
                                  [](const auto& change) { return change.key == "train.steps"; });
  ASSERT_NE(found, changes.end());
  EXPECT_EQ(found->value, "77");
  EXPECT_EQ(found->default_value, "1000");
  EXPECT_THAT(found->origin, HasSubstr("recipe.toml:4"));
  const auto batch = std::find_if(changes.begin(), changes.end(),
                                  [](const auto& change) { return change.key == "train.batch"; });
  ASSERT_NE(batch, changes.end());
  EXPECT_EQ(batch->origin, "recipes/mine.toml:9");
  EXPECT_THAT(read_text(write_report(folder.path())),
              HasSubstr("<td class=\"c key\">train.steps</td><td class=\"c\">77</td>"));
  write_text_atomically(folder / "recipe.toml", "[train\n");
  EXPECT_THAT(read_text(write_report(folder.path())), HasSubstr("recipe.toml cannot be read"));
}

TEST(Report, NoRunThere) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_report(folder.path()), Error);
}

TEST(Chart, TicksAreRoundAndInside) {
  EXPECT_EQ(linear_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(linear_ticks(0, 0.1, 2), (std::vector<double>{0, 0.05, 0.1}));
  EXPECT_EQ(linear_ticks(3, 3, 5), std::vector<double>{3});
  EXPECT_EQ(log_ticks(0.15, 6), (std::vector<double>{0.2, 0.5, 1, 2, 5}));
  EXPECT_EQ(tick_text(1.5, 0.5), "1.5");
  EXPECT_EQ(tick_text(0.05, 0.01), "0.05");
  EXPECT_EQ(tick_text(20000, 10000), "20 k");
  EXPECT_EQ(tick_text(0, 5), "0");
}

TEST(Chart, ThinningKeepsExtremesAndOrder) {
  std::vector<Point> points;
  for (int i = 0; i < 10'000; ++i) points.push_back({1.0 * i, std::sin(i * 0.01)});
  points[1234].y = 50;
  points[7777].y = -50;
  points[5000].y = std::nan("");
  const auto kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 201u);
  EXPECT_TRUE(
      std::is_sorted(kept.begin(), kept.end(), [](const Point& a, const Point& b) { return a.x < b.x; }));
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [](const Point& p) { return p.y == 50; }));
  EXPECT_TRUE(std::any_of(kept.begin(), kept.end(), [](const Point& p) { return p.y == -50; }));
  EXPECT_EQ(kept.back().x, 9999);
  EXPECT_EQ(thinned(std::span(points).first(200), 100).size(), 200u);
}

TEST(Chart, SmoothingIsNeitherLateNorDisturbedByNan) {
  std::vector<Point> line;
  for (int i = 0; i < 100; ++i) line.push_back({1.0 * i, 10.0 - i});
  line[50].y = std::nan("");
  const auto mean = smoothed(line, 10);
  ASSERT_EQ(mean.size(), 99u);
  EXPECT_DOUBLE_EQ(mean[0].y, 10);
  EXPECT_DOUBLE_EQ(mean[20].y, 10 - 20);          // a straight line stays where it is
  EXPECT_DOUBLE_EQ(mean[98].y, (10 - 99) + 2.5);  // the last is the mean of the six before it
  line[30].y = 1e9;
  EXPECT_LT(running_median(line, 10)[30].y, 0);
  EXPECT_TRUE(smoothed({}, 10).empty());
}

}  // namespace
}  // namespace longhaul::observe
