// MemorySaver: the second stage of a checkpoint that is kept in the memory of the nodes
// (storage/node_tier.h). Every rank writes its files into its node's tier and the files are copied to the
// nodes that keep replicas (layout/replicas.h). Then the manifest is put on every node, and older
// checkpoints are removed. If a node is lost with all its ranks, some other node therefore still has a copy
// of each of its files. All of this runs in a thread while training continues; one save at a time.
//
// A save that fails changes nothing: the previous checkpoint stays, and the failure is reported through
// poll(). One trainer thread; all ranks make the same calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/machine/machine.h"
#include "base/threads/worker.h"
#include "checkpoint/disk/copy_out.h"
#include "checkpoint/memory_tier/node_disk.h"
#include "checkpoint/memory_tier/tier_nodes.h"
#include "layout/mesh.h"
#include "storage/manifest.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

struct MemorySaveResult {
  int64_t step = 0, bytes = 0;    // bytes that this rank wrote, without replicas
  double pause_milliseconds = 0;  // how long training was blocked
  double seconds = 0;             // until a run could resume from it
  double processor_seconds = 0;   // CPU time of the thread that writes during training
  std::optional<Error> failure;
};

struct MemorySaverOptions {
  std::string run;
  int64_t generation = 1;
  int64_t replicas = 1;
  double replica_bytes_per_second = 0;  // limit on the replica bytes that a rank sends; 0: no limit
  layout::Mesh mesh{};                  // decides which node keeps whose replica
  // of the machine's memory; the tier's own free space is looked at in addition
  std::function<int64_t()> available_bytes = available_memory_bytes;
  // The node's disk tier, to which its first rank offers committed checkpoints; must outlive the saver.
  NodeDisk* disk = nullptr;
};

class MemorySaver {
 public:
  // `group`: a communicator of all ranks that only this saver uses; null: one process. `nodes` must outlive
  // the saver.
  MemorySaver(storage::FileSystem& files, const TierNodes& nodes, MemorySaverOptions options,
              std::unique_ptr<comm::Communicator> group);
  ~MemorySaver();

  // Only after the result of the previous save was fetched.
  void save(int64_t step, std::shared_ptr<const Snapshot> snapshot, storage::Manifest manifest);
  bool idle() const { return worker_.idle(); }
  std::optional<MemorySaveResult> poll();  // the result of a save that has ended; never waits
  std::optional<MemorySaveResult> wait();
  void forget();  // no run will resume from here: removes everything of the run from this node's tier

 private:
  void write(const storage::SavedMoment& moment, const Snapshot& snapshot, storage::Manifest manifest);
  void give_up(const storage::SavedMoment& moment);
  void require_ours() const;
  void require_room(const Snapshot& snapshot) const;
  nlohmann::json moves_of(const std::vector<nlohmann::json>& reports) const;
  storage::NodeTier tier_of(int64_t node) const { return {files_, nodes_.tier_of(node), options_.run}; }

  storage::FileSystem& files_;
  const TierNodes& nodes_;
  MemorySaverOptions options_;
  Writers ranks_;
  storage::NodeTier tier_;  // of this rank's node
  std::vector<std::vector<int64_t>> holders_;
  std::unique_ptr<MemorySaveResult> under_way_;
  std::shared_ptr<const Snapshot> written_;
  Worker worker_{"memory tier"};  // last: its thread uses everything above
};

}  // namespace longhaul::checkpoint
