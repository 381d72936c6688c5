#include "observe/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/files/temporary_folder.h"
#include "base/terminal.h"
#include "observe/format.h"
#include "observe/synthetic_run.h"
#include "observe/table.h"

namespace longhaul::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string read_back(std::FILE* file) {
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

struct Shown {
  std::string output, alarms;
};
Shown both_shown(const std::vector<EventBody>& bodies, TerminalOptions options = {}) {
  options.stream = std::tmpfile();
  options.alarms = std::tmpfile();
  Terminal terminal(options);
  for (const auto& body : bodies) terminal.on({.body = body});
  return {read_back(options.stream), read_back(options.alarms)};
}
std::string shown(const std::vector<EventBody>& bodies, TerminalOptions options = {}) {
  return both_shown(bodies, options).output;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Terminal, StepLinesStandUnderTheirHeadings) {
  const auto lines =
      lines_of(shown({RunStart{.steps = 400},
                      StepReport{.step = 9,
                                 .loss = 10.62081,
                                 .tokens = 81920,
                                 .tokens_per_second = 13006.4,
                                 .grad_norm = 4.0754,
                                 .learning_rate = 7.5e-5,
                                 .milliseconds = 630,
                                 .mfu = 0.503,
                                 .mfu_full_attention = 0.5219,
                                 .data_wait_milliseconds = 0.31},
                      StepReport{.step = 10, .loss = 3.2, .tokens = 90112, .milliseconds = 12345}}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "             step       loss  grad norm       rate       time   tokens/s     MFU  MFU full    "
            "tokens  data wait");
  EXPECT_EQ(lines[1],
            "train       9/400    10.6208      4.075    7.50e-5     630 ms     13,006   50.3%     52.2%    "
            "81.9 k     0.3 ms");
  EXPECT_EQ(lines[2],
            "train      10/400     3.2000      0.000          0     12.3 s          0       -         -    "
            "90.1 k          -");
}

TEST(Terminal, ABusyMachineIsToldOnceAndMarkedUntilItIsQuiet) {
  const auto step = [](int64_t number, std::optional<double> taken) {
    return StepReport{.step = number, .mfu = 0.25, .taken_by_others = taken};
  };
  const auto lines = lines_of(shown({RunStart{.steps = 9}, step(1, std::nullopt), step(2, 0.04), step(3, 0.5),
                                     step(4, std::nullopt), step(5, 0.6), step(6, 0.01)}));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_THAT(lines[3],
              ::testing::AllOf(StartsWith("busy          3/9  other programs took 50.0 % of the run's cores"),
                               HasSubstr("MFU with a *")));
  for (const size_t quiet : {1, 2, 7}) EXPECT_THAT(lines[quiet], HasSubstr("  25.0%  "));
  for (const size_t busy : {4, 5, 6}) EXPECT_THAT(lines[busy], HasSubstr(" 25.0%*  "));
}

TEST(Terminal, AStepThatBeatsThePeakSaysSo) {
  RunStart start{.steps = 100};
  start.peak_flops_per_second = 200e9;
  StepReport fast{.step = 7, .mfu = 1.0};
  fast.peak_flops_per_second = 250e9;
  const auto lines = lines_of(shown({start, StepReport{.step = 1, .mfu = 0.5}, fast}, {.log_every = 10}));
  ASSERT_EQ(lines.size(), 3u) << "said of a step that has no line, too";
  EXPECT_EQ(lines[2],
            "peak        7/100  faster than the measured peak of 200 GFLOP/s: MFU is a share of 250 GFLOP/s "
            "from here on");
}

TEST(Terminal, ABatchThatGrows) {
  const auto lines = lines_of(
      shown({RunStart{.steps = 100},
             BatchGrowth{.step = 40, .batch = 32, .batch_before = 16, .critical_batch_tokens = 21'500}}));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "batch      40/100  32 sequences a step from here on, 16 before: the critical batch is about "
            "21.5 k tokens");
}

TEST(Terminal, RoundsOfAnOuterLoop) {
  const auto lines = lines_of(
      shown({RunStart{.steps = 100}, OuterEvery{.step = 4, .every = 9, .reason = "an exchange takes 2 s"},
             OuterRound{.step = 4,
                        .steps = 4,
                        .synchronous = "the first round",
                        .applied = 0,
                        .exchange_milliseconds = 2000,
                        .waited_milliseconds = 2000,
                        .loss = 3.5},
             OuterRound{.step = 13, .round = 1, .steps = 9},
             OuterRound{.step = 22,
                        .round = 2,
                        .steps = 9,
                        .applied = 1,
                        .exchange_milliseconds = 1800,
                        .waited_milliseconds = 0.02,
                        .gap = 1.25,
                        .strain = 0.5,
                        .loss = 3.25},
             OuterRound{.step = 31, .round = 3, .steps = 9, .applied = 3, .fragment = 1}}));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(
      lines[4],
      "outer      31/100  round 3 of 9 steps: took round 3, fragment 1, exchanged in 0.0 ms, waited 0.0 ms");
  EXPECT_EQ(lines[0], "outer       4/100  rounds of 9 steps from here on: an exchange takes 2 s");
  EXPECT_EQ(lines[1],
            "outer       4/100  round 0 of 4 steps, synchronous (the first round): took round 0, exchanged "
            "in 2000 ms, waited 2000 ms; loss of all "
            "workers 3.5000");
  EXPECT_EQ(lines[2], "outer      13/100  round 1 of 9 steps: nothing had arrived, waited 0.0 ms");
  EXPECT_EQ(lines[3],
            "outer      22/100  round 2 of 9 steps: took round 1, exchanged in 1800 ms, waited 0.0 ms, "
            "staleness gap 1.25, strain 0.50; loss of "
            "all workers 3.2500");
}

TEST(Terminal, MarksWhatIsNotAStep) {
  const auto [text, alarms] = both_shown(
      {RunStart{.steps = 100}, CompressionBaseline{1.82, 1.66}, Resume{.step = 50},
       Evaluation{.step = 60, .loss = 3.5, .bits_per_byte = 1.7, .perplexity = 33.1},
       CheckpointSaved{.step = 60, .path = "checkpoints/step-000000060", .blocking_milliseconds = 12},
       Alarm{"disk_full", "no space"},
       NonFinite{.step = 61, .layer = "layers.3", .tensor = "output", .phase = "forward"},
       Sample{.step = 61, .prompt = "def", .text = " f():"}, End{.reason = "signal", .step = 61}});
  EXPECT_THAT(text, HasSubstr("resume     50/100  going on from the checkpoint of step 50\n"));
  EXPECT_THAT(text, HasSubstr("eval       60/100     3.5000  1.7000 bits per byte   perplexity 33.10   (gzip "
                              "-9 1.8200, xz -9 1.6600)\n"));
  EXPECT_THAT(text, HasSubstr("save       60/100  checkpoints/step-000000060   training waited 12 ms\n"));
  EXPECT_EQ(alarms,
            "alarm   disk_full: no space\nnan        61/100  forward of layers.3: output is not finite\n");
  EXPECT_THAT(text, HasSubstr("\ndef f():\n"));
  EXPECT_THAT(text, HasSubstr("end        61/100  signal\n"));
}

TEST(Terminal, WhatATaskMeasuresStandsAtTheEndOfTheLine) {
  const std::string text =
      shown({RunStart{.steps = 9},
             StepReport{.step = 1, .metrics = {{"accuracy", 0.5}, {"a\nb", 2}, {"memory/held_bytes", 7}}},
             evaluation_of(1, {{"solved", 0.25}}), evaluation_of(2, {{"loss", 3}, {"solved", 0.75}})});
  EXPECT_THAT(text, HasSubstr("          -  a\\x0ab 2.0000  accuracy 0.5000\n"));
  EXPECT_THAT(text, HasSubstr("eval          1/9             solved 0.2500\n"));
  EXPECT_THAT(text, HasSubstr("eval          2/9     3.0000  solved 0.7500\n"));
}

TEST(Terminal, LogEveryShowsFirstLastAndUnusualSteps) {
  std::vector<EventBody> events = {RunStart{.steps = 25}};
  for (int step = 1; step <= 25; ++step)
    events.push_back(StepReport{.step = step, .loss = step == 7 ? std::nan("") : 1.0, .skipped = step == 7});
  const auto lines = lines_of(shown(events, {.log_every = 10}));
  ASSERT_EQ(lines.size(), 6u);  // headings, 1, 7, 10, 20, 25
  EXPECT_THAT(lines[2], HasSubstr("nan"));
  EXPECT_THAT(lines[2], HasSubstr("skipped"));
  EXPECT_THAT(lines[5], HasSubstr("25/25"));
}

// A whole Error is an alarm's message: several lines, which stay lines.
TEST(Terminal, AlarmsAreShownWhateverElseIsNot) {
  const auto [text, alarms] =
      both_shown({RunStart{.steps = 2}, StepReport{.step = 1},
                  Alarm{"checkpoint_failed", "not saved: no room\n  where     /a\x1b[2J\r"},
                  CheckpointSaved{.step = 2, .path = "p"},
                  NonFinite{.step = 2, .layer = "l", .tensor = "t", .phase = "backward"}, Sample{.text = "a"},
                  End{.reason = "finished", .step = 2}},
                 {.quiet = true});
  EXPECT_EQ(text, "");
  EXPECT_EQ(alarms,
            "alarm   checkpoint_failed: not saved: no room\n  where     /a\\x1b[2J\\x0d\nnan             2  "
            "backward of l: t is not finite\n");
}

TEST(Terminal, AStreamThatCannotBeWrittenIsSaid) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  Terminal terminal({.stream = full});
  EXPECT_THROW(terminal.on({.body = StepReport{.step = 1}}), Error);
  std::fclose(full);
}

TEST(Terminal, ColoursOnlyWhenAsked) {
  EXPECT_THAT(shown({StepReport{.step = 1}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(shown({StepReport{.step = 1}}, {.colours = true}), HasSubstr("\x1b[34mtrain"));
  EXPECT_THAT(both_shown({Alarm{"a", "b"}}, {.colours = true}).alarms, Not(HasSubstr("\x1b")));
  EXPECT_EQ(both_shown({Alarm{"a", "b"}}, {.alarm_colours = true}).alarms, "\x1b[1;31malarm  \x1b[0m a: b\n");
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(colours_wanted(file));  // not a terminal
  EXPECT_FALSE(is_terminal(file));
  std::fclose(file);
}

TEST(Terminal, NoColorIsRespectedOnATerminal) {
  std::FILE* terminal = std::fopen("/dev/ptmx", "r+");
  if (terminal == nullptr) GTEST_SKIP() << "no pseudo-terminals here";
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(colours_wanted(terminal));
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(colours_wanted(terminal));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(colours_wanted(terminal));
  std::fclose(terminal);
}

TEST(Terminal, ControlCharactersOfASampleAreShownNotObeyed) {
  const std::string text = shown({Sample{.prompt = "p", .text = "a\x1b[2Jb\r\nc"}});
  EXPECT_THAT(text, HasSubstr("a\\x1b[2Jb\\x0d\nc"));
}

TEST(Table, AlignsByDisplayCells) {
  Table table("memory", {{"purpose"}, {"size", Align::kRight}});
  table.row({"grün", "1"});
  table.row({"模型", "23,456"});
  table.total({"total", "7"});
  EXPECT_EQ(table.text(false),
            "memory\n  purpose     size\n  grün           1\n  模型      23,456\n  total          7\n");
  EXPECT_THAT(table.text(true), StartsWith("\x1b[1mmemory\x1b[0m\n"));
}

TEST(Table, StartUpTables) {
  const std::vector<ParameterGroup> groups = {{"embedding", 1, 3000, 3000}, {"experts", 8, 1000, 250}};
  EXPECT_THAT(parameter_table(groups).text(false), HasSubstr("total             9    4,000       3,250\n"));
  const std::vector<PlannedMemory> memory = {{"parameters", 2'000'000}, {"gradients", 2'000'000}};
  const std::string planned = memory_table(memory, "loss", 8'000'000).text(false);
  EXPECT_THAT(planned, StartsWith("memory, planned (most: loss)\n"));
  EXPECT_THAT(planned, HasSubstr("together     4.0 MB                  50.0 %\n"));
  EXPECT_THAT(planned, HasSubstr("free         8.0 MB\n"));
  const std::vector<MeasuredMemory> measured = {{"activations", 1'000'000, 2'100'000, 2'000'000},
                                                {"of the machine", 4'000'000, 5'000'000, {}}};
  const std::string beside = measured_memory_table(measured).text(false);
  EXPECT_THAT(beside, HasSubstr("activations       2.0 MB   2.1 MB       +5.0 %       1.0 MB\n"));
  EXPECT_THAT(beside, HasSubstr("of the machine             5.0 MB                    4.0 MB\n"));
  const std::vector<DataPart> data = {{"training", 10, 400, 100, 2.5}, {"left out: copies", 7, 0, 0}};
  EXPECT_THAT(data_table(data).text(false),
              testing::AllOf(HasSubstr("4.00     2.50"), HasSubstr("left out: copies           7\n")));
  const std::string work = work_table({.flops_per_token = 4e7,
                                       .flops_per_token_full_attention = 4.5e7,
                                       .tokens_per_step = 1000,
                                       .steps = 100,
                                       .peak_flops_per_second = 1e12,
                                       .peak_measured_at = 1763692565,
                                       .decoding_bytes = 2.1e6,
                                       .decoding_bytes_per_token = 1024})
                               .text(false);
  EXPECT_THAT(work, HasSubstr("decoding keeps, a sequence                   2.1 MB"));
  EXPECT_THAT(work, HasSubstr("decoding keeps, a token                      1.0 kB"));
  EXPECT_THAT(work, HasSubstr("measured peak, 2025-11-21T02:36:05Z"));
  EXPECT_THAT(work, HasSubstr("40.0 GFLOP"));
  EXPECT_THAT(work, HasSubstr("causal attention (MFU)        40.0 MFLOP"));
  EXPECT_THAT(work, HasSubstr("full attention (MFU full)     45.0 MFLOP"));
  EXPECT_THAT(work, HasSubstr("8.0 s"));  // 4e12 FLOP at half of 1e12 a second
}

TEST(Table, MarkdownIsATableWhateverIsInItsCells) {
  Table table("sizes | of parts", {{"part"}, {"size", Align::kRight}});
  table.row({"a|b\nc", "7"});
  table.total({"all", ""});
  EXPECT_EQ(table.markdown(),
            "**sizes \\| of parts**\n\n| part | size |\n| --- | ---: |\n| a\\|b c | 7 |\n| **all** |  |\n");
}

TEST(Format, NumbersForPeople) {
  EXPECT_EQ(compact(812), "812");
  EXPECT_EQ(compact(8192), "8.19 k");
  EXPECT_EQ(compact(99960), "100 k");
  EXPECT_EQ(compact(999999), "1.00 M");
  EXPECT_EQ(compact(46.4e6), "46.4 M");
  EXPECT_EQ(compact(-1.06e12), "-1.06 T");
  EXPECT_EQ(compact(0.5), "0.50");
  EXPECT_EQ(compact(std::nan("")), "nan");
  EXPECT_EQ(scientific(3e-4), "3.00e-4");
  EXPECT_EQ(scientific(9.999e-4), "1.00e-3");
  EXPECT_EQ(scientific(0), "0");
  EXPECT_EQ(percent(0.412), "41.2 %");
  EXPECT_EQ(percent(0.0123), "1.23 %");
  EXPECT_EQ(milliseconds_text(0.42), "0.4 ms");
  EXPECT_EQ(grouped(10085.4), "10,085");
  EXPECT_EQ(display_width("a\xcc\x81"), 1);  // a letter and a combining accent
  EXPECT_EQ(display_width("\xff"), 1);
}

}  // namespace
}  // namespace longhaul::observe
