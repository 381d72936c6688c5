// OuterLoop: workers (a rank, or a group of ranks that share a replica) train by themselves for τ steps,
// called a round, and then combine their weights (optim.outer; docs/sources/co2.md). For round t, x_t is
// the anchor, the weights with which all workers begin it, and Δ_t is the mean over workers of x_t - w
// after their τ steps.
//
//   local_sgd   x ← x - Δ                                                         arXiv 1805.09767
//   slowmo      m ← β m + Δ,  x ← x - α m                                         arXiv 1910.00643
//   diloco      m ← β m + Δ,  x ← x - α (Δ + β m)                                 arXiv 2311.08105
//   co2         m ← clip(β m + Δ_{t-1} / Λ),  x_{t+1} ← x_t - α m                 arXiv 2401.16265
//               This happens after round t, whose Δ_t is summed while round t + 1 is trained. Λ = 1 + |x_t -
//               x_{t-1}| / (τ · first step) is the staleness gap; "first step" is the mean over workers of
//               the length of the first step of round t - 1. So Λ measures how far the anchor has moved, in
//               lengths of a round. Each tensor can have a Λ of its own (optim/outer/outer_gaps.h). Without
//               optim.outer_overlap, Δ is that of the round itself and Λ is 1: the same as slowmo except for
//               the clip.
//   delay_corrected   x ← x - Δ_{t-1}, w ← w + (x - y)                            arXiv 2605.20866
//               y: the worker's weights after round t - 1, so what it has learnt since then is kept.
//   streaming   In each round one fragment of the layers, in turn: diloco's x of it, w ← x + mix (w - x)
//                                                                                 arXiv 2501.18512
// The last two apply their update optim.outer_delay steps into the next round, or at its end. In streaming
// each fragment is exchanged every τ steps, so a round has τ / fragments steps.
//
// Workers continue from x, except with the last two methods, where their weights become equal only after
// the last round of the run. With optim.outer_by_lr, momenta are momenta of Δ / γ, where γ is the learning
// rate of the round of Δ, and steps are α γ, where γ is the rate of the round after which weights move: so
// a late Δ shrinks as the learning rate falls.
//
// A round is synchronous (x ← x - Δ of all weights, w ← x; the exchange in progress and the momentum are
// dropped) in these cases: the first round of co2; the round that measures times; the last round of a
// method that overlaps exchanges with training; for co2, when the learning rate has fallen by more than
// half since the exchange in progress was started; and when the guard asks for it, because the anchor's
// movement, per learning rate, has grown by a tenth three times in succession. The limit of stability of
// co2 is reported too: with δ the share of an error that a round removes, it oscillates with growing
// amplitude from α δ / Λ = 1 - β on (docs/sources/co2.md §5).
//
// after_step() is a collective call of all ranks at the same steps: between the ends of two rounds no
// worker waits for another. Not thread-safe.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "optim/outer/outer_choice.h"
#include "optim/outer/outer_gaps.h"
#include "optim/outer/outer_weights.h"
#include "parallel/ranks.h"
#include "recipe/sections/outer_options.h"

namespace longhaul::optim {

struct LocalStep {
  double lr = 0, loss = 0, seconds = 0;
  int64_t left = 0;  // steps of the run after this one; 0: it is the last
};

// A round that has ended, or the result of an earlier round that has arrived.
struct OuterRound {
  int64_t round = 0, steps = 0;
  // Why the round was synchronous, for a method that overlaps exchanges; empty: it was not.
  std::string synchronous;
  std::optional<int64_t> applied;   // the round whose Δ the weights have taken; none: nothing had arrived
  std::optional<int64_t> fragment;  // the fragment that was applied; none: all weights
  // For what was applied: the exchange, the part of it in which this worker waited, the update of weights.
  double exchange_s = 0, waited_s = 0, update_s = 0;
  double gap = 1;  // Λ; the mean when each tensor has its own
  // For co2: a lower bound of α δ / Λ divided by 1 - β; from 1 on the weights oscillate.
  std::optional<double> strain;
  double gradient = 0, momentum = 0, movement = 0;  // norms: of Δ / Λ, of m, of the anchor's step
  double clipped = 0;                               // share of m's elements that were clipped
  // mean over workers and steps of the round that was applied
  double loss = 0;
  std::optional<OuterChoice> choice;
};

class OuterLoop {
 public:
  // All arguments must outlive the object. A collective call. Weights must be the same on all workers.
  OuterLoop(const recipe::OuterOptions& options, Optimizer& optimizer, model::ParameterSet& parameters,
            parallel::Ranks& ranks);
  ~OuterLoop();

