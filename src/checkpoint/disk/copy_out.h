// CopyOut: the first stage of a checkpoint. It copies the state of a step into host buffers; from these
// buffers the state is written to its destination (the disk, the memory of nodes) while training continues.
//
//   const auto snapshot = copies.take(tensors_of(state));   // returns at once; forward and backward passes
//                                                           may run
//   …
//   copies.settle();                                        // before the next update: waits until the copy
//                                                           is complete
//
// State that only an update changes (weights, optimizer state) is copied by a thread during the next
// passes. State that a task keeps, which passes may change, is copied before take() returns. On a GPU all
// copies are queued on the stream ahead of the next passes. There are two sets of buffers, each allocated
// once: while one is still being written to a slow disk, the next snapshot can be taken.
// Threads: one trainer thread calls CopyOut; any thread may read a Snapshot after wait().
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/threads/worker.h"
#include "checkpoint/state.h"
#include "storage/file_system.h"
#include "tensor/device.h"

namespace longhaul::checkpoint {

class Snapshot {
 public:
  const std::vector<StateEntry>& entries() const {
    return entries_;
  }                   // the entries that this rank writes; their views are the copies, contiguous
  void wait() const;  // until the copies are complete
  int64_t bytes() const;
  // How long it has blocked the trainer so far; call it on the trainer's thread.
  double pause_milliseconds() const { return pause_milliseconds_; }

 private:
  friend class CopyOut;
  std::vector<StateEntry> entries_;
  std::optional<Event> queued_;  // on a GPU: after the queued copies
  std::atomic<bool> copied_ = true;
  double pause_milliseconds_ = 0;
};

enum class Changes { kInUpdates, kAnyTime };  // kAnyTime: everything is copied before take() returns

class CopyOut {
 public:
  std::shared_ptr<const Snapshot> take(std::vector<StateEntry> entries, Changes changes = Changes::kAnyTime);
  void settle();

 private:
  std::shared_ptr<Snapshot> free_buffers();

  std::array<std::shared_ptr<Snapshot>, 2> buffers_;
  std::shared_ptr<Snapshot> newest_;  // while it is being copied
  Worker worker_{"copy-out"};         // last: its thread uses what is above
};

// Writes the snapshot into one file for each kind of state. Returns the reports of what was written, for
// the coordinator.
nlohmann::json write_snapshot(storage::FileSystem& files, const Snapshot& snapshot,
                              const std::filesystem::path& folder, int64_t rank, int64_t ranks);

// The same for entries that are not copies: writes all of them, whichever rank would write them in a
// checkpoint, into files whose names begin with `prefix`.
nlohmann::json write_entries(storage::FileSystem& files, const std::vector<StateEntry>& entries,
                             const std::filesystem::path& folder, const std::string& prefix, int64_t rank,
                             int64_t ranks);

// Copies a tensor with any strides into dense bytes, on the calling thread alone.
void copy_dense(const Tensor& from, const Tensor& to);

}  // namespace longhaul::checkpoint
