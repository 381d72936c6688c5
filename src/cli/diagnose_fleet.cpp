// `longhaul diagnose hosts` and `longhaul diagnose replay`: questions about many machines at once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/folders.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "control/checks/dual_phase_replay.h"
#include "control/host_history.h"

namespace longhaul::cli {

void add_diagnose_hosts(Command& group);
void add_diagnose_replay(Command& group);

namespace {

struct HostsArguments {
  std::string history = (user_cache_folder() / "hosts.jsonl").string();
  bool json = false;
};

ExitCode tell_hosts(const HostsArguments& arguments) {
  const std::vector<control::HostRecord> records = control::read_records(arguments.history);
  std::vector<std::string> hosts;
  for (const control::HostRecord& record : records) {
    if (std::ranges::find(hosts, record.host) == hosts.end()) hosts.push_back(record.host);
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string text;
  for (const std::string& host : control::order_of_use(std::move(hosts), records, wall_time_s())) {
    const control::LemonScore score = control::lemon_score(records, host, wall_time_s());
    nlohmann::ordered_json events = nlohmann::ordered_json::object();
    std::vector<std::string> parts;
    for (size_t i = 0; i < score.counts.size(); ++i) {
      if (score.counts[i] == 0) continue;
      const std::string name(control::name_of(static_cast<control::HostEvent>(i)));
      events[name] = score.counts[i];
      parts.push_back(fmt::format("{} {}", name, score.counts[i]));
    }
    all.push_back({{"host", host}, {"events", events}, {"signals", score.signals}, {"lemon", score.lemon()}});
    text += fmt::format("{:<24} {}{}\n", printable(host), fmt::join(parts, ", "),
                        score.lemon() ? "; used last" : "");
  }
  if (arguments.json)
    print_json(all);
  else
    print(text.empty() ? fmt::format("nothing is known of any host ({})\n", arguments.history) : text);
  return ExitCode::kDone;
}

struct ReplayArguments {
  int64_t machines = 0, replica = 1;
  std::vector<std::string> first, second;  // numbers of groups
  bool json = false;
};

std::vector<int64_t> groups_typed(const std::vector<std::string>& typed, const char* option, int64_t groups) {
  std::vector<int64_t> numbers;
  for (const std::string& text : typed) {
    const int64_t number = parse_number<int64_t>(text).value_or(-1);
    if (number < 0 || number >= groups) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "there is no such group",
                   .expected = fmt::format("a number from 0 to {}", groups - 1),
                   .found = brief(printable(text), 40),
                   .where = option,
                   .hint = "without --first and --second the groups are told"});
    }
    numbers.push_back(number);
  }
  return numbers;
}

// Without results: which machines replay together. With them: who it is; exit 1 where the rounds contradict
// each other.
ExitCode tell_replay(const ReplayArguments& arguments) {
  const control::ReplayGroups groups = control::replay_groups(arguments.machines, arguments.replica);
  const bool asks = arguments.first.empty() && arguments.second.empty();
  const std::vector<int64_t> found =
      control::suspects(groups, groups_typed(arguments.first, "--first", groups.groups),
                        groups_typed(arguments.second, "--second", groups.groups));
  nlohmann::ordered_json json;
  std::string text;
  const auto round = [&](const char* name, const auto& members) {
    json[name] = nlohmann::ordered_json::array();
    text += fmt::format("{} round: {} at the same time\n", name, counted(groups.groups, "group"));
    for (int64_t group = 0; group < groups.groups; ++group) {
      json[name].push_back(members(group));
      text += fmt::format("  {:>3}  machines {}\n", group, fmt::join(members(group), ", "));
    }
  };
  if (asks) {
    round("first", [&](int64_t group) { return groups.horizontal(group); });
    round("second", [&](int64_t group) { return groups.vertical(group); });
    text += "then: longhaul diagnose replay … --first GROUP --second GROUP (those whose results differ)\n";
  } else {
    json["suspects"] = found;
    text = found.empty()
               ? std::string("in one of the rounds nothing differed: the fault did not show, replay again\n")
               : fmt::format("machine {} stands where the groups meet\n", fmt::join(found, ", "));
  }
  if (arguments.json)
    print_json(json);
  else
    print(text);
  return asks || !found.empty() ? ExitCode::kDone : ExitCode::kCheckFailed;
}

}  // namespace

void add_diagnose_hosts(Command& group) {
  auto arguments = std::make_shared<HostsArguments>();
  Command command =
      group.add("hosts", "what hosts did in four weeks of runs with --listen, and which are used last",
                {{"all that are known", "diagnose hosts"},
                 {"of a cluster's file", "diagnose hosts --history /shared/hosts.jsonl"},
                 {"for a script", "diagnose hosts --json"}});
  command.option("--history", arguments->history,
                 "the file (launch --host-history; default: hosts.jsonl of your cache)");
  command.json_flag(arguments->json);
  command.on_run([arguments] { return tell_hosts(*arguments); });
}

void add_diagnose_replay(Command& group) {
  auto arguments = std::make_shared<ReplayArguments>();
  Command command = group.add(
      "replay",
      "which of many machines miscalculates: two rounds of the real job on small groups, and where they meet",
      {{"24 machines, two a replica: the groups", "diagnose replay --machines 24 --replica 2"},
       {"group 3 of the first round and 1 of the second gave other results",
        "diagnose replay --machines 24 --replica 2 --first 3 --second 1"},
       {"for a script", "diagnose replay --machines 24 --replica 2 --json"}});
  command.option("--machines", arguments->machines, "how many there are, numbered from 0")
      .required()
      .at_least(1)
      .at_most(1 << 20);
  command.option("--replica", arguments->replica, "machines of one replica of the model")
      .at_least(1)
      .default_shown();
  command.option("--first", arguments->first,
                 "groups of the first round whose results differ from the others'");
  command.option("--second", arguments->second, "groups of the second");
  command.json_flag(arguments->json);
  command.on_run([arguments] { return tell_replay(*arguments); });
}

}  // namespace longhaul::cli
