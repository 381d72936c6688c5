#include "control/node/machine_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/log.h"

namespace longhaul::control {
namespace {

// For the kernel's log: a rank that dies of an Xid is judged one second later.
constexpr double kTurn_s = 0.5;
constexpr int64_t kFilesEvery = 10, kProgramsEvery = 60;  // turns
constexpr size_t kMostWaiting = 1000;                     // reports, while no driver is there

}  // namespace

struct MachineWatch::State {
  struct Kept {
    std::unique_ptr<Sensor> sensor;
    int64_t every = 1;
    bool said_absent = false, failed = false;
  };
  explicit State(MachineWatchOptions given);
  void loop();
  void look(Kept& kept);

  MachineWatchOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> processes;
  std::vector<RankLog> logs;
  std::vector<HealthReport> found;
  bool ending = false;
  // Only the thread uses these.
  std::vector<Kept> sensors;
  KernelSensor* kernel = nullptr;
  LogSensor* of_ranks = nullptr;
  std::vector<std::string> absent;
};

MachineWatch::State::State(MachineWatchOptions given) : options(std::move(given)) {
  const auto add = [&](std::unique_ptr<Sensor> sensor, int64_t every) {
    sensors.push_back({.sensor = std::move(sensor), .every = every});
  };
  add(std::make_unique<StorageSensor>(options.run_folder), kFilesEvery);
  auto of_logs = std::make_unique<LogSensor>();
  of_ranks = of_logs.get();
  add(std::move(of_logs), kFilesEvery);
  if (!options.whole_machine) return;
  auto of_kernel = std::make_unique<KernelSensor>(options.root);
  kernel = of_kernel.get();
  add(std::move(of_kernel), 1);
  add(std::make_unique<LinkSensor>(options.root), kFilesEvery);
  add(std::make_unique<DeviceSensor>(options.root), kFilesEvery);
  add(std::make_unique<HeatSensor>(options.root), kFilesEvery);
  add(std::make_unique<GpuSensor>(options.root), kProgramsEvery);
}

void MachineWatch::State::look(Kept& kept) {
  if (kept.failed) return;
  try {
    std::vector<HealthReport> reports = kept.sensor->look();
    if (const std::string what = kept.sensor->absent();
        !what.empty() && !std::exchange(kept.said_absent, true))
      absent.push_back(what);
    const std::lock_guard lock(mutex);
    for (HealthReport& report : reports) {
      if (found.size() < kMostWaiting) found.push_back(std::move(report));
    }
  } catch (const std::exception& error) {
    kept.failed = true;
    log_warning("{}: a part of this machine is not watched any more: {}", options.node, error.what());
  }
}

void MachineWatch::State::loop() {
  std::unique_lock lock(mutex);
  for (int64_t turn = 0; !ending; ++turn) {
    if (kernel != nullptr) kernel->ranks_run(processes);
    of_ranks->read(logs);
    lock.unlock();
    for (Kept& kept : sensors) {
      if (turn % kept.every == 0) look(kept);
    }
    if (!absent.empty()) log_info("{}: not seen on this machine: {}", options.node, fmt::join(absent, "; "));
    absent.clear();
    lock.lock();
    changed.wait_for(lock, std::chrono::duration<double>(kTurn_s), [&] { return ending; });
  }
}

MachineWatch::MachineWatch(MachineWatchOptions options)
    : state_(std::make_shared<State>(std::move(options))) {
  worker_.post([state = state_] { state->loop(); });
}

MachineWatch::~MachineWatch() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (!worker_.end())
    log_warning("{}: its watch of the machine hangs and is left behind", state_->options.node);
}

void MachineWatch::ranks_run(std::vector<int64_t> processes, std::vector<RankLog> logs) {
  const std::lock_guard lock(state_->mutex);
  state_->logs = std::move(logs);
  state_->processes = std::move(processes);
}

std::vector<HealthReport> MachineWatch::reports() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->found, {});
}

}  // namespace longhaul::control
