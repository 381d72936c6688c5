// DriverService: machines that differ from their peers in their own samples (minder_watch.h). They are
// reported like stragglers, and replaced like them if that was requested.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "base/log.h"
#include "control/driver/driver_service.h"

namespace longhaul::control {
namespace {

constexpr double kFetch_s = 5, kLook_s = 60;

}  // namespace

void DriverService::begin_minder() {
  if (!options_.minder) return;
  minder_ = std::make_unique<MinderWatch>(*options_.minder);
  loop_.every(kLook_s, [this] {
    if (core_->state() == State::kTrain) minder_->look(minder_peers());
  });
  loop_.every(kFetch_s, [this] {
    for (const MinderAlert& alert : minder_->alerts()) on_minder(alert);
  });
}

// Nodes whose ranks are of the same stages of the pipeline do the same work.
std::vector<MinderPeer> DriverService::minder_peers() const {
  const Ledger& ledger = core_->ledger();
  std::vector<MinderPeer> peers;
  for (const NodeRanks& node : ledger.placement) {
    const auto known = ledger.nodes.find(node.node);
    if (known == ledger.nodes.end()) continue;
    std::set<int64_t> stages;
    for (const int64_t rank : node.ranks) stages.insert(stage_of(options_.plan, rank, ledger.world));
    peers.push_back(
        {.node = node.node,
         .host = known->second.host,
         .likes = fmt::format("{} ranks of stage {}", node.ranks.size(), fmt::join(stages, ", "))});
  }
  return peers;
}

void DriverService::on_minder(const MinderAlert& alert) {
  log_warning("driver: {}: {}", alert.node, alert.text);
  events_->write(observe::Alarm{
      .kind = "minder", .message = fmt::format("{}: {}", alert.node, alert.text), .metric = alert.metric});
  if (!options_.replace_slow) return;
  feed(Suspected{.report = {.kind = "slow", .device = alert.metric, .text = alert.text}, .node = alert.node});
}

}  // namespace longhaul::control