  // Call it after each step of this worker, skipped steps too. Returns a round if one ended with this step.
  std::optional<OuterRound> after_step(const LocalStep& step);
  bool between_rounds() const { return done_ == 0; }
  // True once in each round: a save after this step waits least, because the exchange in progress has had
  // nearly all the time that it may take, or there is none.
  bool saves_well() const;
  int64_t every() const { return every_; }       // 0: not yet chosen
  double waited_s() const { return waited_s_; }  // total since the object was made
  int64_t rounds() const { return round_; }

  // While `body` runs, the weights are the anchors, the same on all workers.
  void with_agreed_weights(const std::function<void()>& body);

  // ---- for checkpoints: tensors (OuterWeights::state), this worker's numbers, and facts that are the same
  // for all workers
  // Waits until the exchange in progress has arrived; it is applied later.
  void settle();
  std::vector<StateTensor> state() const;                    // OuterWeights::state, OuterGaps::state
  Tensor worker_numbers() const { return worker_numbers_; }  // [2] fp64; written by a load
  nlohmann::json facts() const;
  void restore(const nlohmann::json& facts);  // kCheckpoint when they are not an outer loop's facts
  // Begins a round at the anchors, whose tensors have been read: the momentum is kept, no exchange is in
  // progress.
  void begin_anew();
  // The anchors become the masters, which have been read; momentum and exchange are dropped.
  void forget();

 private:
  struct Shared {  // all workers'
    int64_t in_flight_round = -1, in_flight_steps = 0;
    double in_flight_lr = 0, movement = 0, relative_movement = 0;
    double gradient = 0,
           // |Δ| that was applied last; the anchor's movement between its round and the one before.
        earlier_movement = 0;
    int64_t growing = 0;
  };
  int64_t fragments() const { return recipe::outer_fragments_of(options_); }
  int64_t length() const { return every_ / fragments(); }  // of a round
  int64_t delay() const { return options_.delay > 0 ? options_.delay : length(); }
  int64_t fragment_of(int64_t round) const { return round % fragments(); }
  bool waits_for_sums() const { return shared_.in_flight_round >= 0; }
  std::string why_synchronous(const LocalStep& step) const;
  OuterRound end_round(const LocalStep& step);
  void meet_now(OuterRound& round, const LocalStep& step);
  void exchange_now(OuterRound& round);
  void apply_late(OuterRound& round, const LocalStep& step);
  void take_arrived(OuterRound& round, const LocalStep& step);
  void start_sums(const LocalStep& step);
  OuterRound take_within_round(const LocalStep& step);
  void tell_weights(OuterRound& round);
  // unit: of a late outer gradient
  void note(OuterRound& round, kernels::OuterSums sums, double lr, double unit = 1);
  void estimate_strain(OuterRound& round, double unit);
  double first_step() const;
  void wait_for_sums(OuterRound& round);
  void choose(OuterRound& round, int64_t left);
  // The numbers for a Δ of a round whose learning rate was `lr_of_round`, applied at the rate `lr`. At a
  // rate of 0 momenta have no unit: then only Δ counts, as in the limit.
  kernels::OuterNumbers numbers_of(double lr_of_round, double lr, double gap) const;
  std::vector<double> gaps_of(const OuterWeights::Numbers& arrived, OuterRound& round);
  OuterWeights::Numbers own_numbers() const;

  const recipe::OuterOptions options_;
  Optimizer& optimizer_;
  model::ParameterSet& parameters_;
  parallel::Ranks& ranks_;
  std::unique_ptr<comm::Communicator> group_;  // the group of workers, used by the outer loop alone
  double counted_ = 0;                         // elements of a worker
  int64_t every_ = 0, round_ = 0, done_ = 0;   // done_: steps of this round
  Shared shared_;
  // how long this worker's first step of the round was; the sum of its losses in it
  Tensor worker_numbers_;
  std::vector<double> seconds_;  // of steps, until τ is chosen
  double waited_s_ = 0;
  int64_t started_ns_ = 0;
  OuterWeights weights_;
  std::optional<OuterGaps> gaps_;  // of each tensor
  std::vector<comm::Work> works_;  // last: they use the members above
};

}  // namespace longhaul::optim
