// The table of docs/sources/reliability.md §5.3, row by row: what was seen, what happened before, what is
// done.
#include "control/faults.h"

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "base/files/file.h"
#include "control/ledger.h"
#include "support/places.h"

namespace longhaul::control {
namespace {

// A history in which one fault after the other was told, a minute apart, and nothing was committed since.
class History {
 public:
  explicit History(int64_t committed = 100) { add(StepCommitted{.step = committed}); }

  History& had(FaultClass fault, const std::string& node, const std::string& trace = "", int64_t step = 120,
               const std::string& device = "", bool restarts = true) {
    IncidentOpened opened{.id = ledger.incident_count + 1, .rank = 0, .step = step};
    opened.fault = std::string(name_of(fault));
    opened.node = node;
    opened.device = device;
    opened.trace = trace;
    opened.restarts = restarts;
    now_s += 60;
    add(opened);
    return *this;
  }
  History& committed(int64_t step) {
    add(StepCommitted{.step = step});
    return *this;
  }
  void add(JournalBody body) {
    ledger.apply({.sequence = ledger.next_sequence, .at_s = now_s, .body = std::move(body)}, policy);
  }

  Policy policy;
  Ledger ledger;
  double now_s = 1000;
};

Verdict verdict_of(const Fault& fault, const History& history = History()) {
  return classify(fault, history.ledger, history.policy, history.now_s);
}

Fault exit_with(int64_t status, const std::string& trace = "", std::vector<int64_t> ranks = {3}) {
  return {.source = Fault::Source::kExit,
          .rank = 3,
          .node = "node-1",
          .step = 120,
          .status = status,
          .trace = trace,
          .ranks = std::move(ranks)};
}
Fault xid(int64_t number) {
  return {
      .source = Fault::Source::kHealth, .node = "node-1", .device = "GPU-7", .kind = "xid", .number = number};
}
Fault report(const std::string& kind) {
  return {.source = Fault::Source::kHealth, .node = "node-1", .kind = kind};
}

void expect(const Verdict& verdict, FaultClass fault, Action action) {
  EXPECT_EQ(name_of(verdict.fault), name_of(fault));
  EXPECT_EQ(static_cast<int>(verdict.action), static_cast<int>(action))
      << name_of(verdict.action) << " instead of " << name_of(action);
}

TEST(FaultTable, BrokenDevicesTakeTheirNodeWithThem) {
  for (const int64_t number : {48, 95, 64, 79, 74, 119, 120, 62, 122, 123, 140})
    expect(verdict_of(xid(number)), FaultClass::kDevice, Action::kEvict);
  expect(verdict_of(report("device_missing")), FaultClass::kDevice, Action::kEvict);
  expect(verdict_of(report("device_broken")), FaultClass::kDevice, Action::kEvict);
  expect(verdict_of(exit_with(71)), FaultClass::kDevice, Action::kEvict);
}

// Of four nodes two lose their links again and again: they are ill. Of three it is what all share.
TEST(FaultTable, ASwitchIsNoNodesFault) {
  History history;
  GenerationBegan began{.generation = 1, .world = 4};
  for (int64_t n = 0; n < 4; ++n) began.placement.push_back({fmt::format("node-{}", n), {n}});
  history.add(began);
  history.had(FaultClass::kNetwork, "node-1", "", 1, "", false)
      .had(FaultClass::kNetwork, "node-2", "", 1, "", false);
  expect(verdict_of(report("network"), history), FaultClass::kNetwork, Action::kEvict);
  history.had(FaultClass::kNetwork, "node-3", "", 1, "", false);
  expect(verdict_of(report("network"), history), FaultClass::kNetwork, Action::kTolerate);
}

TEST(FaultTable, DegradedDevicesAreReplacedAtTheNextCheckpoint) {
  for (const int64_t number : {63, 92})
    expect(verdict_of(xid(number)), FaultClass::kDeviceDegraded, Action::kReplaceAtCheckpoint);
  expect(verdict_of(xid(94)), FaultClass::kDeviceDegraded, Action::kRestart);
  expect(verdict_of(report("device_degraded")), FaultClass::kDeviceDegraded, Action::kReplaceAtCheckpoint);
}

TEST(FaultTable, ApplicationOrDeviceIsDecidedByTheSecondTime) {
  for (const int64_t number : {13, 31, 43, 45}) {
    expect(verdict_of(xid(number)), FaultClass::kDeviceOrApplication, Action::kRestart);
    expect(verdict_of(xid(number), History().had(FaultClass::kDeviceOrApplication, "node-1", "", 1, "GPU-7")),
           FaultClass::kDeviceOrApplication, Action::kDiagnose);
    // Another device, another node, or more than a day ago: the first time.
    expect(verdict_of(xid(number), History().had(FaultClass::kDeviceOrApplication, "node-1", "", 1, "GPU-0")),
           FaultClass::kDeviceOrApplication, Action::kRestart);
    expect(verdict_of(xid(number), History().had(FaultClass::kDeviceOrApplication, "node-0", "", 1, "GPU-7")),
           FaultClass::kDeviceOrApplication, Action::kRestart);
    History old;
    old.had(FaultClass::kDeviceOrApplication, "node-1", "", 1, "GPU-7");
    old.now_s += 86401;
    expect(verdict_of(xid(number), old), FaultClass::kDeviceOrApplication, Action::kRestart);
  }
  expect(verdict_of(xid(999)), FaultClass::kDeviceOrApplication, Action::kAlarm);
}

TEST(FaultTable, TheSameTraceOnManyRanksIsTheProgram) {
  const Fault crash = exit_with(139, "139 in attention", {1, 2, 3});
  expect(verdict_of(crash), FaultClass::kUserCode, Action::kRestart);
  // Elsewhere in the run each time: three times without a newer checkpoint are enough.
  History history;
  history.had(FaultClass::kUserCode, "node-0", "139 in attention", 110);
  expect(verdict_of(crash, history), FaultClass::kUserCode, Action::kRestart);
  history.had(FaultClass::kUserCode, "node-0", "139 in attention", 115);
  const Verdict third = verdict_of(crash, history);
  expect(third, FaultClass::kUserCode, Action::kStop);
  EXPECT_EQ(third.code, ExitCode::kDoNotRestart);
  history.committed(116);
  expect(verdict_of(crash, history), FaultClass::kUserCode, Action::kRestart);
  History other;
  other.had(FaultClass::kUserCode, "node-0", "139 elsewhere", 110)
      .had(FaultClass::kUserCode, "node-0", "139 in attention", 115);
  expect(verdict_of(crash, other), FaultClass::kUserCode, Action::kRestart);
}

TEST(FaultTable, ABugOfOursStopsAfterThreeRepeats) {
  History history;
  expect(verdict_of(exit_with(70, "70 assert"), history), FaultClass::kInternal, Action::kRestart);
  history.had(FaultClass::kInternal, "node-0", "70 assert", 110)
      .had(FaultClass::kInternal, "node-0", "70 assert", 112);
  expect(verdict_of(exit_with(70, "70 assert"), history), FaultClass::kInternal, Action::kStop);
}

// What took no restart lies between them and counts for nothing.
TEST(FaultTable, ThreeRepeatsAreCountedAmongRestarts) {
  History history;
  history.had(FaultClass::kUnclear, "node-1", "139 here", 118)
      .had(FaultClass::kUnclear, "node-1", "139 here", 119);
  for (int i = 0; i < 3; ++i) history.had(FaultClass::kStorage, "node-0", "", 119, "", /*restarts=*/false);
  expect(verdict_of(exit_with(139, "139 here"), history), FaultClass::kUnclear, Action::kStop);
}

TEST(FaultTable, ACrashOfOneRankIsCountedForItsNode) {
  for (const int64_t status : {139, 134, 135, 132, 136, 1, 2, 127})
    expect(verdict_of(exit_with(status)), FaultClass::kUnclear, Action::kRestart);
  History history;
  history.had(FaultClass::kUnclear, "node-1", "a").had(FaultClass::kUnclear, "node-1", "b");
  expect(verdict_of(exit_with(139, "c"), history), FaultClass::kUnclear, Action::kDiagnose);
  History elsewhere;
  elsewhere.had(FaultClass::kUnclear, "node-0", "a").had(FaultClass::kUnclear, "node-1", "b");
  expect(verdict_of(exit_with(139, "c"), elsewhere), FaultClass::kUnclear, Action::kRestart);
}

TEST(FaultTable, WhoIsEndedFromOutsideIsStartedAgain) {
  History history;
  for (int i = 0; i < 5; ++i) history.had(FaultClass::kKilled, "node-1");
  for (const int64_t status : {137, 143, 130, 129})
    expect(verdict_of(exit_with(status), history), FaultClass::kKilled, Action::kRestart);
}

TEST(FaultTable, HostMemoryTwiceStops) {
  Fault fault = exit_with(137);
  fault.out_of_memory = true;
  expect(verdict_of(fault), FaultClass::kHostMemory, Action::kRestart);
  expect(verdict_of(fault, History().had(FaultClass::kHostMemory, "node-0")), FaultClass::kHostMemory,
         Action::kStop);
}

TEST(FaultTable, DeviceMemoryStopsInTheFirstStepsElseTheSecondTime) {
  Fault fault = exit_with(68);
  expect(verdict_of(fault), FaultClass::kDeviceMemory, Action::kRestart);
  expect(verdict_of(fault, History().had(FaultClass::kDeviceMemory, "node-0")), FaultClass::kDeviceMemory,
         Action::kStop);
  fault.step = 5;
  expect(verdict_of(fault), FaultClass::kDeviceMemory, Action::kStop);
  fault.step = 6;
  expect(verdict_of(fault), FaultClass::kDeviceMemory, Action::kRestart);
}

TEST(FaultTable, TwoNetworkFaultsWithinMinutesEvict) {
  expect(verdict_of(report("network")), FaultClass::kNetwork, Action::kTolerate);
  History history;
  history.had(FaultClass::kNetwork, "node-1", "", 1, "", false);
  expect(verdict_of(report("network"), history), FaultClass::kNetwork, Action::kEvict);
  history.now_s += 301;
  expect(verdict_of(report("network"), history), FaultClass::kNetwork, Action::kTolerate);
  expect(verdict_of(report("network"), History().had(FaultClass::kNetwork, "node-0", "", 1, "", false)),
         FaultClass::kNetwork, Action::kTolerate);
}

TEST(FaultTable, SlowOnesAreReplacedAtTheNextCheckpoint) {
  expect(verdict_of(report("slow")), FaultClass::kFailSlow, Action::kReplaceAtCheckpoint);
  expect(verdict_of(report("degraded_link")), FaultClass::kFailSlow, Action::kReplaceAtCheckpoint);
  expect(verdict_of(report("throttled")), FaultClass::kFailSlow, Action::kReplaceAtCheckpoint);
}

TEST(FaultTable, PhrasesInLogsAreOnlyTold) {
  const Verdict verdict = verdict_of(report("log"));
  expect(verdict, FaultClass::kUnclear, Action::kAlarm);
  EXPECT_EQ(verdict.why, "training goes on until it cannot");
}

TEST(FaultTable, SlowOnesThatCostMuchAreReplacedAtOnce) {
  expect(verdict_of(report("slow_now")), FaultClass::kFailSlow, Action::kEvictIfReplaceable);
}

TEST(FaultTable, AFullDiskDoesNotEndTheRun) {
  expect(verdict_of(report("storage")), FaultClass::kStorage, Action::kAlarm);
  expect(verdict_of(exit_with(73)), FaultClass::kStorage, Action::kRestart);
}

TEST(FaultTable, Hangs) {
  Fault hang{.source = Fault::Source::kHang, .rank = 3, .node = "node-1", .step = 120};
  expect(verdict_of(hang), FaultClass::kHang, Action::kEvictIfReplaceable);
  expect(verdict_of(hang, History().had(FaultClass::kHang, "node-1")), FaultClass::kHang, Action::kEvict);
  expect(verdict_of(exit_with(72)), FaultClass::kHang, Action::kEvictIfReplaceable);
  hang.node.clear();
  expect(verdict_of(hang), FaultClass::kHang, Action::kRestart);
  hang.program = true;
  hang.trace = "desync";
  expect(verdict_of(hang), FaultClass::kUserCode, Action::kRestart);
}

TEST(FaultTable, WorkOfOtherThreadsThatHangs) {
  Fault stuck{
      .source = Fault::Source::kHang, .rank = 3, .node = "node-1", .step = 120, .kind = "write checkpoint"};
  expect(verdict_of(stuck), FaultClass::kStuckWork, Action::kRestart);
  expect(verdict_of(stuck, History().had(FaultClass::kStuckWork, "node-1")), FaultClass::kStuckWork,
         Action::kEvictIfReplaceable);
  expect(verdict_of(stuck, History().had(FaultClass::kStuckWork, "node-2")), FaultClass::kStuckWork,
         Action::kRestart);
  stuck.node.clear();
  expect(verdict_of(stuck, History().had(FaultClass::kStuckWork, "")), FaultClass::kStuckWork,
         Action::kRestart);
}

TEST(FaultTable, NumericFaultsGoBack) {
  expect(verdict_of(exit_with(67)), FaultClass::kNumeric, Action::kRestart);
}

TEST(FaultTable, DaemonsAndMachines) {
  Fault died{.source = Fault::Source::kNodeDied, .node = "node-1"};
  expect(verdict_of(died), FaultClass::kNodeDaemon, Action::kRestartNode);
  died.reachable = false;
  expect(verdict_of(died), FaultClass::kMachine, Action::kEvict);
  expect(verdict_of({.source = Fault::Source::kNodeSilent, .node = "node-1"}), FaultClass::kMachine,
         Action::kEvict);
}

TEST(FaultTable, WhatARestartDoesNotMendEndsWithItsCode) {
  for (const int64_t status : {64, 65, 66, 93}) {
    const Verdict verdict = verdict_of(exit_with(status));
    expect(verdict, FaultClass::kConfiguration, Action::kEnd);
    EXPECT_EQ(static_cast<int64_t>(verdict.code), status);
  }
  expect(verdict_of(exit_with(76)), FaultClass::kFenced, Action::kEnd);
  expect(verdict_of(exit_with(74)), FaultClass::kPreempted, Action::kEnd);
  expect(verdict_of(exit_with(75)), FaultClass::kPreempted, Action::kEnd);
}

std::set<int> numbers_in(const std::string& text) {
  std::set<int> found;
  const std::regex number("\\d+");
  for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at)
    found.insert(std::stoi(at->str()));
  return found;
}

// Of a file in the source tree; what the first group of the only match holds.
std::string part_of(const std::string& file, const std::string& pattern) {
  const std::string text = read_text(source_folder() + "/" + file);
  std::smatch match;
  EXPECT_TRUE(std::regex_search(text, match, std::regex(pattern))) << file << " has no " << pattern;
  return match.size() > 1 ? match[1].str() : "";
}

// Codes of a table's rows, "| 64 | usage | … |", of which the cell in a column is as wanted.
std::set<int> codes_of_rows(const std::string& file, size_t column,
                            const std::function<bool(const std::string&)>& wanted) {
  std::set<int> codes;
  std::istringstream lines(read_text(source_folder() + "/" + file));
  const std::regex row("\\| (\\d+) \\|.*"), cell("\\| ([^|]*[^| ])? *");
  for (std::string line; std::getline(lines, line);) {
    std::smatch code;
    if (!std::regex_match(line, code, row)) continue;
    std::vector<std::string> cells;
    for (std::sregex_iterator at(line.begin(), line.end(), cell), end; at != end; ++at)
      cells.push_back((*at)[1]);
    if (column < cells.size() && wanted(cells[column])) codes.insert(std::stoi(code[1]));
  }
  return codes;
}

// One list: the driver's. What ends a job under Slurm and in a JobSet, and what the pages say, is the same.
TEST(FaultTable, WhatEndsAJobIsTheSameEverywhere) {
  std::set<int> futile;
  for (int code = 1; code <= 128; ++code) {
    if (!restart_is_futile(static_cast<ExitCode>(code))) continue;
    futile.insert(code);
    EXPECT_EQ(verdict_of(exit_with(code)).action, Action::kEnd) << code;
    EXPECT_EQ(static_cast<int>(verdict_of(exit_with(code)).code), code);
  }
  EXPECT_EQ(futile, (std::set<int>{64, 65, 66, 76, 93}));
  const auto is = [](const std::string& text) {
    return [text](const std::string& cell) { return cell == text; };
  };
  EXPECT_EQ(numbers_in(part_of("deploy/slurm.sh", "\n *([0-9 |]+)\\) if \\[\\[ \\$bad == ")), futile);
  EXPECT_EQ(numbers_in(part_of("deploy/jobset.yaml", "onExitCodes:[^\\[]*values: \\[([0-9, ]+)\\]")), futile);
  part_of("deploy/pytorchjob.yaml", "\n +restartPolicy: OnFailure\n");  // ExitCode would end it with 69
  const std::string page = "docs/reference/exit-codes.md", guide = "docs/guides/operations.md";
  EXPECT_EQ(
      codes_of_rows(page, 3, [](const std::string& cell) { return cell == "fails again" || cell == "no"; }),
      futile);
  EXPECT_EQ(codes_of_rows(guide, 2, is("ends")), futile) << "Slurm";
  EXPECT_EQ(codes_of_rows(guide, 3, is("FailJob")), futile) << "Kubernetes";
  std::set<int> launch_ends = futile;
  for (const int code : {74, 75}) {  // who asked for it starts it again
    EXPECT_EQ(verdict_of(exit_with(code)).action, Action::kEnd);
    launch_ends.insert(code);
  }
  EXPECT_EQ(codes_of_rows(guide, 1, is("ends")), launch_ends);
}

TEST(FaultTable, OnlyVictimsAreACommunicationFault) {
  expect(verdict_of(exit_with(69)), FaultClass::kCommunication, Action::kRestart);
  EXPECT_TRUE(is_victim(exit_with(69)));
  EXPECT_FALSE(is_victim(exit_with(70)));
  EXPECT_FALSE(is_victim({.source = Fault::Source::kNodeSilent}));
}

TEST(FaultTable, DyingTwiceOfTheSameAtTheSameStepIsTheBatch) {
  History history;
  history.had(FaultClass::kUserCode, "node-0", "139 loader", 120);
  expect(verdict_of(exit_with(139, "139 loader"), history), FaultClass::kDeadlyBatch, Action::kSearchBatch);
  expect(verdict_of(exit_with(139, "139 other"), history), FaultClass::kUnclear, Action::kRestart);
  History before;
  before.had(FaultClass::kUserCode, "node-0", "139 loader", 119);
  expect(verdict_of(exit_with(139, "139 loader"), before), FaultClass::kUnclear, Action::kRestart);
  // Where samples are read ahead it may die of one a few steps earlier than of it before.
  Policy reads_ahead;
  reads_ahead.read_ahead = 4;
  before.had(FaultClass::kUserCode, "node-0", "139 loader", 116);
  expect(classify(exit_with(139, "139 loader"), before.ledger, reads_ahead, before.now_s),
         FaultClass::kDeadlyBatch, Action::kSearchBatch);
  History too_far;
  too_far.had(FaultClass::kUserCode, "node-0", "139 loader", 115);
  expect(classify(exit_with(139, "139 loader"), too_far.ledger, reads_ahead, too_far.now_s),
         FaultClass::kUnclear, Action::kRestart);
  // It has been looked for here, and it is not the data.
  history.add(SearchChanged{.active = false, .failed = true, .deadly_step = 120, .trace = "139 loader"});
  expect(verdict_of(exit_with(139, "139 loader"), history), FaultClass::kUnclear, Action::kRestart);
}

TEST(FaultTable, AVictimIsNeverTheCauseOfAnother) {
  Fault victim = exit_with(69), own = exit_with(69), killed = exit_with(137);
  victim.rank = 0, victim.failed_s = 1;
  own.rank = 1, own.own = true, own.failed_s = 2;
  killed.rank = 2, killed.failed_s = 3;
  EXPECT_EQ(first_cause({victim, own, killed}).rank, 2);
  EXPECT_EQ(first_cause({victim, own}).rank, 1);
  Fault earlier = victim;
  earlier.rank = 4, earlier.failed_s = 0.5;
  EXPECT_EQ(first_cause({victim, earlier}).rank, 4);
}

TEST(FaultTable, EveryClassAndActionHasAName) {
  for (int i = 0; i <= static_cast<int>(FaultClass::kStuckWork); ++i) {
    const auto fault = static_cast<FaultClass>(i);
    EXPECT_FALSE(name_of(fault).empty());
    EXPECT_EQ(fault_class_named(name_of(fault)), fault) << name_of(fault);
  }
  EXPECT_EQ(fault_class_named("nonsense"), std::nullopt);
  EXPECT_EQ(name_of(FaultClass::kDeadlyBatch), "deadly_batch");
  EXPECT_EQ(name_of(FaultClass::kDriver), "driver_away");
  EXPECT_EQ(name_of(FaultClass::kStuckWork), "stuck_work");
  EXPECT_EQ(name_of(Action::kEnd), "end");
}

// What a log ended with before a crash says nothing of it: any two looked alike.
TEST(FaultTrace, CrashesAreToldApartByTheirPlace) {
  const std::string log = "12:00:01 info reusing the prepared libtorch\n";
  const RankExited here{.status = 139, .last_words = log, .stack = "longhaul+0x1f20\nlibc.so.6+0x29d90\n"};
  const RankExited elsewhere{
      .status = 139, .last_words = log, .stack = "longhaul+0x2a40\nlibc.so.6+0x29d90\n"};
  const RankExited again{.status = 139, .last_words = "another line", .stack = here.stack};
  EXPECT_EQ(trace_of(here), trace_of(again));
  EXPECT_NE(trace_of(here), trace_of(elsewhere));
  EXPECT_EQ(trace_of({.status = 139, .last_words = log}), "139 without a stack")
      << "of rank 0 on a terminal there is not even a log";
  for (const int64_t status : {129, 130, 137, 143})
    EXPECT_EQ(trace_of({.status = status, .last_words = log}), "");
}

TEST(FaultTrace, WhatDiffersBetweenRanksAndStartsIsLeftOut) {
  RankExited a{.rank = 1, .status = 70, .error = {.code = 70, .text = "at 0x7f12ab34 in backward (rank 1)"}};
  RankExited b{
      .rank = 12, .status = 70, .error = {.code = 70, .text = "at 0x7fffff00 in backward (rank 12)"}};
  EXPECT_EQ(trace_of(a), trace_of(b));
  b.error.text = "at 0x7fffff00 in forward (rank 12)";
  EXPECT_NE(trace_of(a), trace_of(b));
  EXPECT_EQ(trace_of({.status = 1, .last_words = "step 12\nterminate called\n\n"}), "1 terminate called");
  EXPECT_EQ(trace_of({.status = 1, .error = {.code = 70, .text = "assertion a < 3"}, .last_words = "x"}),
            "1 assertion a < #");
  EXPECT_EQ(trace_of({.status = 137}), "");
  EXPECT_EQ(trace_of({.status = 134, .last_words = "  what():  bad_alloc"}), "134   what():  bad_alloc");
  EXPECT_LE(trace_of({.status = 1, .stack = std::string(10000, 'x')}).size(), 400U);
}

}  // namespace
}  // namespace longhaul::control
