#include "kernels/dispatch.h"

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"

namespace longhaul::kernels {
namespace {

thread_local std::map<std::string, Choice> last_choice;
thread_local std::map<std::string, std::string> forced;
std::atomic<bool> explaining{false};

void print_once(const Choice& choice) {
  std::string line = choice.op + " → " + choice.chosen;
  for (const auto& [implementation, reason] : choice.refusals) line += "\n    " + implementation + " refused: " + reason;
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (printed.insert(line).second) log_info("dispatch: {}", line);
}

}  // namespace

size_t Dispatcher::choose(const std::vector<std::string>& implementations, const std::function<std::string(size_t)>& refusal) const {
  const auto want = forced.find(op_);
  Choice choice{.op = op_};
  for (size_t i = 0; i < implementations.size(); ++i) {
    if (want != forced.end() && want->second != implementations[i]) continue;
    std::string reason = refusal(i);
    if (reason.empty()) {
      choice.chosen = implementations[i];
      if (explaining) print_once(choice);
      last_choice[op_] = std::move(choice);
      return i;
    }
    choice.refusals.emplace_back(implementations[i], std::move(reason));
  }
  std::string reasons;
  for (const auto& [name, reason] : choice.refusals) reasons += (reasons.empty() ? "" : "; ") + name + ": " + reason;
  throw Error({.code = ExitCode::kUsage,
               .what = "no implementation of " + op_ + " takes this call",
               .found = reasons.empty() ? "no implementation of that name" : reasons});
}

const Choice& Dispatcher::last(const std::string& op) { return last_choice[op]; }

void Dispatcher::force(const std::string& op, std::optional<std::string> implementation) {
  if (implementation) {
    forced[op] = *implementation;
  } else {
    forced.erase(op);
  }
}

void Dispatcher::explain(bool on) { explaining = on; }

}  // namespace longhaul::kernels
