// NodeDisk: a second copy, on the node's own disk, of what a node's memory tier holds of a run's newest
// checkpoint. It survives a restart of the machine, which memory does not, and puts no load on the disk
// that all nodes share. LONGHAUL_NODE_DISK names the folder; each node has a folder of its own in it.
//
//   offer    During training, a thread copies a checkpoint that is committed in memory: first its files,
//            synced, then its manifest; then older copies are removed. It copies at most once every
//            `every_s` seconds; memory keeps the checkpoint until it has been copied (reading).
//   refill   At a start, a checkpoint that is newer here than in memory is copied back into memory.
//            Recovery then works from memory as always (memory_recovery.h): it compares every byte with the
//            checksums of the manifest, so a damaged copy is found there.
//
// A copy that fails is logged once, and training continues. One thread calls offer; the object copies in a
// thread of its own.
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

  // disk, memory: this node's folders.
  NodeDisk(storage::FileSystem& files, const std::filesystem::path& disk, const std::filesystem::path& memory,
           const std::string& run, double every_s = kEvery_s);
  ~NodeDisk();

  void refill();
  void offer(const storage::SavedMoment& moment);  // never waits
  std::optional<storage::SavedMoment> reading() const;
  void wait();    // until the offered checkpoint has been copied
  void forget();  // removes everything of the run

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
