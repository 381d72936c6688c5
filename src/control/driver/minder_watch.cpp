#include "control/driver/minder_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "detect/minder/follow.h"

namespace longhaul::control {
namespace {

// In classes with at least so many machines two metrics must agree, or one must show it for twice as long,
// because an alarm may evict a node.
constexpr int64_t kAgreementFrom = 1;

bool is_machine_of(const std::string& machine, const MinderPeer& peer) {
  return machine == peer.host || machine == peer.host + "/" + peer.node;
}

// Only for nodes that train now, in classes of those that do the same work, unless the run's own machines.csv
// says which are peers.
void set_classes(detect::Pull& pull, const std::vector<MinderPeer>& peers) {
  if (pull.classes.size() > 1) return;
  pull.classes.clear();
  pull.class_of.assign(pull.machines.size(), 0);
  for (size_t m = 0; m < pull.machines.size(); ++m) {
    const auto peer = std::ranges::find_if(
        peers, [&](const MinderPeer& one) { return is_machine_of(pull.machines[m], one); });
    const std::string likes = peer == peers.end() ? "without ranks" : peer->likes;
    const auto known = std::ranges::find(pull.classes, likes);
    pull.class_of[m] = static_cast<int32_t>(known - pull.classes.begin());
    if (known == pull.classes.end()) pull.classes.push_back(likes);
  }
}

}  // namespace

struct MinderWatch::State {
  explicit State(MinderOptions given);
  void look();

  MinderOptions options;
  std::vector<MinderPeer> peers;  // of the current look
  std::mutex mutex;
  std::vector<MinderAlert> found;
  bool busy = false;
  // Only the thread uses these.
  detect::Follower follower;
  std::set<std::string> said;
};

MinderWatch::State::State(MinderOptions given)
    : options(std::move(given)),
      follower(options.models, {.variant = options.variant, .agreement_from = kAgreementFrom},
               [this](std::optional<double> from_s) {
                 detect::RunTime time{.now_s = wall_time_s()};
                 time.seconds = detect::DetectOptions().pull_s;
                 if (from_s)
                   time.seconds = std::clamp<int64_t>(static_cast<int64_t>(time.now_s - *from_s) + 1, 1,
                                                      detect::kRingSeconds);
                 detect::RunSamples samples = detect::read_run_samples(
                     options.run_folder, options.models.metrics, {.limits = options.models.limits}, time);
                 set_classes(samples.pull, peers);
                 return samples;
               }) {}

void MinderWatch::State::look() {
  std::vector<MinderAlert> alerts;
  const auto say = [&](const std::string& why) {
    if (said.insert(why).second) log_line(LogLevel::kDebug, "driver: samples are not compared: " + why);
  };
  try {
    const detect::Follower::News news = follower.more();
    for (const std::string& remark : news.remarks) say(remark);
    for (const detect::Alert& alert : news.alerts) {
      if (alert.metric == detect::kNoData) continue;  // silent nodes are known from heartbeats
      const auto peer = std::ranges::find_if(
          peers, [&](const MinderPeer& one) { return is_machine_of(alert.machine, one); });
      if (peer == peers.end()) continue;
      alerts.push_back(
          {.node = peer->node,
           .metric = alert.metric,
           .text = fmt::format("its {} has stood apart from that of its like for {:.0f} s (score {:.2f})",
                               alert.metric, alert.raised_s - alert.first_s, alert.score)});
    }
  } catch (const std::exception& error) {
    const Error* own = dynamic_cast<const Error*>(&error);
    say(own != nullptr ? own->fields().what + ": " + own->fields().found : error.what());
  }
  const std::lock_guard lock(mutex);
  found.insert(found.end(), alerts.begin(), alerts.end());
  busy = false;
}

MinderWatch::MinderWatch(MinderOptions options) : state_(std::make_shared<State>(std::move(options))) {}

// A file system that hangs does not keep the driver: worker_ is left behind with a look that does not end.
MinderWatch::~MinderWatch() = default;

void MinderWatch::look(std::vector<MinderPeer> peers) {
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->busy, true)) return;
    state_->peers = std::move(peers);
  }
  worker_.post([state = state_] { state->look(); });
}

std::vector<MinderAlert> MinderWatch::alerts() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->found, {});
}

bool MinderWatch::idle() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->busy;
}

}  // namespace longhaul::control
