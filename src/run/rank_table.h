// What the ranks of a run hold and say: counted in what they have made, the table with which a run on several ranks begins; counted in the calls of its
// first step, which are those of every other (checkpoints and evaluations apart), the table that stands behind it.
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

// Of one rank, in bytes but for `values`. What comes for the passes of a layer and goes (parallel.zero) is not counted.
struct Holding {
  int64_t values = 0;  // parameters
  int64_t weights = 0, gradients = 0, optimizer = 0;
  int64_t summed =
      0;  // gradients that it hands to the sum over ranks that hold copies, once a step; of layers from stage 2 of parallel.zero on for each micro-batch
  int64_t planned = 0;  // at its fullest moment, all purposes; 0: not planned
  bool operator==(const Holding&) const = default;
};

Holding holding_of(const model::ParameterSet& parameters, optim::Optimizer& optimizer, const optim::OuterLoop* outer = nullptr);

// Of all ranks, in their order. A collective call; in one process its own.
std::vector<Holding> gather_holdings(const parallel::Ranks& ranks, const Holding& own);

// Ranks that hold alike stand in one row. The mesh is that of each worker.
std::string rank_table(const layout::Mesh& mesh, const recipe::PipelineOptions& pipeline, int64_t layers,
                       const std::vector<Holding>& holdings, bool colours);

// What a rank has called between two looks at its log, as it travels; and the table of all ranks'.
using Totals = std::map<std::pair<std::string, comm::CallKind>, comm::CallTotals>;
nlohmann::json calls_between(const Totals& before, const Totals& after);
std::string traffic_table(const std::vector<nlohmann::json>& ranks, int64_t step, bool colours);

}  // namespace longhaul::run
