// Tables of what the ranks of a run hold and send. The table at the start of a run on several ranks is
// counted from the tensors that they made. The table of communication is counted from the calls of the first
// step, which are the same in every step (except checkpoints and evaluations), and is shown after that step.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "comm/wrappers/call_log.h"
#include "optim/outer/outer.h"
#include "parallel/ranks.h"

namespace longhaul::run {

// Numbers of one rank, in bytes except for `values`. Memory that exists only during the passes of a layer
// (parallel.zero) is not counted.
struct Holding {
  int64_t values = 0;  // parameters
  int64_t weights = 0, gradients = 0, optimizer = 0;
  int64_t summed =
      // gradients that it sums with the ranks that hold copies, once in a step; from stage 2 of parallel.zero
      // on, those of layers in each micro-batch
      0;
  int64_t planned = 0;  // at its fullest moment, for all purposes; 0: not planned
  bool operator==(const Holding&) const = default;
};

Holding holding_of(const model::ParameterSet& parameters, optim::Optimizer& optimizer,
                   const optim::OuterLoop* outer = nullptr);

// The holdings of all ranks, in their order. A collective call; one process returns its own.
std::vector<Holding> gather_holdings(const parallel::Ranks& ranks, const Holding& own);

// Ranks with equal holdings share one row. The mesh is that of each worker.
std::string rank_table(const layout::Mesh& mesh, const recipe::PipelineOptions& pipeline, int64_t layers,
                       const std::vector<Holding>& holdings, bool colours);

// The calls of a rank between two readings of its log, as JSON for sending; and the table of the calls of all
// ranks.
using Totals = std::map<std::pair<std::string, comm::CallKind>, comm::CallTotals>;
nlohmann::json calls_between(const Totals& before, const Totals& after);
std::string traffic_table(const std::vector<nlohmann::json>& ranks, int64_t step, bool colours);

}  // namespace longhaul::run
