// `longhaul diagnose`: whether this machine, or each of several, can be trusted with a run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/machine/machine.h"
#include "base/net/network.h"
#include "base/process/launch.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "bench/operators/product_check.h"
#include "cli/command.h"
#include "cli/output.h"
#include "comm/diagnose_nodes.h"
#include "comm/world.h"
#include "control/blocklist.h"
#include "control/checks/machine_checks.h"
#include "control/wire/placement.h"
#include "observe/table.h"
#include "plan/reliability/spares.h"
#include "prove/alignment_check.h"
#include "tensor/libtorch_folder.h"

namespace longhaul::cli {

void add_diagnose_hosts(Command& group);
void add_diagnose_replay(Command& group);

namespace {

namespace fs = std::filesystem;
using control::CheckFinding;
using control::CheckStatus;
using control::SelfCheckReport;

struct DiagnoseArguments {
  std::string folder = ".", one, plant, suite = "preflight";
  std::vector<std::string> only, limits, peers;
  int64_t ranks = 1;
  bool deep = false, json = false;
};

// For all of what a rank waits for others in: they have their own checks to make.
std::chrono::seconds patience_of(const DiagnoseArguments& arguments) {
  return std::chrono::seconds(
      static_cast<int64_t>(arguments.deep ? control::kStopTime_s : control::kPreFlight_s) + 60);
}

fs::path this_program() { return fs::canonical("/proc/self/exe"); }

// "product@2": on rank 2 alone.
std::string planted_on(const std::string& plant, int64_t rank) {
  const size_t at = plant.find('@');
  if (at == std::string::npos) return plant;
  return plant.substr(at + 1) == std::to_string(rank) ? plant.substr(0, at) : "";
}

control::Limits limits_of(const DiagnoseArguments& arguments) {
  control::Limits limits;
  for (const std::string& typed : arguments.limits) limits.set(typed);
  return limits;
}

CheckFinding finding_of(const std::string& name, const control::CheckContext& context) {
  if (name == "versions") return control::versions_check(context, {{"LibTorch", libtorch_version()}});
  if (name == "network") return control::network_check(context);
  if (name == "disk") return control::disk_check(context);
  if (name == "gpu") return control::gpu_check(context);
  if (name == "product") return bench::product_check(context);
  if (name == "memory") return control::memory_check(context);
  if (name == "alignment") return prove::alignment_check(context);
  LONGHAUL_ASSERT(false, "no check {}", name);
}

ExitCode run_one(const DiagnoseArguments& arguments) {
  const control::CheckContext context{.folder = arguments.folder,
                                      .limits = limits_of(arguments),
                                      .deep = arguments.deep,
                                      .plant = arguments.plant == arguments.one};
  print_json(finding_of(arguments.one, context).to_json());
  return ExitCode::kDone;
}

void print_nodes(const control::NodesReport& report) {
  observe::Table table(
      fmt::format("{} diagnosed", counted(static_cast<int64_t>(report.nodes.size()), "node")),
      {{""}, {"node"}, {"check"}, {"found"}});
  for (const SelfCheckReport& node : report.nodes) {
    table.row({node.passed() ? "passed" : "failed", node.node,
               counted(static_cast<int64_t>(node.results.size()), "check"), duration_text(node.seconds)});
  }
  for (const control::PairResult& pair : report.pairs) {
    table.row({pair.correct ? "passed" : "failed",
               report.nodes[static_cast<size_t>(pair.a)].node + " and " +
                   report.nodes[static_cast<size_t>(pair.b)].node,
               "pairs",
               fmt::format("{:.0f} MB/s, {}", pair.bytes_per_second / 1e6,
                           pair.correct ? "all as sent" : "other bytes than were sent")});
  }
  for (const control::NodeFinding& finding : report.findings) {
    table.row({std::string(control::name_of(finding.status)), finding.node, finding.check, finding.found});
    if (!finding.limit.empty()) table.row({"", "", "", "expected: " + finding.limit});
  }
  print(table.text(colours_wanted(stdout)));
  const auto failed = report.failed_nodes();
  if (!failed.empty()) print(fmt::format("do not use: {}\n", fmt::join(failed, ", ")));
}

void print_machine(const SelfCheckReport& report) {
  observe::Table table(report.node, {{""}, {"check"}, {"found"}, {"took"}});
  for (const CheckFinding& finding : report.results) {
    table.row({std::string(control::name_of(finding.status)), finding.name, finding.found,
               duration_text(finding.seconds)});
    if (!finding.limit.empty()) table.row({"", "", "expected: " + finding.limit, ""});
    if (!finding.advice.empty()) table.row({"", "", "→ " + finding.advice, ""});
  }
  print(table.text(colours_wanted(stdout)));
}

ExitCode start_ranks(const DiagnoseArguments& arguments) {
  const TemporaryFolder logs;
  std::vector<std::string> words = {this_program().string(), "diagnose", "--folder", arguments.folder};
  if (arguments.json) words.push_back("--json");
  if (arguments.deep) words.push_back("--deep");
  for (const auto& name : arguments.only) words.insert(words.end(), {"--check", name});
  for (const auto& limit : arguments.limits) words.insert(words.end(), {"--limit", limit});
  if (!arguments.plant.empty()) words.insert(words.end(), {"--plant", arguments.plant});
  const uint16_t port = free_port();
  std::vector<LaunchedProcess> processes;
  for (int64_t rank = 0; rank < arguments.ranks; ++rank) {
    LaunchedProcess& process = processes.emplace_back();
    process.argv = words;
    process.environment = control::environment_of_rank(rank, arguments.ranks, port);
    process.environment.push_back(fmt::format("LONGHAUL_NODE=node-{}", rank));
    if (rank > 0) process.log = logs / fmt::format("{}.log", rank);
  }
  const LaunchResult result = launch(processes, static_cast<int>(ExitCode::kCommunication));
  if (!result.first) return ExitCode::kDone;
  const int status = result.statuses[*result.first];
  if (status != static_cast<int>(ExitCode::kCheckFailed) && *result.first > 0) {
    say(stderr, fmt::format("rank {} ended with {}:\n{}\n", *result.first, status,
                            printable(read_text(*processes[*result.first].log), LineEnds::kKept)));
  }
  return static_cast<ExitCode>(status);
}

ExitCode diagnose(const DiagnoseArguments& arguments) {
  if (!arguments.one.empty()) return run_one(arguments);
  const control::Limits limits = limits_of(arguments);
  if (arguments.ranks > 1) return start_ranks(arguments);
  const control::Placement place = control::find_place();
  const std::string plant = planted_on(arguments.plant, place.rank);
  const control::SelfCheckOptions options{.folder = fs::weakly_canonical(arguments.folder),
                                          .deep = arguments.deep,
                                          .only = arguments.only,
                                          .limits = arguments.limits,
                                          .plant = plant};
  SelfCheckReport report;
  // One rank of a machine looks at it; ranks with a name of their own stand for machines.
  const bool looks = place.local_rank == 0 || control::variable("LONGHAUL_NODE");
  if (looks)
    report = control::run_self_check(options, control::checks_in_children(this_program(), options));
  else
    report = {.node = fmt::format("{} rank {}", machine().host, place.rank), .boot = machine().boot};
  if (place.size == 1) {
    if (!arguments.peers.empty()) {
      comm::diagnose_with_peers(report, arguments.peers, limits,
                                {.plant = plant == "pairs", .timeout = patience_of(arguments)});
    }
    if (arguments.json)
      print_json(report.to_json());
    else
      print_machine(report);
    return report.passed() ? ExitCode::kDone : ExitCode::kCheckFailed;
  }
  const auto world = comm::join_world();
  const control::NodesReport all = comm::diagnose_nodes(
      *world, report, limits, {.plant = plant == "pairs", .timeout = patience_of(arguments)});
  if (place.rank == 0) {
    if (arguments.json)
      print_json(all.to_json());
    else
      print_nodes(all);
  }
  return all.passed() ? ExitCode::kDone : ExitCode::kCheckFailed;
}

struct BlockedArguments {
  std::string run, lift;
  bool names = false, json = false;
};

ExitCode blocked(const BlockedArguments& arguments) {
  const fs::path path = fs::path(arguments.run) / "control" / "blocked.json";
  control::Blocklist list = control::Blocklist::read(path);
  const double now = wall_time_s();
  if (!arguments.lift.empty()) {
    if (!list.lift(arguments.lift)) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "this host is not blocked",
                   .expected = "one of: " + fmt::format("{}", fmt::join(list.hosts(now), ", ")),
                   .found = arguments.lift,
                   .where = path.string()});
    }
    list.write(path);
  }
  if (arguments.names) {
    print(fmt::format("{}\n", fmt::join(list.hosts(now), ",")));
  } else if (arguments.json) {
    print_json(list.to_json());
  } else {
    observe::Table table("blocked hosts", {{"host"}, {"until"}, {"generation"}, {"why"}});
    for (const control::BlockedHost& entry : list.entries(now)) {
      table.row({entry.host,
                 entry.until_s == control::kUntilLifted ? "lifted by hand" : wall_time_text(entry.until_s),
                 fmt::format("{}", entry.generation), printable(entry.reason)});
    }
    print(table.text(colours_wanted(stdout)));
  }
  return ExitCode::kDone;
}

