#include "detect/minder/driver.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/process/process.h"
#include "base/text/text.h"

namespace longhaul::detect {

std::string CommandDriver::run(const std::vector<std::string>& words) const {
  std::vector<std::string> all = {command_};
  all.insert(all.end(), words.begin(), words.end());
  const ProcessResult result = run_process(all, {}, 120);
  if (result.status != 0 || result.timed_out) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = "the command that handles machines failed",
                 .expected = "exit status 0 within 120 seconds",
                 .found = result.timed_out
                              ? "no end"
                              : fmt::format("{}: {}", result.status, brief(printable(result.errors), 200)),
                 .where = fmt::format("{} {}", command_, words.front())});
  }
  std::string output = result.output;
  while (!output.empty() && (output.back() == '\n' || output.back() == ' ')) output.pop_back();
  return output;
}

void CommandDriver::block(const Alert& alert) {
  run({"block", alert.machine, alert.metric, fmt::format("{:.0f}", alert.first_s)});
}

std::optional<std::string> CommandDriver::replace(const std::string& machine) {
  const std::string name = run({"replace", machine});
  if (name.empty()) return std::nullopt;
  return name;
}

std::string text_of(const Response& response) {
  switch (response.kind) {
    case Response::Kind::kReplaced:
      return fmt::format("{} is blocked, and {} takes its place", response.machine, response.replacement);
    case Response::Kind::kNoSpare:
      return fmt::format("{} is blocked; there is no machine to take its place", response.machine);
    case Response::Kind::kBlockedBefore:
      return fmt::format("{} was blocked before", response.machine);
    case Response::Kind::kTooMany:
      return fmt::format("{} is left alone: as many machines as may be were blocked in the last hour",
                         response.machine);
    case Response::Kind::kFailed:
      return fmt::format("{} could not be handled: {}", response.machine, response.problem);
  }
  return {};
}

Response Responder::act_on(const Alert& alert) {
  Response response{.machine = alert.machine};
  if (blocked_.contains(alert.machine)) {
    response.kind = Response::Kind::kBlockedBefore;
    return response;
  }
  while (!times_s_.empty() && times_s_.front() <= alert.raised_s - 3600) times_s_.pop_front();
  if (static_cast<int64_t>(times_s_.size()) >= most_an_hour_) {
    response.kind = Response::Kind::kTooMany;
    return response;
  }
  try {
    driver_.block(alert);
    blocked_.insert(alert.machine);
    times_s_.push_back(alert.raised_s);
    const auto replacement = driver_.replace(alert.machine);
    response.kind = replacement ? Response::Kind::kReplaced : Response::Kind::kNoSpare;
    response.replacement = replacement.value_or("");
  } catch (const std::exception& error) {
    response.kind = Response::Kind::kFailed;
    response.problem = error.what();
  }
  return response;
}

}  // namespace longhaul::detect
