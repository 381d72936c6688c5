// Schedule: what the ranks of a pipeline do, as data: a list of actions a rank, which the executor walks (parallel/pipeline/pipeline.h), simulate() times
// and flaw_of() proves (schedule_check.h). Sources: GPipe arXiv 1811.06965, 1F1B and interleaved arXiv 2104.04473, zero-bubble arXiv 2401.10241,
// ZBV arXiv 2405.15362, DualPipe arXiv 2412.19437; orders as in docs/sources/megascale.md §10.
//
// The generators give passes; with_transfers() puts sends and receives between them, by three rules: the receive of what a pass needs starts
// before the pass in front of it (so it is under way while that one computes), and ends right before the pass itself; a send starts right behind
// the pass that made the tensor; and it ends late: of hidden states before the backward pass of the micro-batch, of gradients when
// `gradients_under_way` later ones were made (1; more where runs of micro-batches are longer than the pipeline and a peer takes them late).
// Tensors go by two channels, activations and gradients, each in the order of their sender. A pair is two passes, one behind the other: what its
// forward pass made is on its way, and the gradient that its backward pass needs comes, while the other one computes. Or both go on in turns
// (pairs_in_turns; parallel/pipeline/pipeline.h): then all that they need comes before them, and what they made goes when both have ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/schedule/pipeline.h"

namespace longhaul::layout {

enum class Pass : uint8_t {
  kForward,         // of the last stage: with the loss
  kBackward,        // gradients of inputs and of weights
  kBackwardInput,   // of inputs; those of weights wait for
  kBackwardWeight,  // this
  kStartReceive,
  kWaitReceive,
  kStartSend,
  kWaitSend,
};
enum class Channel : uint8_t { kNone, kActivations, kGradients };

struct Action {
  Pass pass = Pass::kForward;
  int64_t chunk = 0;  // on this rank
  int64_t micro_batch = 0;
  Channel channel = Channel::kNone;  // of a transfer
  int64_t peer = -1;                 // likewise
  bool joined = false;               // with the next pass, which needs nothing of it: a pair
  bool operator==(const Action&) const = default;
  bool transfer() const { return channel != Channel::kNone; }
  bool backward() const { return pass == Pass::kBackward || pass == Pass::kBackwardInput; }
};

struct Schedule {
  Pipeline pipeline;
  int64_t micro_batches = 0;
  std::vector<std::vector<Action>> ranks;
  bool trains = true;           // false: forward passes only
  bool pairs_in_turns = false;  // the passes of a pair, between which nothing stands, take turns
  std::vector<int64_t>
      most_in_flight;  // activations a rank holds at most, by the method: (micro-batch, chunk) from forward to last gradient

  int64_t gradients_under_way = 1;  // that a rank has sent to one peer and not waited for

  int64_t route_of(int64_t micro_batch) const { return pipeline.routes() == 2 && micro_batch >= micro_batches / 2 ? 1 : 0; }
  // The stage of the model that a rank's chunk runs on a micro-batch; −1: none of this one comes here.
  int64_t stage_of(int64_t rank, const Action& action) const;
};

// The passes in order, then with transfers. kUsage error where the method does not take this number of micro-batches.
Schedule passes_of(const Pipeline& pipeline, int64_t micro_batches);
Schedule with_transfers(Schedule passes);
Schedule with_transfers_around_pairs(Schedule passes);  // whose passes take turns
// As the pipeline has it, of these two.
Schedule make_schedule(const Pipeline& pipeline, int64_t micro_batches);
// Forward passes alone, of any number of micro-batches under any method, one after the other.
Schedule forward_schedule(const Pipeline& pipeline, int64_t micro_batches);

std::string text(const Action& action);                  // "F1.3": forward of chunk 1, micro-batch 3; "recv F1.3 from 2"
std::string text(const std::vector<Action>& of_a_rank);  // its passes: "F0.0 F0.1 B0.0 …"

}  // namespace longhaul::layout
