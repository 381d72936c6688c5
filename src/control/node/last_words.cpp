#include "control/node/last_words.h"

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"

namespace longhaul::control {
namespace {

constexpr size_t kMostTermination = 4000;  // Kubernetes keeps 4096 bytes

// In the format of torch/distributed/elastic/multiprocessing/errors/error_handler.py: the time stamp is text,
// in whole seconds.
std::string torchrun_error(ExitCode code, const std::string& message) {
  const nlohmann::ordered_json json = {
      {"message",
       {{"message", message},
        {"extraInfo", {{"py_callstack", message}, {"timestamp", fmt::format("{:.0f}", wall_time_s())}}},
        {"errorCode", static_cast<int>(code)}}}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void tell_engine(ExitCode code, const std::string& message, const Environment& environment,
                 const std::filesystem::path& termination_log) {
  try {
    if (const auto file = environment("TORCHELASTIC_ERROR_FILE")) {
      // The first failure of a process is the one that counts, as in torch's own.
      if (!std::filesystem::exists(*file)) write_text_atomically(*file, torchrun_error(code, message));
    }
    if (environment("KUBERNETES_SERVICE_HOST") && std::filesystem::is_regular_file(termination_log)) {
      File log = File::open(termination_log, File::Mode::kCreate);
      log.write(fmt::format("exit code {} ({}): {}", static_cast<int>(code), name_of(code), message)
                    .substr(0, kMostTermination));
    }
  } catch (const std::exception&) {
    // nobody is left to be told
  }
}

}  // namespace longhaul::control
