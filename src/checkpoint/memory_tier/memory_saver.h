// MemorySaver: stage two of a checkpoint in the memory of the nodes (storage/node_tier.h): every rank writes its files into its node's
// tier, they are copied to the nodes that keep replicas (layout/replicas.h), then the manifest is put on every node, and what is older
// goes. A node that is lost, with all its ranks, then takes nothing along that no other node has. All of it in a thread beside training;
// one save at a time.
//
// A save that fails changes nothing: the one before it stays, and is told through poll(). One trainer thread, the same calls on all ranks.
#pragma once

#include <memory>
#include <optional>

#include "base/threads/worker.h"
#include "checkpoint/disk/copy_out.h"
#include "checkpoint/memory_tier/node_disk.h"
#include "checkpoint/memory_tier/tier_nodes.h"
#include "layout/mesh.h"
#include "storage/manifest.h"
#include "storage/node_tier.h"

namespace longhaul::checkpoint {

struct MemorySaveResult {
  int64_t step = 0, bytes = 0;    // of this rank, without replicas
  double pause_milliseconds = 0;  // how long training stood still
  double seconds = 0;             // until it could be gone on from
  double processor_seconds = 0;   // of the thread beside training that writes
  std::optional<Error> failure;
};

struct MemorySaverOptions {
  std::string run;
  int64_t generation = 1;
  int64_t replicas = 1;
  double replica_bytes_per_second = 0;  // that a rank sends of them; 0: as fast as it goes
  layout::Mesh mesh{};                  // for who keeps whose
  NodeDisk* disk = nullptr;             // of the node, which the first of its ranks offers what was committed; stays
};

class MemorySaver {
 public:
  // `group`: of all ranks, and this saver's alone; null: one process. `nodes` stays.
  MemorySaver(storage::FileSystem& files, const TierNodes& nodes, MemorySaverOptions options, std::unique_ptr<comm::Communicator> group);
  ~MemorySaver();

  void save(int64_t step, std::shared_ptr<const Snapshot> snapshot, storage::Manifest manifest);  // after the one before was fetched
  bool idle() const { return worker_.idle(); }
  std::optional<MemorySaveResult> poll();  // of a save that has ended; never waits
  std::optional<MemorySaveResult> wait();
  void forget();  // nobody will go on from here: all of the run goes from this node's tier

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
