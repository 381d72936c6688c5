// run_rank: one rank of a run from the task it makes to its last step. Rank 0 writes events.jsonl, the terminal, the pages and what lies beside
// the checkpoints; each of the others events/rank-N.jsonl. In one process it is the whole run.
#pragma once

#include "comm/wrappers/call_log.h"
#include "observe/events/event_log.h"
#include "run/batch_sharing.h"
#include "run/run.h"
#include "run/run_facts.h"

namespace longhaul::run {

// What the ranks of a process share.
struct RunStartUp {
  const RunRequest& request;
  const RunFacts& facts;
  std::filesystem::path cache;
  observe::EventWriter* events = nullptr;                   // in the process of rank 0
  std::vector<std::shared_ptr<data::BatchShare>> shares{};  // by replica, of ranks that are threads
  bool own_process = true;                                  // signals come to this rank, not to a thread beside it
  std::shared_ptr<comm::CallLog> calls = nullptr;           // of this rank; null: it is alone
};

// A collective call of all ranks.
train::Outcome run_rank(const RunStartUp& start, parallel::Ranks& ranks);

}  // namespace longhaul::run
