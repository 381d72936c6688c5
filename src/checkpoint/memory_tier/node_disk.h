// NodeDisk: what a node's memory tier holds of a run's newest checkpoint, once more on a disk of the node's own. It outlives a restart of the machine, which
// memory does not, and asks nothing of the disk that all share. LONGHAUL_NODE_DISK names the folder; nodes have folders of their own in it.
//
//   offer    beside training a thread copies a checkpoint that is committed in memory: its files, synced, then its manifest; then older ones go.
//            Not more often than every `every_s`; memory keeps the checkpoint until it has been copied (reading).
//   refill   at a start, what is newer here than in memory is copied back, and recovery goes on from memory as always (memory_recovery.h):
//            it compares every byte with the manifest's checksums, so nothing is believed here.
//
// A copy that fails is told once in the log, and training goes on. One thread offers; the object's own copies.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/threads/worker.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

class NodeDisk {
 public:
  static constexpr double kEvery_s = 60;

  // disk, memory: the folders of this node.
  NodeDisk(storage::FileSystem& files, const std::filesystem::path& disk, const std::filesystem::path& memory, const std::string& run,
           double every_s = kEvery_s);
  ~NodeDisk();

  void refill();
  void offer(const storage::SavedMoment& moment);  // never waits
  std::optional<storage::SavedMoment> reading() const;
  void wait();    // until what was offered is there
  void forget();  // all of the run goes

 private:
  void keep(const storage::SavedMoment& moment);

  storage::NodeTier disk_, memory_;
  double every_s_;
  std::optional<Stopwatch> since_last_;
  mutable std::mutex mutex_;
  std::optional<storage::SavedMoment> reading_;
  bool told_ = false;
  Worker worker_{"node disk"};  // last: its thread uses everything above
};

}  // namespace longhaul::checkpoint
