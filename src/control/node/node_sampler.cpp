#include "control/node/node_sampler.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace longhaul::control {
namespace {

constexpr double kRetryOpening_s = 60;

}  // namespace

struct NodeSampler::State {
  explicit State(NodeSamplerOptions given) : options(std::move(given)) {}

  void loop();
  void begin();
  void sample(const std::vector<int64_t>& running);
  void finish();
  void failed(const std::exception& error);

  NodeSamplerOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<int64_t> processes;
  std::map<std::string, double> last;
  bool ending = false;
  // Only the thread uses these.
  std::optional<detect::SampleRingWriter> ring;
  std::optional<detect::MachineSampler> sampler;
  double next_try_s = 0;
  bool warned = false;
};

void NodeSampler::State::loop() {
  std::unique_lock lock(mutex);
  while (!ending) {
    if (processes.empty()) {
      lock.unlock();
      finish();
      lock.lock();
      changed.wait(lock, [&] { return !processes.empty() || ending; });
      continue;
    }
    lock.unlock();
    begin();
    lock.lock();
    // The same time on all machines whose clocks agree; at least half a second from now, so that no second
    // comes twice.
    const double now_s = wall_time_s(), next_s = std::floor(now_s + 0.5) + 1;
    changed.wait_for(lock, std::chrono::duration<double>(next_s - now_s),
                     [&] { return processes.empty() || ending; });
    if (processes.empty() || ending) continue;
    const std::vector<int64_t> running = processes;
    lock.unlock();
    sample(running);
    lock.lock();
  }
  lock.unlock();
  finish();
}

void NodeSampler::State::begin() {
  if (ring || wall_time_s() < next_try_s) return;
  try {
    ring = detect::SampleRingWriter::open(options.folder / (options.owner.node + ".ring"), options.owner);
    sampler.emplace(options.files);
  } catch (const std::exception& error) {
    failed(error);
  }
}

// The first sample after the ranks' start has no rates yet.
void NodeSampler::State::sample(const std::vector<int64_t>& running) {
  if (!ring) return;
  try {
    const double time_s = wall_time_s();
    const detect::SampleValues values = options.owner.ranks_alone ? sampler->next(running) : sampler->next();
    ring->write(time_s, values);
    std::map<std::string, double> named;
    for (size_t metric = 0; metric < values.size(); ++metric) {
      if (!std::isnan(values[metric]))
        named[std::string(detect::metrics()[metric].name)] = static_cast<double>(values[metric]);
    }
    const std::lock_guard lock(mutex);
    last = std::move(named);
  } catch (const std::exception& error) {
    failed(error);
  }
}

void NodeSampler::State::finish() {
  {
    const std::lock_guard lock(mutex);
    last.clear();
  }
  if (!ring) return;
  try {
    ring->end(wall_time_s());
    ring->close();
  } catch (const std::exception& error) {
    failed(error);
  }
  ring.reset();
  sampler.reset();
}

void NodeSampler::State::failed(const std::exception& error) {
  if (!warned) log_warning("{}: no samples of this machine are kept: {}", options.owner.node, error.what());
  warned = true;
  ring.reset();
  sampler.reset();
  next_try_s = wall_time_s() + kRetryOpening_s;
}

NodeSampler::NodeSampler(NodeSamplerOptions options) : state_(std::make_shared<State>(std::move(options))) {
  worker_.post([state = state_] { state->loop(); });
}

NodeSampler::~NodeSampler() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (!worker_.end())
    log_warning("{}: its thread of samples hangs and is left behind", state_->options.owner.node);
}

void NodeSampler::ranks_run(std::vector<int64_t> processes) {
  {
    const std::lock_guard lock(state_->mutex);
    const bool begins_or_ends = state_->processes.empty() != processes.empty();
    state_->processes = std::move(processes);
    if (!begins_or_ends) return;
  }
  state_->changed.notify_all();
}

std::map<std::string, double> NodeSampler::last() const {
  const std::lock_guard lock(state_->mutex);
  return state_->last;
}

}  // namespace longhaul::control
