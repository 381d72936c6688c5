// SharedReads: when several ranks need the same rectangle of the same tensor (replicas of a model), one of
// them reads it and broadcasts it to the others. A start therefore reads each byte from the disk once,
// however many replicas there are. A hash chooses the reader, so that the reads are spread over all ranks.
//
// All ranks of the group must make the same calls. A single process reads everything itself.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/state.h"
#include "comm/communicator.h"

namespace longhaul::checkpoint {

class SharedReads {
 public:
  // a collective call; null: one process
  SharedReads(comm::Communicator* group, const std::vector<StateEntry>& entries);

  // Calls `read`, which fills the view of an entry, for the entries that this rank reads. On return the
  // views of all entries are filled. If `read` throws, every rank stops: that rank throws the same
  // exception, the others throw an error (kCheckpoint) that says so.
  void run(const std::function<void(const StateEntry&)>& read) const;
  int64_t read_here() const;  // how many entries this rank reads

 private:
  struct Shared {
    size_t entry = 0;
    comm::Communicator* ranks = nullptr;  // the ranks that need it
    int64_t reader = 0;                   // one of them
  };
  comm::Communicator* group_;
  const std::vector<StateEntry>& entries_;
  std::vector<std::unique_ptr<comm::Communicator>> groups_;
  std::vector<size_t> alone_;   // entries that no other rank needs
  std::vector<Shared> shared_;  // in the same order on all ranks
};

}  // namespace longhaul::checkpoint
