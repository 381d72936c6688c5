#include "kernels/dispatch.h"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"

namespace longhaul::kernels {
namespace {

struct Record {
  std::span<const std::string_view> implementations;
  size_t chosen = 0;
  std::array<Refusal, Dispatcher::kMostImplementations> refusals;  // empty: took the call, or was not asked

  std::vector<std::pair<std::string, std::string>> reasons() const {
    std::vector<std::pair<std::string, std::string>> result;
    for (size_t i = 0; i < implementations.size(); ++i) {
      if (!refusals[i].empty()) result.emplace_back(implementations[i], refusals[i].reason());
    }
    return result;
  }
};

thread_local std::map<std::string_view, Record> last_record;  // by the operator's name, a literal
thread_local std::map<std::string, std::string, std::less<>> forced;
std::atomic<bool> explaining{false};

Choice choice_of(std::string_view op, const Record& record) {
  return {std::string(op), std::string(record.implementations[record.chosen]), record.reasons()};
}

void print_once(const Choice& choice) {
  std::string line = choice.op + " → " + choice.chosen;
  for (const auto& [implementation, reason] : choice.refusals)
    line += "\n    " + implementation + " refused: " + reason;
  static std::mutex mutex;
  static std::set<std::string> printed;
  const std::lock_guard lock(mutex);
  if (printed.insert(line).second) log_info("dispatch: {}", line);
}

}  // namespace

size_t Dispatcher::choose(Refusal (*refuse)(const void*, size_t), const void* context) const {
  const auto want = forced.find(op_);
  Record record{.implementations = implementations_};
  for (size_t i = 0; i < implementations_.size(); ++i) {
    if (want != forced.end() && want->second != implementations_[i]) continue;
    record.refusals[i] = refuse(context, i);
    if (!record.refusals[i].empty()) continue;
    record.chosen = i;
    if (explaining) print_once(choice_of(op_, record));
    last_record[op_] = record;
    return i;
  }
  std::string reasons;
  for (const auto& [name, reason] : record.reasons())
    reasons += (reasons.empty() ? "" : "; ") + name + ": " + reason;
  throw Error({.code = ExitCode::kUsage,
               .what = "no implementation of " + std::string(op_) + " takes this call",
               .found = reasons.empty() ? "no implementation of that name" : reasons});
}

Choice Dispatcher::last(std::string_view op) {
  const auto record = last_record.find(op);
  return record == last_record.end() ? Choice{} : choice_of(op, record->second);
}

void Dispatcher::force(const std::string& op, std::optional<std::string> implementation) {
  if (implementation) {
    forced[op] = *implementation;
  } else {
    forced.erase(op);
  }
}

void Dispatcher::explain(bool on) { explaining = on; }

}  // namespace longhaul::kernels
