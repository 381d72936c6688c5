// OuterLoop: workers (a rank, or an island of ranks that share a replica) train by themselves for τ steps, a round, and then meet (optim.outer;
// docs/sources/co2.md). Of round t: x_t what all begin it with, the anchor; Δ_t the mean over workers of x_t - w behind their τ steps.
//
//   local_sgd   x ← x - Δ                                                         arXiv 1805.09767
//   slowmo      m ← β m + Δ,  x ← x - α m                                         arXiv 1910.00643
//   diloco      m ← β m + Δ,  x ← x - α (Δ + β m)                                 arXiv 2311.08105
//   co2         m ← clip(β m + Δ_{t-1} / Λ),  x_{t+1} ← x_t - α m                 arXiv 2401.16265
//               behind round t, whose Δ_t is summed while round t + 1 is trained. Λ = 1 + |x_t - x_{t-1}| / (τ · first step), the mean over workers
//               of how long the first step of round t - 1 was: how far the anchor has moved, in lengths of a round;
//               or a Λ for each tensor (optim/outer/outer_gaps.h). Without optim.outer_overlap Δ is that of the round itself and Λ is 1, as slowmo but for the clip
//   delay_corrected   x ← x - Δ_{t-1}, w ← w + (x - y), y its weights behind round t - 1: what was learnt since stays      arXiv 2605.20866
//   streaming   one fragment of the layers a round, in turn: diloco's x of it, w ← x + mix (w - x)                 arXiv 2501.18512
//               both behind optim.outer_delay steps of the next round, or all of it. A fragment's turn comes every τ steps, so a round is τ / fragments
//
// Workers go on from x but for the last two, whose weights are alike only behind the run's last round. Where optim.outer_by_lr, momenta are of Δ / γ,
// γ the learning rate of the round that Δ is of, and steps of α γ, γ that of the round behind which weights move: what is late shrinks as the rate falls. A round is synchronous (x ← x - Δ of all weights, w ← x; what is on its way and the momentum are
// dropped) where it is the first of co2 or the one that measures times, the last one of a method that hides exchanges, and of co2 where the learning
// rate has fallen by more than half since what is on its way was made, and where the guard asks for it: the anchor's movement, per learning rate, has
// grown by a tenth three times running. What co2 can bear is shown beside it: with δ the share of an error that a round takes away it swings further
// and further from α δ / Λ = 1 - β on (docs/sources/co2.md §5).
//
// A collective of all ranks in after_step(), of the same steps on all: nothing between two rounds waits for another worker. Not thread-safe.
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
  int64_t left = 0;  // steps of the run behind this one; 0: it is the last
};

// A round that has ended, or what has come of one before it.
struct OuterRound {
  int64_t round = 0, steps = 0;
  std::string synchronous;                            // why it was, of a method that hides exchanges; empty: it was not
  std::optional<int64_t> applied;                     // the round whose Δ the weights have taken; none: nothing had arrived
  std::optional<int64_t> fragment;                    // of it; none: all weights
  double exchange_s = 0, waited_s = 0, update_s = 0;  // of what was applied; of which nobody computed; weights
  double gap = 1;                                     // Λ; of many the mean
  std::optional<double> strain;                       // of co2: α δ / Λ over 1 - β, at least; it swings from 1 on
  double gradient = 0, momentum = 0, movement = 0;    // norms: of Δ / Λ, of m, of the anchor's step
  double clipped = 0;                                 // share of m's elements
  double loss = 0;                                    // mean over workers and steps of the round that was applied
  std::optional<OuterChoice> choice;
};

class OuterLoop {
 public:
  // All must outlive it. Collective. Weights are the same on all workers.
  OuterLoop(const recipe::OuterOptions& options, Optimizer& optimizer, model::ParameterSet& parameters, parallel::Ranks& ranks);
  ~OuterLoop();

  // Behind each step of this worker, skipped ones too. A round that ended with it.
  std::optional<OuterRound> after_step(const LocalStep& step);
  bool between_rounds() const { return done_ == 0; }
  // Once a round: a save behind this step waits least, for what is on its way has had nearly all the time that it may take, or there is nothing.
  bool saves_well() const;
  int64_t every() const { return every_; }       // 0: not yet chosen
  double waited_s() const { return waited_s_; }  // since it was made
  int64_t rounds() const { return round_; }

  // While `body` runs weights are the anchors, the same on all workers.
  void with_agreed_weights(const std::function<void()>& body);

  // ---- for checkpoints: tensors (OuterWeights::state), this worker's numbers, and facts that are all workers'
  void settle();                                             // what is on its way has come; it waits to be applied
  std::vector<StateTensor> state() const;                    // OuterWeights::state, OuterGaps::state
  Tensor worker_numbers() const { return worker_numbers_; }  // [2] fp64; written by a load
  nlohmann::json facts() const;
  void restore(const nlohmann::json& facts);  // kCheckpoint where they are none
  void begin_anew();                          // at the anchors, whose tensors have been read: the momentum stays, nothing is on its way
  void forget();                              // anchors are the masters, which have been read; nothing else is known

 private:
  struct Shared {  // all workers'
    int64_t in_flight_round = -1, in_flight_steps = 0;
    double in_flight_lr = 0, movement = 0, relative_movement = 0;
    double gradient = 0,
           earlier_movement = 0;  // |Δ| that weights took last, and the anchor's movement between its round and the one before
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
  void note(OuterRound& round, kernels::OuterSums sums, double lr, double unit = 1);  // unit: of a late outer gradient
  void estimate_strain(OuterRound& round, double unit);
  double first_step() const;
  void wait_for_sums(OuterRound& round);
  void choose(OuterRound& round, int64_t left);
  // For a Δ of a round whose learning rate was `lr_of_round`, taken at `lr`. At a rate of 0 momenta have no unit: then only Δ counts, as in the limit.
  kernels::OuterNumbers numbers_of(double lr_of_round, double lr, double gap) const;
  std::vector<double> gaps_of(const OuterWeights::Numbers& arrived, OuterRound& round);
  OuterWeights::Numbers own_numbers() const;

  const recipe::OuterOptions options_;
  Optimizer& optimizer_;
  model::ParameterSet& parameters_;
  parallel::Ranks& ranks_;
  std::unique_ptr<comm::Communicator> group_;  // of the workers, the outer loop's alone
  double counted_ = 0;                         // elements of a worker
  int64_t every_ = 0, round_ = 0, done_ = 0;   // done_: steps of this round
  Shared shared_;
  Tensor worker_numbers_;        // how long this worker's first step of the round was; the sum of its losses in it
  std::vector<double> seconds_;  // of steps, until τ is chosen
  double waited_s_ = 0;
  int64_t started_ns_ = 0;
  OuterWeights weights_;
  std::optional<OuterGaps> gaps_;  // of each tensor
  std::vector<comm::Work> works_;  // last: they use what is above
};

}  // namespace longhaul::optim
