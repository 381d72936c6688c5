#include "control/waiting_files.h"

#include "base/error.h"
#include "base/log.h"

namespace longhaul::control {

bool WaitingFiles::try_now(const std::string& name, const std::function<void()>& writes) {
  try {
    writes();
    if (said_.erase(name) > 0) log_info("driver: {} can be written again", name);
    return true;
  } catch (const Error& error) {
    if (std::string& said = said_[name]; said != error.fields().found) {
      said = error.fields().found;
      log_error("driver: {} waits in memory: {}", name, error.what());
    }
    return false;
  }
}

void WaitingFiles::write(const std::string& name, std::function<void()> writes) {
  waiting_.erase(name);
  if (!try_now(name, writes)) waiting_[name] = std::move(writes);
}

void WaitingFiles::again() {
  std::erase_if(waiting_, [this](const auto& one) { return try_now(one.first, one.second); });
}

}  // namespace longhaul::control