void add_blocked(Command& group) {
  auto arguments = std::make_shared<BlockedArguments>();
  Command command = group.add("blocked", "hosts that a run does not use, and why",
                              {{"a table", "diagnose blocked runs/first"},
                               {"for srun --exclude", "diagnose blocked runs/first --names"},
                               {"use one again", "diagnose blocked runs/first --lift n7"}});
  command.option("RUN", arguments->run, "a run folder").required();
  command.option("--lift", arguments->lift, "take this host from the list");
  command.flag("--names", arguments->names, "names alone, with commas between them");
  command.json_flag(arguments->json);
  command.on_run([arguments] { return blocked(*arguments); });
}

void add_spares(Command& group) {
  struct SparesArguments {
    int64_t machines = 0;
    double probability = 1.2e-3, confidence = 0.99;
    bool json = false;
  };
  auto arguments = std::make_shared<SparesArguments>();
  Command command = group.add(
      "spares", "how many machines are to stand by",
      {{"for a run of 128", "diagnose spares --machines 128"},
       {"of machines that fail once in 100 days", "diagnose spares --machines 128 --probability 0.01"},
       {"for a script", "diagnose spares --machines 1024 --json"}});
  command.option("--machines", arguments->machines, "that the run uses").required().at_least(1);
  command.option("--probability", arguments->probability, "that one machine fails on one day")
      .default_shown();
  command.option("--confidence", arguments->confidence, "with which no more fail on a day than stand by")
      .default_shown();
  command.json_flag(arguments->json);
  command.on_run([arguments] {
    const int64_t spares =
        plan::spares_needed(arguments->machines, arguments->probability, arguments->confidence);
    if (arguments->json)
      print_json({{"machines", arguments->machines}, {"spares", spares}});
    else
      print(fmt::format("{} for {}\n", counted(spares, "spare"), counted(arguments->machines, "machine")));
    return ExitCode::kDone;
  });
}

}  // namespace

