// Saver: saves training state on the disk without holding up training: what save() is given is a copy (copy_out.h), or it makes one and
// returns; a worker writes it under the commit protocol (storage/commit.h) and prunes old checkpoints. One save is under way at a time: the
// next one waits for it.
//
// Of several ranks each has a Saver, and all save the same steps. Each writes what it has to write (StateEntry::written_here) into files of
// its own in one folder, which all of them reach; when all have, rank 0 commits. A checkpoint is saved on all ranks or on none: where one
// fails, all are told of the same failure. What follows a commit (`latest`, retention) is rank 0's.
//
// A failed write never stops training: it is told through `on_result`, and the earlier checkpoints stay as they were. Where it failed for
// want of room, and checkpoints are not kept all of them, the older ones go, down to the newest that was read back whole (protected ones
// and those of retention.keep_every stay too), and the write is tried once more. A
// checkpoint that is committed stays committed: what fails after that is told beside it. One Saver, one trainer thread; on_result is
// called on that thread, from save(), poll() and wait().
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
  std::filesystem::path path;        // of the committed checkpoint
  double blocking_milliseconds = 0;  // how long it held up its caller
  double writing_seconds = 0;        // and went on beside training
  int64_t begin_ns = 0, end_ns = 0;  // of that
  std::optional<Error> failure;      // set: there is no such checkpoint, or (self_test) what is there does not read back
  std::vector<Error> afterwards;     // rank 0: what failed once it was committed: bringing `latest` up to date, removing old checkpoints
  // Rank 0: what was removed because the disk was full, before the write was tried again.
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
  // group: of all ranks, and this saver's alone (Communicator::split); null: one process.
  Saver(storage::FileSystem& files, SaverOptions options, std::unique_ptr<comm::Communicator> group = nullptr);
  ~Saver();

  // `manifest`: run_id, parent_step, data_position, recipe and environment filled in; those of rank 0 are saved.
  void save(int64_t step, Providers state, storage::Manifest manifest);
  void save(int64_t step, std::shared_ptr<const Snapshot> snapshot, storage::Manifest manifest);  // its state filled in too
  void poll();                                                         // tells of a save that has ended; never waits
  void wait();                                                         // until the last save is on the disk or has failed
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
  CopyOut copies_;               // of those that come without one
  storage::ReadBack read_back_;  // rank 0's
  std::unique_ptr<SaveResult> under_way_;
  std::shared_ptr<const Snapshot> written_;  // what is under way is made of
  std::optional<Error> last_failure_;
  Worker worker_{"checkpoint"};  // last: its thread uses everything above
};

}  // namespace longhaul::checkpoint
