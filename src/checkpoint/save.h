// Saver: saves training state without holding up training: save() copies the state into buffers of its own (of a GPU's memory: queues
// the copies, ahead of the next step's work) and returns; a worker writes them under the commit protocol (storage/commit.h) and prunes old checkpoints. One save is under way at a time: the
// next one waits for it.
//
// A failed write (full disk) never stops training: it is told through `on_result`, and the earlier checkpoints stay as they were. A
// checkpoint that is committed stays committed: what fails after that is told beside it. One Saver, one trainer thread; on_result is
// called on that thread, from save(), poll() and wait().
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/worker.h"
#include "optim/optimizer.h"
#include "storage/commit.h"
#include "storage/file_system.h"
#include "storage/manifest.h"
#include "storage/retention.h"
#include "tensor/device.h"

namespace longhaul::checkpoint {

struct SaveResult {
  int64_t step = 0;
  std::filesystem::path path;        // of the committed checkpoint
  double blocking_milliseconds = 0;  // how long save() held up its caller
  std::optional<Error> failure;      // set: there is no such checkpoint, or (self_test) what is there does not read back
  std::vector<Error> afterwards;     // what failed once it was committed: bringing `latest` up to date, removing old checkpoints
};

struct SaverOptions {
  std::filesystem::path folder;  // run/checkpoints
  int64_t generation = 1;
  storage::RetentionPolicy retention;
  bool self_test = false;  // read every byte back and compare
  std::function<void(const SaveResult&)> on_result;
};

class Saver {
 public:
  Saver(storage::FileSystem& files, SaverOptions options);
  ~Saver();

  // `manifest`: run_id, parent_step, data_position, recipe, environment and state filled in.
  void save(int64_t step, const std::vector<optim::StateTensor>& state, storage::Manifest manifest);
  void poll();                                                         // tells of a save that has ended; never waits
  void wait();                                                         // until the last save is on the disk or has failed
  std::optional<Error> last_failure() const { return last_failure_; }  // of the newest finished save

 private:
  struct Buffer {
    Tensor copy;
    std::string name, role;
    std::vector<int64_t> shape, offset, length;
  };
  void copy(const std::vector<optim::StateTensor>& state);
  void write(SaveResult& result, storage::Manifest manifest);
  void keep_house(SaveResult& result, storage::CheckpointWriter& writer);

  storage::FileSystem& files_;
  SaverOptions options_;
  std::vector<Buffer> buffers_;
  storage::VerifiedPaths verified_;
  std::optional<Event> copied_;  // reached when the buffers hold the state
  std::unique_ptr<SaveResult> under_way_;
  std::optional<Error> last_failure_;
  Worker worker_{"checkpoint"};  // last: its thread uses everything above
};

}  // namespace longhaul::checkpoint
