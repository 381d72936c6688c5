// Measures how much communication is hidden by computing: two ranks that are threads, real matrix products,
// and a link of a chosen speed (comm::Delayed, whose thread keeps time while the ranks compute). Delays are
// set relative to the computing time measured just before.
//
//   data parallel     Copies in shares (ZeRO 1), v model chunks. Of 2 v collectives, 1/(2v) is exposed (the
//                     last sum) if the first values are gathered while a batch is prepared, and 2/(2v) if
//                     preparation comes first (MegaScale, arXiv 2402.15627 §3.1). If weights are in shares
//                     too (ZeRO 3), there are 3 v collectives: the last chunk's values come twice in a row.
//   pipeline          Delays of messages during the passes; the expectation comes from the simulator of the
//                     same lists (layout/schedule/schedule_check.h). Interleaved: only filling and draining
//                     grow until a delay exceeds a chunk's forward pass; with one chunk, until it exceeds a
//                     whole one. 1F1B has no spare pass and grows with every micro-batch, both by itself
//                     and with coupled sends and receives (coupled_transfers.h).
//   steady state      The time of one more micro-batch: the difference between steps of 8 and of 16,
//                     relative to that without delay. Without growth it is 1.
//   tensor parallel   A channel mixer in N parts: the longer of computing and communication, plus 1/N of
//                     the shorter (§3.3).
//   context parallel  A recurrence whose states are gathered, forward and backward, in zig-zag. A delay
//                     that is shorter than folding half of the heads is fully exposed if the states of
//                     all heads are sent at once, and not at all if they are sent in halves (cf. LASP-2,
//                     arXiv 2502.07563).
//   expert pairs      Forward and backward passes of two expert ranks in pairs
//                     (docs/sources/moe-parallel-folding.md §3.6 (b)): the transfer of rows to experts and
//                     back is exposed if one pass runs after the other, and hidden if they alternate.
//
// All figures are of rank 0's fastest repetition (context parallel: of rank 1, whose pieces all wait for
// others), from a trace of its calls: the rank is idle while it awaits a call, and busy between. Exposed
// shares are differences of medians.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/ranks/traced_steps.h"
#include "observe/table.h"

namespace longhaul::bench {

struct OverlapRow {
  std::string section, setting;
  double compute_s = 0;  // the step without delay
  // Pipeline, steady state: of a message; in the others of all calls one after the other.
  double communication_s = 0;
  TracedStep step;
  // data, context parallel, expert pairs: the exposed share of communication. pipeline: the step relative
  // to that without delay; steady state: a micro-batch likewise. tensor parallel: the step relative to the
  // longer of both.
  double measured = 0, expected = 0;
};

struct OverlapSizes {  // pipeline: half as many tokens in a micro-batch; tensor parallel: twice both sizes
  int64_t tokens = 256, hidden = 256, repetitions = 5;
};
std::vector<OverlapRow> measure_overlap(const OverlapSizes& sizes = {});

nlohmann::ordered_json to_json(const OverlapRow& row);
observe::Table table_of(const std::vector<OverlapRow>& rows);

}  // namespace longhaul::bench