void add_diagnose(Command& program) {
  auto arguments = std::make_shared<DiagnoseArguments>();
  Command command = program.add(
      "diagnose", "whether this machine, or each of several, can be trusted with a run (exit 1: not)",
      {{"this machine, before a run (a minute at most)", "diagnose"},
       {"four processes that stand for four nodes", "diagnose --ranks 4"},
       {"each node of a job, and their links",
        "diagnose --json        # under srun or torchrun, one rank a node"}});
  std::vector<std::string> names;
  for (const control::Check& check : control::all_checks()) names.push_back(check.name);
  command
      .option("--ranks", arguments->ranks,
              "processes of this machine that diagnose each other as nodes would")
      .at_least(1)
      .at_most(64);
  command.option("--check", arguments->only, "only these: " + fmt::format("{}", fmt::join(names, ", ")))
      .one_of(names);
  command.option("--folder", arguments->folder, "whose disk is measured").default_shown();
  command.option("--limit", arguments->limits,
                 "NAME=VALUE: another limit than the usual one; docs/guides/operations.md lists them");
  command.flag("--deep", arguments->deep,
               "more memory and more patience: what is looked at when a run stands still");
  command.option("--suite", arguments->suite, "stop_time is --deep: as the driver of a run asks for it")
      .one_of({"preflight", "stop_time"})
      .hidden();
  command
      .option("--peer", arguments->peers,
              "address of a node that diagnoses itself now, this one's too, in one order on all")
      .hidden();
  command.option("--one", arguments->one, "run one check in this process").one_of(names).hidden();
  command.option("--plant", arguments->plant, "CHECK[@RANK] finds a fault that is not there").hidden();
  command.json_flag(arguments->json);
  add_blocked(command);
  add_spares(command);
  add_diagnose_hosts(command);
  add_diagnose_replay(command);
  command.on_run([arguments] {
    arguments->deep |= arguments->suite == "stop_time";
    return diagnose(*arguments);
  });
}

}  // namespace longhaul::cli
