#include "base/threads/background_work.h"

#include <map>
#include <mutex>

#include "base/clock.h"

namespace longhaul {
namespace {

struct Table {
  std::mutex mutex;
  int64_t last = 0;
  std::map<int64_t, BackgroundWork> work;  // by number: in the order in which it began
};

Table& table() {
  static auto* const kept = new Table;  // threads may outlive static destruction
  return *kept;
}

}  // namespace

BackgroundTask::BackgroundTask(std::string_view name, double allowed_s) {
  const std::lock_guard lock(table().mutex);
  number_ = ++table().last;
  table().work[number_] = {.name = std::string(name), .since_ns = monotonic_ns(), .allowed_s = allowed_s};
}

BackgroundTask::~BackgroundTask() {
  const std::lock_guard lock(table().mutex);
  table().work.erase(number_);
}

std::vector<BackgroundWork> background_work() {
  const std::lock_guard lock(table().mutex);
  std::vector<BackgroundWork> all;
  for (const auto& [number, work] : table().work) all.push_back(work);
  return all;
}

double seconds_to_move(int64_t bytes) {
  constexpr double kBytesPerSecond = 2e7, kBegin_s = 10;
  return kBegin_s + static_cast<double>(bytes) / kBytesPerSecond;
}

}  // namespace longhaul
