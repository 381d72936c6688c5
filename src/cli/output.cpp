#include "cli/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

namespace longhaul::cli {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error({.code = ExitCode::kDisk,
                 .what = "cannot write the result",
                 .found = std::generic_category().message(errno),
                 .where = "standard output",
                 .hint = "see where the output is redirected to: is that disk full?"});
  }
}

void print_json(const nlohmann::ordered_json& json) {
  print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

std::string troubleshooting_of(ExitCode code) {
  const auto part = [&]() -> std::string_view {
    switch (code) {
      case ExitCode::kUsage:
        return "recipes";
      case ExitCode::kData:
        return "data";
      case ExitCode::kCheckpoint:
        return "checkpoints";
      case ExitCode::kNumeric:
        return "steps-are-skipped-not-finite";
      case ExitCode::kOutOfMemory:
        return "out-of-memory";
      case ExitCode::kDevice:
        return "the-gpu-is-refused";
      case ExitCode::kDisk:
        return "the-disk-is-full";
      case ExitCode::kFenced:
        return "this-process-slept-and-its-run-was-taken-over-or-moved";
      default:
        return "";
    }
  }();
  return part.empty() ? "" : fmt::format("docs/troubleshooting.md#{}", part);
}

}  // namespace longhaul::cli
