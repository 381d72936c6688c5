// run_rank: one rank of a run, from making its task to its last step. Rank 0 writes events.jsonl, the
// terminal, the pages and the files beside the checkpoints; each other rank writes events/rank-N.jsonl. In
// one process it is the whole run.
#pragma once

#include "comm/wrappers/call_log.h"
#include "observe/events/event_log.h"
#include "run/batch_sharing.h"
#include "run/run.h"
#include "run/run_facts.h"

namespace longhaul::run {

// Data that the ranks of a process share.
struct RunStartUp {
  const RunRequest& request;
  const RunFacts& facts;
  std::filesystem::path cache;
  observe::EventWriter* events = nullptr;  // in the process of rank 0
  // one for each replica, for ranks that are threads
  std::vector<std::shared_ptr<data::BatchShare>> shares{};
  // true: signals reach this rank; false: another thread of the process handles them
  bool own_process = true;
  std::shared_ptr<comm::CallLog> calls = nullptr;  // the calls of this rank; null: there is one rank
};

// A collective call of all ranks.
train::Outcome run_rank(const RunStartUp& start, parallel::Ranks& ranks);

}  // namespace longhaul::run
