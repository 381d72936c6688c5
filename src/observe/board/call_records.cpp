#include "observe/board/call_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/text/json.h"

namespace longhaul::observe {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr JsonRules kCallRules{.what = "cannot read the record of a rank's calls",
                               .hint = "records are the files calls-<rank>.json that a failed run leaves"};

// PyTorch's names; its readers know no "failed", and keep a failed call in the state that it had reached.
std::string_view torch_state(const CallRecord& call) {
  if (call.state == CallState::kDone) return "completed";
  return call.started_ns != 0 ? "started" : "scheduled";
}

ordered_json message_json(const MessageRecord& message) {
  return {{"direction", message.direction == Direction::kSend ? "send" : "receive"},
          {"peer", message.peer},
          {"tensor", message.tensor},
          {"number", message.number}};
}

ordered_json call_json(const CallRecord& call, const GroupPlace& group) {
  const bool exchange = call.kind == CallKind::kExchange;
  ordered_json object{{"record_id", call.number},
                      {"pg_id", call.group},
                      {"process_group", {group.path, group.path}},
                      {"collective_seq_id", exchange ? 0 : call.sequence},
                      {"p2p_seq_id", exchange ? call.sequence : 0},
                      {"is_p2p", exchange},
                      {"profiling_name", fmt::format("longhaul:{}", name_of(call.kind))},
                      {"state", torch_state(call)},
                      {"time_created_ns", call.entered_ns},
                      {"time_discovered_started_ns", call.started_ns},
                      {"time_awaited_ns", call.awaited_ns},
                      {"time_discovered_completed_ns", call.ended_ns},
                      {"kind", name_of(call.kind)},
                      {"sequence", call.sequence},
                      {"name", call.name},
                      {"text", call.text},
                      {"reached", name_of(call.state)},
                      {"bytes_sent", call.traffic.sent},
                      {"bytes_received", call.traffic.received},
                      {"error", call.error}};
  object["send_rows"] = call.send_rows;
  object["receive_rows"] = call.receive_rows;
  object["messages"] = ordered_json::array();
  for (const MessageRecord& message : call.messages) object["messages"].push_back(message_json(message));
  return object;
}

template <class Value>
Value value_named(const JsonView& view, int last) {
  for (int i = 0; i <= last; ++i) {
    if (view.string() == name_of(static_cast<Value>(i))) return static_cast<Value>(i);
  }
  view.fail("a known name", view.string());
}

std::vector<int64_t> numbers_at(const JsonView& view) {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < view.array_size(); ++i) numbers.push_back(view.at(i).integer(0));
  return numbers;
}

MessageRecord message_from(const JsonView& view) {
  const std::string& direction = view.at("direction").string();
  view.require(direction == "send" || direction == "receive", "send or receive");
  return {direction == "send" ? Direction::kSend : Direction::kReceive, view.at("peer").integer(0),
          view.at("tensor").string(), view.at("number").integer(0)};
}

CallRecord call_from(const JsonView& view, size_t groups) {
  CallRecord call{.number = view.at("record_id").integer(0),
                  .group = static_cast<size_t>(view.at("pg_id").integer(0, static_cast<int64_t>(groups) - 1)),
                  .kind = value_named<CallKind>(view.at("kind"), static_cast<int>(CallKind::kSplit)),
                  .sequence = view.at("sequence").integer(0),
                  .name = view.at("name").string(),
                  .text = view.at("text").string(),
                  .send_rows = numbers_at(view.at("send_rows")),
                  .receive_rows = numbers_at(view.at("receive_rows")),
                  .traffic = {view.at("bytes_sent").integer(0), view.at("bytes_received").integer(0)},
                  .state = value_named<CallState>(view.at("reached"), static_cast<int>(CallState::kFailed)),
                  .entered_ns = view.at("time_created_ns").integer(0),
                  .started_ns = view.at("time_discovered_started_ns").integer(0),
                  .awaited_ns = view.at("time_awaited_ns").integer(0),
                  .ended_ns = view.at("time_discovered_completed_ns").integer(0),
                  .error = view.at("error").string()};
  const JsonView messages = view.at("messages");
  for (size_t i = 0; i < messages.array_size(); ++i) call.messages.push_back(message_from(messages.at(i)));
  return call;
}

std::vector<std::filesystem::path> files_of_calls(const std::filesystem::path& run_folder) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(calls_folder(run_folder))) return files;
  for (const auto& file : list_files(calls_folder(run_folder))) {
    if (file.filename().string().starts_with("calls-") && file.extension() == ".json") files.push_back(file);
  }
  return files;
}

}  // namespace

std::string_view name_of(CallKind kind) {
  constexpr std::string_view kNames[kCallKinds] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                                   "broadcast",  "exchange",       "barrier",    "split"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view name_of(CallState state) {
  constexpr std::string_view kNames[] = {"entered", "started", "done", "failed"};
  return kNames[static_cast<size_t>(state)];
}

std::string label(CallKind kind, const std::string& name, int64_t sequence) {
  return fmt::format("{} '{}' ({} {})", name_of(kind), name,
                     kind == CallKind::kExchange ? "exchange" : "call", sequence);
}

std::string label(const CallRecord& call) { return label(call.kind, call.name, call.sequence); }

ordered_json to_json(const RankRecords& records) {
  ordered_json object{{"version", "2.4"}, {"rank", records.rank}, {"dropped", records.dropped}};
  object["pg_config"] = ordered_json::array();
  for (const GroupPlace& group : records.groups)
    object["pg_config"].push_back({{"name", group.path}, {"desc", group.path}, {"ranks", group.top_ranks}});
  object["entries"] = ordered_json::array();
  for (const CallRecord& call : records.calls)
    object["entries"].push_back(call_json(call, records.groups[call.group]));
  return object;
}

std::filesystem::path calls_folder(const std::filesystem::path& run_folder) { return run_folder / "trace"; }

std::vector<RankRecords> read_calls(const std::filesystem::path& run_folder) {
  std::vector<RankRecords> ranks;
  for (const auto& file : files_of_calls(run_folder))
    ranks.push_back(rank_records(read_text(file), file.string()));
  std::ranges::sort(ranks, {}, &RankRecords::rank);
  return ranks;
}

void forget_calls(const std::filesystem::path& run_folder) {
  for (const auto& file : files_of_calls(run_folder)) std::filesystem::remove(file);
}

RankRecords rank_records(std::string_view text, const std::string& where) {
  const json root = parse_json(text, where, kCallRules);
  const JsonView view(root, where + ":", kCallRules);
  RankRecords records{.rank = view.at("rank").integer(0), .dropped = view.at("dropped").integer(0)};
  const JsonView groups = view.at("pg_config"), entries = view.at("entries");
  for (size_t i = 0; i < groups.array_size(); ++i) {
    GroupPlace place{groups.at(i).at("name").string(), numbers_at(groups.at(i).at("ranks"))};
    groups.at(i).require(std::ranges::find(place.top_ranks, records.rank) != place.top_ranks.end(),
                         "a group of this rank");
    records.groups.push_back(std::move(place));
  }
  for (size_t i = 0; i < entries.array_size(); ++i)
    records.calls.push_back(call_from(entries.at(i), records.groups.size()));
  return records;
}

}  // namespace longhaul::observe
