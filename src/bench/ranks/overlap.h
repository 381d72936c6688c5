// What communication hides behind computing: two ranks that are threads, real products, and a link that takes as long as wanted (comm::Delayed, whose
// thread keeps time while the ranks compute). Delays are set by the computing measured just before.
//
//   data parallel     copies in shares (ZeRO 1), v model chunks: of 2 v collectives the last sum is exposed, 1/(2v) of them, where the first values are
//                     gathered while a batch is made ready; 2/(2v) where that comes first (MegaScale, arXiv 2402.15627 §3.1). With weights in
//                     shares too (ZeRO 3) of 3 v: the last chunk's values come twice in a row
//   pipeline          delays of messages beside the passes; by the simulator of the same lists (layout/schedule/schedule_check.h). Interleaved: only filling
//                     and draining grow until a delay exceeds a chunk's forward pass; with one chunk until it exceeds a whole one; 1F1B has no
//                     pass to spare and grows with every micro-batch, by itself and with coupled sends and receives (coupled_transfers.h)
//   steady state      what a micro-batch more takes: the difference of steps of 8 and of 16, over the one without delay. Flat: 1
//   tensor parallel   a channel mixer in N parts: the longer of computing and communication, and 1/N of the shorter (§3.3)
//   context parallel  a recurrence whose states are gathered, forward and backward, in zig-zag: a delay that is shorter than half of the heads take to be
//                     folded is exposed whole where all heads' states go at once, and not at all where they go in halves (cf. LASP-2, arXiv 2502.07563)
//   expert pairs      forward and backward passes of two expert ranks in pairs (docs/sources/moe-parallel-folding.md §3.6 (b)): rows that go to experts and back are
//                     exposed where one pass runs behind the other, and hidden where they take turns
//
// All figures are of rank 0's fastest repetition (context parallel: of rank 1, whose pieces all wait for others), from a trace of its calls: it is idle
// where it awaits one, busy between. Exposed shares are differences of medians.
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
  double compute_s = 0;        // the step without delay
  double communication_s = 0;  // pipeline, steady state: of a message; else of all calls one after the other
  TracedStep step;
  // data, context parallel, expert pairs: exposed share of communication. pipeline: step over that without delay; steady state: a micro-batch likewise. tensor
  // parallel: step over the longer of both.
  double measured = 0, expected = 0;
};

struct OverlapSizes {  // pipeline: half of the tokens a micro-batch; tensor parallel: twice of both
  int64_t tokens = 256, hidden = 256, repetitions = 5;
};
std::vector<OverlapRow> measure_overlap(const OverlapSizes& sizes = {});

nlohmann::ordered_json to_json(const OverlapRow& row);
observe::Table table_of(const std::vector<OverlapRow>& rows);

}  // namespace longhaul::bench
