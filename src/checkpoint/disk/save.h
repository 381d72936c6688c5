// Saver: saves training state to disk without blocking training. save() takes a copy of the state
// (copy_out.h), or makes one, and returns; a worker thread writes it under the commit protocol
// (storage/commit.h) and prunes old checkpoints. Only one save is in progress at a time: the next save
// waits for it.
//
// With several ranks, each rank has a Saver and all save the same steps. Each rank writes its part
// (StateEntry::written_here) into its own files in one folder that all ranks can reach; when all have
// finished, rank 0 commits. A checkpoint is saved on all ranks or on none: a failure on one rank is
// reported as the same failure on all. Rank 0 alone does what follows a commit (`latest`, retention).
//
// A failed write never stops training: it is reported through `on_result`, and earlier checkpoints stay
// unchanged. If the write failed because the disk is full, and the retention policy does not keep every
// checkpoint, older checkpoints are removed, down to the newest one that was read back completely
// (protected ones and those of retention.keep_every stay too), and the write is tried once more. A
// checkpoint that is committed stays committed: a later failure is reported in addition.
// Threads: one trainer thread for each Saver. on_result is called on that thread, from save(), poll() and
// wait().
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/threads/worker.h"
#include "checkpoint/disk/copy_out.h"
#include "checkpoint/disk/writers.h"
#include "checkpoint/state.h"
#include "storage/commit.h"
#include "storage/file_system.h"
#include "storage/manifest.h"
#include "storage/retention.h"

namespace longhaul::checkpoint {

struct SaveResult {
  int64_t step = 0;
  std::filesystem::path path;        // path of the committed checkpoint
  double blocking_milliseconds = 0;  // how long save() blocked its caller
  double writing_seconds = 0;        // how long writing took while training continued
  int64_t begin_ns = 0, end_ns = 0;  // begin and end of the writing
  int64_t bytes = 0;                 // rank 0: of all ranks' files
  // set: the checkpoint does not exist, or (self_test) it cannot be read back.
  std::optional<Error> failure;
  // Rank 0: failures after the commit: updating `latest`, removing old checkpoints.
  std::vector<Error> afterwards;
  // Rank 0: the checkpoints that were removed because the disk was full, before the write was tried again.
  std::vector<std::filesystem::path> removed_for_room;
};

struct SaverOptions {
  std::filesystem::path folder;  // run/checkpoints
  int64_t generation = 1;        // the same on all ranks
  storage::RetentionPolicy retention;
  bool self_test = false;  // read every byte back and compare
  std::function<void(const SaveResult&)> on_result;
};

class Saver {
 public:
  // group: a communicator of all ranks that only this saver uses (Communicator::split); null: one process.
  Saver(storage::FileSystem& files, SaverOptions options,
        std::unique_ptr<comm::Communicator> group = nullptr);
  ~Saver();

  // `manifest`: the caller has filled in run_id, parent_step, data_position, recipe and environment; rank
  // 0's are saved.
  void save(int64_t step, Providers state, storage::Manifest manifest);
  // Here the caller has filled in `state` too.
  void save(int64_t step, std::shared_ptr<const Snapshot> snapshot, storage::Manifest manifest);
  // Reports a save that has ended; never waits.
  void poll();
  // until the last save is on the disk or has failed
  void wait();
  std::optional<Error> last_failure() const { return last_failure_; }  // of the newest finished save

 private:
  void write_with_room(SaveResult& result, const Snapshot& snapshot, storage::Manifest manifest);
  void write(SaveResult& result, const Snapshot& snapshot, storage::Manifest manifest);
  bool make_room(SaveResult& result);  // whether anything was removed
  void read_back_before_pruning(const storage::RetentionPolicy& policy);
  std::vector<std::filesystem::path> prune(const storage::RetentionPolicy& policy);
  void keep_house(SaveResult& result, storage::CheckpointWriter* writer);

  storage::FileSystem& files_;
  SaverOptions options_;
  Writers writers_;
  CopyOut copies_;               // for saves that come without a snapshot
  storage::ReadBack read_back_;  // rank 0's
  std::unique_ptr<SaveResult> under_way_;
  std::shared_ptr<const Snapshot> written_;  // the snapshot that is being written
  std::optional<Error> last_failure_;
  Worker worker_{"checkpoint"};  // last: its thread uses everything above
};

}  // namespace longhaul::checkpoint
