// Schedule: the work of the ranks of a pipeline as data: a list of actions per rank. The executor runs it
// (parallel/pipeline/pipeline.h), simulate() times it and flaw_of() checks it (schedule_check.h). Sources:
// GPipe arXiv 1811.06965, 1F1B and interleaved arXiv 2104.04473, zero-bubble arXiv 2401.10241, ZBV arXiv
// 2405.15362, DualPipe arXiv 2412.19437; orders as in docs/sources/megascale.md §10.
//
// The generators make passes; with_transfers() inserts sends and receives by three rules. The receive for a
// pass starts before the preceding pass (so that it runs while that pass computes), and ends right before the
// pass itself. A send starts right after the pass that made the tensor. A send ends late: for hidden states
// before the backward pass of the micro-batch, for gradients after `gradients_under_way` later ones were made
// (1; more where runs of micro-batches are longer than the pipeline and a peer takes them late). Tensors use
// two channels, activations and gradients, each in the order of the sender. A pair is two successive passes:
// the tensor from its forward pass is sent, and the gradient for its backward pass is received, while the
// other pass computes. Or both run in turns (pairs_in_turns; parallel/pipeline/pipeline.h): then all that
// they need is received before them, and what they made is sent when both have ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/schedule/pipeline.h"

namespace longhaul::layout {

enum class Pass : uint8_t {
  kForward,         // in the last stage: with the loss
  kBackward,        // gradients of inputs and of weights
  kBackwardInput,   // gradients of inputs; those of weights are computed by
  kBackwardWeight,  // this pass
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
  Channel channel = Channel::kNone;  // for a transfer
  int64_t peer = -1;                 // for a transfer
  bool joined = false;               // a pair with the next pass, which needs nothing from this one
  bool operator==(const Action&) const = default;
  bool transfer() const { return channel != Channel::kNone; }
  bool backward() const { return pass == Pass::kBackward || pass == Pass::kBackwardInput; }
};

struct Schedule {
  Pipeline pipeline;
  int64_t micro_batches = 0;
  std::vector<std::vector<Action>> ranks;
  bool trains = true;           // false: only forward passes
  bool pairs_in_turns = false;  // The passes of a pair, between which there are no transfers, take turns.
  // Most activations that a rank holds by the method: (micro-batch, chunk) from forward pass to last
  // gradient.
  std::vector<int64_t> most_in_flight;

  // Gradients that a rank has sent to one peer and for which it has not waited.
  int64_t gradients_under_way = 1;

  int64_t route_of(int64_t micro_batch) const {
    return pipeline.routes() == 2 && micro_batch >= micro_batches / 2 ? 1 : 0;
  }
  // The stage of the model that a rank's chunk runs on a micro-batch; −1: this micro-batch does not come
  // here.
  int64_t stage_of(int64_t rank, const Action& action) const;
};

// passes_of makes the passes in order; with_transfers adds transfers. kUsage error where the method does not
// allow this number of micro-batches.
Schedule passes_of(const Pipeline& pipeline, int64_t micro_batches);
Schedule with_transfers(Schedule passes);
Schedule with_transfers_around_pairs(Schedule passes);  // for passes that take turns
// Uses the one of these two that the pipeline needs.
Schedule make_schedule(const Pipeline& pipeline, int64_t micro_batches);
// Forward passes only, for any number of micro-batches and any method, one after the other.
Schedule forward_schedule(const Pipeline& pipeline, int64_t micro_batches);

// MessageWay: the messages of one channel from one rank to another, in the order in which they are sent.
struct MessageWay {
  Channel channel = Channel::kNone;
  int64_t sender = 0, receiver = 0;
  auto operator<=>(const MessageWay&) const = default;
};
MessageWay way_of(int64_t rank, const Action& transfer);
// All ways that a schedule of the pipeline uses, ascending.
std::vector<MessageWay> ways_of(const Pipeline& pipeline);

// "F1.3": forward of chunk 1, micro-batch 3; "recv F1.3 from 2"
std::string text(const Action& action);
std::string text(const std::vector<Action>& of_a_rank);  // the passes of a rank: "F0.0 F0.1 B0.0 …"

}  // namespace longhaul::layout
