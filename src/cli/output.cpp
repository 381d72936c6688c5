#include "cli/output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "control/node/last_words.h"

namespace longhaul::cli {

void print(std::string_view text) { write_stream(stdout, text); }

void print_json(const nlohmann::ordered_json& json) {
  print(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void report(const Error& error) {
  control::tell_engine(error.code(), error.what());
  const std::string page = troubleshooting_of(error.code());
  say(stderr, fmt::format("error: {}\n{}", error.what(),
                          page.empty() ? "" : fmt::format("  {:<9} {}\n", "read", page)));
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
  return part.empty() ? "" : fmt::format("docs/guides/troubleshooting.md#{}", part);
}

}  // namespace longhaul::cli
