#include "base/error.h"

namespace longhaul {

Error::Error(ErrorFields fields) : fields_(std::move(fields)) {
  text_ = fields_.what;
  const auto add = [&](std::string_view label, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("\n  {:<9} {}", label, value);
  };
  add("expected", fields_.expected);
  add("found", fields_.found);
  add("where", fields_.where);
  add("try", fields_.hint);
}

std::string_view name_of(ExitCode code) {
  switch (code) {
    case ExitCode::kDone:
      return "done";
    case ExitCode::kCheckFailed:
      return "check failed";
    case ExitCode::kUsage:
      return "usage";
    case ExitCode::kData:
      return "data";
    case ExitCode::kCheckpoint:
      return "checkpoint";
    case ExitCode::kNumeric:
      return "numeric";
    case ExitCode::kOutOfMemory:
      return "out of memory";
    case ExitCode::kCommunication:
      return "communication";
    case ExitCode::kInternal:
      return "internal";
    case ExitCode::kDevice:
      return "device";
    case ExitCode::kHang:
      return "hang";
    case ExitCode::kDisk:
      return "disk";
    case ExitCode::kPreemptedSaved:
      return "preempted, saved";
    case ExitCode::kPreemptedNotSaved:
      return "preempted, not saved";
    case ExitCode::kFenced:
      return "fenced";
    case ExitCode::kDoNotRestart:
      return "do not restart";
  }
  return "unknown";
}

void assertion_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw Error({.code = ExitCode::kInternal,
               .what = "internal error: " + (message.empty() ? std::string(condition) : message),
               .expected = condition,
               .where = fmt::format("{}:{}", file, line),
               .hint = "this is a bug in Longhaul: please report it with the command that led here"});
}

}  // namespace longhaul
