#include "control/driver/driver_client.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/net/event_loop.h"
#include "base/text/text.h"
#include "control/wire/channel.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_driver(const fs::path& run, const std::string& found) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "no driver of this run answers",
               .found = found,
               .where = run.string(),
               .hint = "type the `launch` of this run again: it comes back to ranks that went on"});
}

std::string text_of_number(const nlohmann::json& value, const char* format) {
  return value.is_number() ? fmt::format(fmt::runtime(format), value.get<double>()) : "–";
}
std::string text_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}
int64_t integer_in(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<int64_t>() : -1;
}
std::string phase_in(const nlohmann::json& rank) {
  const nlohmann::json task = rank.value("task_phase", nlohmann::json::object());
  return observe::phase_text(
      text_in(rank, "phase"),
      {.name = text_in(task, "name"), .done = integer_in(task, "done"), .whole = integer_in(task, "whole")});
}

}  // namespace

std::string ask_driver(const fs::path& run, const ClientMessage& question, double timeout_s) {
  const fs::path control = run / "control";
  if (!fs::exists(control / "secret")) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "this is no run of `longhaul launch`",
                 .expected = "a run folder with control/ in it",
                 .where = run.string()});
  }
  if (!fs::exists(control / "operator-secret")) no_driver(run, "its last driver was of an earlier version");
  if (!fs::exists(control / "address")) no_driver(run, "it has left no address");
  std::string address = read_text(control / "address");
  while (address.ends_with('\n')) address.pop_back();

  EventLoop loop;
  std::optional<std::string> answer, problem;
  std::shared_ptr<Channel> channel;
  channel = Channel::make(loop, Socket::connect(parse_endpoint(address, (control / "address").string())),
                          Handshake(operator_keys(control), own_identity("operator", "", "", 0), false),
                          {.opened = [&](const Identity&) { channel->send(to_text(question)); },
                           .message =
                               [&](std::string_view message) {
                                 answer = message;
                                 loop.stop();
                               },
                           .closed =
                               [&](const Channel::Closing& closing) {
                                 problem = closing.reason;
                                 loop.stop();
                               }});
  loop.run_for(timeout_s);
  if (!answer) no_driver(run, problem.value_or("no answer in time"));
  channel->close();
  const Answer read = answer_from_text(*answer, "the driver");
  if (!read.good)
    throw Error({.code = ExitCode::kUsage,
                 .what = "the driver says no",
                 .found = printable(read.text),
                 .where = run.string()});
  return read.text;
}

RunStatus status_of_run(const fs::path& run) {
  try {
    return {.text = ask_driver(run, StatusRequest{})};
  } catch (const Error& error) {
    const fs::path file = run / "control" / "status.json";
    if (error.code() != ExitCode::kCommunication || !fs::exists(file)) throw;
    return {.text = read_text(file),
            .from_driver = false,
            .silent_driver = FileLock::holder_of(run / "control" / "driver")};
  }
}

std::string status_for_people(const std::string& text) {
  const nlohmann::json status = nlohmann::json::parse(text);
  std::string out =
      fmt::format("{}: {}, generation {}, step {} of {}, {} restarts; share of the time used {}\n",
                  text_in(status, "run"), text_in(status, "state"), integer_in(status, "generation"),
                  integer_in(status, "step"), integer_in(status, "steps"), integer_in(status, "restarts"),
                  text_of_number(status.value("effective_ratio", nlohmann::json()), "{:.3f}"));
  for (const nlohmann::json& node : status.value("nodes", nlohmann::json::array())) {
    out += fmt::format("  {:<12} {:<8} process {} on {}", text_in(node, "node"), text_in(node, "state"),
                       integer_in(node, "pid"), text_in(node, "host"));
    if (const std::string reason = text_in(node, "reason"); !reason.empty()) out += "  (" + reason + ")";
    out += "\n";
  }
  for (const nlohmann::json& rank : status.value("ranks", nlohmann::json::array())) {
    out += fmt::format("  rank {:<5} {:<8} process {} on {}, step {}, {} for {} s, loss {}\n",
                       integer_in(rank, "rank"), text_in(rank, "state"), integer_in(rank, "pid"),
                       text_in(rank, "node"), integer_in(rank, "step"), phase_in(rank),
                       text_of_number(rank.value("phase_age_s", nlohmann::json()), "{:.1f}"),
                       text_of_number(rank.value("loss", nlohmann::json()), "{:.4f}"));
  }
  const nlohmann::json incidents = status.value("incidents", nlohmann::json::array());
  for (size_t i = incidents.size() > 5 ? incidents.size() - 5 : 0; i < incidents.size(); ++i) {
    out += fmt::format("  incident: {}, rank {}, {}: {}\n", text_in(incidents[i], "class"),
                       integer_in(incidents[i], "rank"), text_in(incidents[i], "node"),
                       text_in(incidents[i], "action"));
  }
  return out;
}

}  // namespace longhaul::control
