// SharedReads: of the ranks that need the same rectangle of the same tensor (replicas of a model) one reads it, and broadcasts it to the
// others: a start takes each byte from the disk once, however many replicas there are. Which one reads follows from a hash, so that all of
// them have their part.
//
// All ranks of the group make the same calls. One process reads everything itself.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/state.h"
#include "comm/communicator.h"

namespace longhaul::checkpoint {

class SharedReads {
 public:
  SharedReads(comm::Communicator* group, const std::vector<StateEntry>& entries);  // a collective call; null: one process

  // `read` fills the view of an entry; it is called for those that fall to this rank. Then all views are filled. What `read` throws ends it
  // on every rank: there as it is, on the others with an error (kCheckpoint) that says so.
  void run(const std::function<void(const StateEntry&)>& read) const;
  int64_t read_here() const;  // how many entries fall to this rank

 private:
  struct Shared {
    size_t entry = 0;
    comm::Communicator* ranks = nullptr;  // that need it
    int64_t reader = 0;                   // one of them
  };
  comm::Communicator* group_;
  const std::vector<StateEntry>& entries_;
  std::vector<std::unique_ptr<comm::Communicator>> groups_;
  std::vector<size_t> alone_;   // entries that nobody else needs
  std::vector<Shared> shared_;  // in one order on all ranks
};

}  // namespace longhaul::checkpoint
