#include "checkpoint/memory_tier/node_disk.h"

#include "base/log.h"
#include "base/process/fault_point.h"
#include "base/threads/background_work.h"

namespace longhaul::checkpoint {

using storage::NodeTier;
using storage::SavedMoment;

namespace {

// Of those that were committed; −1: none.
SavedMoment newest(const NodeTier& tier) {
  for (const NodeTier::Held& held : tier.held()) {
    if (!held.manifest.empty()) return held.moment;
  }
  return {};
}

int64_t bytes_of(const NodeTier& tier, const SavedMoment& moment) {
  for (const NodeTier::Held& held : tier.held()) {
    if (held.moment != moment) continue;
    int64_t bytes = 0;
    for (const auto& [name, size] : held.files) bytes += size;
    return bytes;
  }
  return 0;
}

}  // namespace

NodeDisk::NodeDisk(storage::FileSystem& files, const std::filesystem::path& disk,
                   const std::filesystem::path& memory, const std::string& run, double every_s)
    : disk_(files, disk, run), memory_(files, memory, run), every_s_(every_s) {}

NodeDisk::~NodeDisk() {
  try {
    worker_.wait();
  } catch (const std::exception& error) {
    log_error("the last checkpoint was not kept on this node's disk: {}", error.what());
  }
}

void NodeDisk::refill() {
  try {
    const SavedMoment here = newest(disk_);
    if (here.step < 0 || here <= newest(memory_)) return;
    disk_.copy(here, memory_);
    log_info("the node's disk has step {}, which its memory has not: copied there", here.step);
  } catch (const Error& error) {
    log_warning("what this node's disk has of the run is not looked at: {}", error.what());
  }
}

void NodeDisk::offer(const SavedMoment& moment) {
  if (!worker_.idle() || (since_last_ && since_last_->seconds() < every_s_)) return;
  since_last_.emplace();
  {
    const std::lock_guard lock(mutex_);
    reading_ = moment;
  }
  worker_.post([this, moment] { keep(moment); });
}

void NodeDisk::keep(const SavedMoment& moment) {
  try {
    const BackgroundTask task("keep on the node's disk", seconds_to_move(bytes_of(memory_, moment)));
    fault_point("node_disk.copy", moment.step);
    memory_.copy(moment, disk_);
    disk_.remove_before(moment);
    told_ = false;
  } catch (const Error& error) {
    if (!std::exchange(told_, true))
      log_warning("checkpoints are not kept on this node's disk: {}", error.what());
    try {
      disk_.remove_unfinished(moment);
    } catch (const Error&) {
      // What is left of it has no manifest, so nobody goes on from it.
    }
  }
  const std::lock_guard lock(mutex_);
  reading_.reset();
}

std::optional<SavedMoment> NodeDisk::reading() const {
  const std::lock_guard lock(mutex_);
  return reading_;
}

void NodeDisk::wait() { worker_.wait(); }

void NodeDisk::forget() {
  worker_.wait();
  disk_.remove_run();
}

}  // namespace longhaul::checkpoint
