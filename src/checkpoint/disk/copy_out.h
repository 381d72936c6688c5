// CopyOut: stage one of a checkpoint: the state of a step into buffers on the host, from which it is written wherever it goes (disk, memory
// of nodes) while training goes on.
//
//   const auto snapshot = copies.take(tensors_of(state));   // returns at once; forward and backward passes may run
//   …
//   copies.settle();                                        // before the next update: the copy is whole
//
// What only an update changes (weights, states of the optimizer) is copied by a thread beside the next passes; what a task keeps of its
// own, which they may change, at once. On a GPU all of it is queued on the stream, ahead of what comes next. There are two sets of buffers,
// each allocated once: one may still be on its way to a slow disk while the next is taken. One trainer thread; a Snapshot is read from any
// thread, after wait().
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
  }                   // those that this rank writes; their views are the copies, contiguous
  void wait() const;  // until the copies are there
  int64_t bytes() const;
  double pause_milliseconds() const { return pause_milliseconds_; }  // how long the trainer stood still for it so far; its thread

 private:
  friend class CopyOut;
  std::vector<StateEntry> entries_;
  std::optional<Event> queued_;  // of a GPU
  std::atomic<bool> copied_ = true;
  double pause_milliseconds_ = 0;
};

enum class Changes { kInUpdates, kAnyTime };  // kAnyTime: all is copied before take() returns

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

// Into one file for each kind of state; the reports of what was written, for the coordinator.
nlohmann::json write_snapshot(storage::FileSystem& files, const Snapshot& snapshot, const std::filesystem::path& folder, int64_t rank,
                              int64_t ranks);

// The same of entries that are no copies: all of them, whoever writes them in a checkpoint, into files whose names begin with `prefix`.
nlohmann::json write_entries(storage::FileSystem& files, const std::vector<StateEntry>& entries, const std::filesystem::path& folder,
                             const std::string& prefix, int64_t rank, int64_t ranks);

// Any strides into dense bytes, in the calling thread alone.
void copy_dense(const Tensor& from, const Tensor& to);

}  // namespace longhaul::checkpoint
