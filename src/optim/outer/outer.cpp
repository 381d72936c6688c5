#include "optim/outer/outer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace longhaul::optim {
namespace {

using kernels::OuterMerge, kernels::OuterNumbers, kernels::OuterSums;

constexpr size_t kMeasuredSteps = 4;  // before τ is chosen; the first does not count
// of the anchor's movement from round to round, and how often until the guard acts
constexpr double kGrowth = 1.1;
constexpr int64_t kGrowing = 3;
constexpr double kFallen = 2;             // of the learning rate, since what is on its way was made
constexpr int kFirstStep = 0, kLoss = 1;  // of OuterWeights::Numbers

bool late_co2(const recipe::OuterOptions& options) {
  return options.method == recipe::Outer::kCo2 && recipe::hidden(options);
}

bool gaps_by_tensor(const recipe::OuterOptions& options) {
  return late_co2(options) && options.gap == recipe::OuterGap::kPerTensor;
}

std::unique_ptr<comm::Communicator> group_of(parallel::Ranks& ranks) {
  comm::Communicator* const counterparts = ranks.counterparts();
  LONGHAUL_ASSERT(counterparts != nullptr, "an outer loop of one worker");
  layout::GroupKind all{.name = "outer loop",
                        .groups = {std::vector<int64_t>(static_cast<size_t>(counterparts->size()))}};
  std::iota(all.groups[0].begin(), all.groups[0].end(), int64_t{0});
  return std::move(counterparts->split({all}, {.name = "outer loop"})[0]);
}

}  // namespace

OuterLoop::OuterLoop(const recipe::OuterOptions& options, Optimizer& optimizer,
                     model::ParameterSet& parameters, parallel::Ranks& ranks)
    : options_(options),
      optimizer_(optimizer),
      parameters_(parameters),
      ranks_(ranks),
      group_(group_of(ranks)),
      every_(options.every),
      worker_numbers_(at::zeros({2}, at::kDouble)),
      weights_(optimizer, parameters,
               {.momentum = recipe::outer_momentum_of(options) > 0,
                .sent = options.method == recipe::Outer::kDelayCorrected,
                .narrow = options.wire == recipe::OuterWire::kBfloat16,
                .fragments = recipe::outer_fragments_of(options),
                .by_tensor = gaps_by_tensor(options)}) {
  LONGHAUL_ASSERT(options.method != recipe::Outer::kNone, "an outer loop that is none");
  if (gaps_by_tensor(options)) gaps_.emplace(weights_, parameters, ranks);
  counted_ = std::max(1.0, ranks.sum(weights_.counted(), "elements of the outer loop"));
}

// What is on its way ends before the group does, but for an error: then others may never come.
OuterLoop::~OuterLoop() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    settle();
  } catch (const std::exception& error) {
    log_warning("the last exchange of the outer loop: {}", error.what());
  }
}

std::optional<OuterRound> OuterLoop::after_step(const LocalStep& step) {
  const at::NoGradGuard no_gradient;
  ++done_;
  double* const own = worker_numbers_.mutable_data_ptr<double>();
  if (std::isfinite(step.loss)) own[kLoss] += step.loss;
  if (every_ == 0) seconds_.push_back(step.seconds);
  if (done_ == 1 && late_co2(options_) && options_.gap == recipe::OuterGap::kMeasured) {
    own[kFirstStep] = std::sqrt(ranks_.sum(weights_.squared_distances().counted, "first step of a round"));
  }
  if (done_ == 1 && gaps_) gaps_->note_first_step();
  const bool complete = every_ > 0 ? done_ >= length() : seconds_.size() >= kMeasuredSteps;
  const bool late = recipe::keeps_local_work(options_.method) && waits_for_sums() && done_ == delay();
  if (complete || step.left == 0) {
    const bool told = every_ > 0 && delay() < length();  // where what was sent before had arrived
    const OuterRound round = end_round(step);
    if (told && !round.applied) return std::nullopt;
    return round;
  }
  if (late) return take_within_round(step);
  return std::nullopt;
}

std::string OuterLoop::why_synchronous(const LocalStep& step) const {
  if (!recipe::hidden(options_)) return "";
  if (step.left == 0) return "the last round";
  if (every_ == 0) return "the first round, in which times are measured";
  if (options_.method != recipe::Outer::kCo2) return "";
  if (round_ == 0 && options_.synchronous_start) return "the first round";
  if (shared_.growing >= kGrowing) return "the guard: weights moved further and further";
  if (waits_for_sums() && step.lr * kFallen < shared_.in_flight_lr) return "the learning rate has fallen";
  return "";
}

OuterRound OuterLoop::end_round(const LocalStep& step) {
  OuterRound round{.round = round_, .steps = done_, .synchronous = why_synchronous(step)};
  ranks_.settle_values(parameters_);
  wait_for_sums(round);
  if (!recipe::hidden(options_) || !round.synchronous.empty()) {
    meet_now(round, step);
  } else if (recipe::keeps_local_work(options_.method)) {
    if (waits_for_sums()) take_arrived(round, step);
    const Stopwatch watch;
    weights_.take_difference(/*returns=*/false, fragment_of(round_));
    start_sums(step);
    round.update_s += watch.seconds();
  } else {
    apply_late(round, step);
  }
  tell_weights(round);
  if (every_ == 0 && step.left > 0 && seconds_.size() > 1) choose(round, step.left);
  ++round_;
  done_ = 0;
  worker_numbers_.zero_();
  return round;
}

// Sums of the round before, where they are due.
OuterRound OuterLoop::take_within_round(const LocalStep& step) {
  OuterRound round{.round = shared_.in_flight_round, .steps = shared_.in_flight_steps};
  ranks_.settle_values(parameters_);
  wait_for_sums(round);
  take_arrived(round, step);
  tell_weights(round);
  return round;
}

// To the ranks that compute with what the masters are.
void OuterLoop::tell_weights(OuterRound& round) {
  const Stopwatch watch;
  optimizer_.refresh_values();
  round.update_s += watch.seconds();
  ranks_.share_values(parameters_);
  waited_s_ += round.waited_s;
}

// What all have now, and they wait for it.
void OuterLoop::meet_now(OuterRound& round, const LocalStep& step) {
  round.applied = round_;
  exchange_now(round);
  const bool mean = !round.synchronous.empty();  // nothing but the workers' mean
  const Stopwatch watch;
  const double workers = static_cast<double>(group_->size());
  if (options_.method == recipe::Outer::kCo2 && !mean && options_.gap == recipe::OuterGap::kConstant)
    round.gap = options_.gap_value;
  const OuterSums sums =
      weights_.update(mean ? OuterNumbers{.scale = 1 / workers} : numbers_of(step.lr, step.lr, round.gap));
  if (mean) weights_.forget_momentum();
  round.update_s += watch.seconds();
  round.loss = weights_.numbers()[kLoss] / workers;
  shared_.in_flight_round = -1;
  note(round, sums, step.lr);
}

void OuterLoop::take_arrived(OuterRound& round, const LocalStep& step) {
  const Stopwatch watch;
  const int64_t fragment = fragment_of(shared_.in_flight_round);
  round.applied = shared_.in_flight_round;
  if (fragments() > 1) round.fragment = fragment;
  round.loss = weights_.numbers(fragment)[kLoss] / static_cast<double>(group_->size());
  const OuterSums sums = weights_.update(numbers_of(shared_.in_flight_lr, step.lr, 1), fragment);
  shared_.in_flight_round = -1;
  round.update_s += watch.seconds();
  note(round, sums, step.lr);
}

// Of the differences that were taken.
void OuterLoop::start_sums(const LocalStep& step) {
  shared_.in_flight_round = round_;
  shared_.in_flight_steps = done_;
  shared_.in_flight_lr = step.lr;
  started_ns_ = monotonic_ns();
  works_ = weights_.start_sums(*group_, own_numbers(), fragment_of(round_));
}

OuterNumbers OuterLoop::numbers_of(double lr_of_round, double lr, double gap) const {
  using enum recipe::Outer;
  const bool by_lr = options_.by_lr && lr_of_round > 0;
  OuterNumbers numbers{.scale = 1 / (static_cast<double>(group_->size()) * gap * (by_lr ? lr_of_round : 1)),
                       .momentum = options_.by_lr && !by_lr ? 0 : recipe::outer_momentum_of(options_),
                       .step = recipe::outer_lr_of(options_) * (by_lr ? lr : 1),
                       .clip = options_.method == kCo2 ? options_.clip : 0,
                       .nesterov = options_.method == kDiloco || options_.method == kStreaming,
                       .mix = options_.mix};
  if (options_.method == kDelayCorrected) numbers.merge = OuterMerge::kCorrected;
  if (options_.method == kStreaming) numbers.merge = OuterMerge::kMixed;
  return numbers;
}

OuterWeights::Numbers OuterLoop::own_numbers() const {
  const double* const own = worker_numbers_.const_data_ptr<double>();
  OuterWeights::Numbers numbers = {own[kFirstStep], own[kLoss] / static_cast<double>(done_)};
  if (gaps_) {
    const std::vector<double> first_steps = gaps_->first_steps();
    numbers.insert(numbers.end(), first_steps.begin(), first_steps.end());
  }
  return numbers;
}

// All workers wait. Where times are measured those who come early wait for the others first.
void OuterLoop::exchange_now(OuterRound& round) {
  if (every_ == 0) group_->barrier({.name = "before the exchange"}).wait();
  Stopwatch update;
  weights_.take_difference(/*returns=*/false);
  round.update_s += update.seconds();
  const Stopwatch watch;
  for (comm::Work& work : weights_.start_sums(*group_, own_numbers())) work.wait();
  weights_.take_sums();
  round.exchange_s = watch.seconds();
  round.waited_s += round.exchange_s;
}

// Of the round that is on its way; nothing may be.
void OuterLoop::wait_for_sums(OuterRound& round) {
  const Stopwatch watch;
  int64_t ended = 0;
  for (comm::Work& work : works_) {
    work.wait();
    ended = std::max(ended, work.ended_ns());
  }
  if (works_.empty()) return;
  works_.clear();
  weights_.take_sums(fragment_of(shared_.in_flight_round));
  round.waited_s += watch.seconds();
  if (ended > 0) round.exchange_s = static_cast<double>(ended - started_ns_) * 1e-9;
}

void OuterLoop::settle() {
  OuterRound unused;
  wait_for_sums(unused);
  waited_s_ += unused.waited_s;
}

void OuterLoop::apply_late(OuterRound& round, const LocalStep& step) {
  const Stopwatch watch;
  const double workers = static_cast<double>(group_->size());
  OuterSums sums;
  double unit = 1;  // of the outer gradient
  if (waits_for_sums()) {
    round.applied = shared_.in_flight_round;
    const OuterWeights::Numbers arrived = weights_.numbers();
    const std::vector<double> gaps = gaps_of(arrived, round);
    round.loss = arrived[kLoss] / workers;
    OuterNumbers numbers = numbers_of(shared_.in_flight_lr, step.lr, gaps.empty() ? round.gap : 1);
    numbers.leaves_difference = true;
    sums = weights_.update(numbers, OuterWeights::kAll, gaps);
    unit = options_.by_lr && shared_.in_flight_lr > 0 ? shared_.in_flight_lr : 1;
  } else {
    weights_.take_difference(/*returns=*/true);
  }
  start_sums(step);
  round.update_s = watch.seconds();
  note(round, sums, step.lr, unit);
}

// By tensor; empty: round.gap is that of all.
std::vector<double> OuterLoop::gaps_of(const OuterWeights::Numbers& arrived, OuterRound& round) {
  const auto workers = static_cast<double>(group_->size());
  if (gaps_) {
    std::vector<double> gaps =
        gaps_->gaps(std::span(arrived).subspan(OuterWeights::kNumbers), workers, shared_.in_flight_steps);
    round.gap = gaps_->mean(gaps);
    return gaps;
  }
  const double reach = static_cast<double>(shared_.in_flight_steps) * arrived[kFirstStep] / workers;
  if (options_.gap == recipe::OuterGap::kConstant) round.gap = options_.gap_value;
  if (options_.gap == recipe::OuterGap::kMeasured && reach > 0) round.gap = 1 + shared_.movement / reach;
  return {};
}

// What the guard and the next gap look at, and what is told.
void OuterLoop::note(OuterRound& round, OuterSums sums, double lr, double unit) {
  const Tensor all = at::tensor({sums.gradient, sums.momentum, sums.movement, sums.clipped}, at::kDouble);
  ranks_.sum(all, "norms of the outer loop");
  const double* const of = all.const_data_ptr<double>();
  round.gradient = std::sqrt(of[0]);
  round.momentum = std::sqrt(of[1]);
  round.movement = std::sqrt(of[2]);
  if (late_co2(options_)) estimate_strain(round, unit);
  shared_.earlier_movement = std::exchange(shared_.movement, round.movement);
  round.clipped = of[3] / counted_;
  if (gaps_) gaps_->note_movement();
  if (!std::isfinite(round.movement)) {
    throw Error(
        {.code = ExitCode::kNumeric,
         .what = "the mean of the workers' weights is not finite",
         .found = fmt::format("a movement of {} behind round {}", round.movement, round.round),
         .hint =
             "lower optim.lr, optim.outer_lr or optim.outer_momentum, or go back to an earlier checkpoint"});
  }
  const double before = shared_.relative_movement;
  shared_.relative_movement = lr > 0 ? round.movement / lr : 0;
  const bool grows = options_.guard && late_co2(options_) && round.synchronous.empty() && before > 0 &&
                     shared_.relative_movement > kGrowth * before;
  shared_.growing = grows ? shared_.growing + 1 : 0;
}

// Δ of rounds t - 1 and t - 2 are δ times the errors that they began with, which differ by how far the anchor
// moved in between. Lengths alone are known, so δ is that or more.
void OuterLoop::estimate_strain(OuterRound& round, double unit) {
  const bool late = round.synchronous.empty() && round.applied.has_value();
  const double gradient = late ? round.gradient * round.gap * unit : 0;
  if (gradient > 0 && shared_.gradient > 0 && shared_.earlier_movement > 0) {
    const double delta = std::abs(gradient - shared_.gradient) / shared_.earlier_movement;
    round.strain =
        recipe::outer_lr_of(options_) * delta / round.gap / (1 - recipe::outer_momentum_of(options_));
  }
  shared_.gradient = gradient;
}

void OuterLoop::choose(OuterRound& round, int64_t left) {
  std::sort(seconds_.begin() + 1, seconds_.end());
  const double median = seconds_[1 + (seconds_.size() - 1) / 2];
  const auto longest = [&](double seconds) {
    return static_cast<double>(ranks_.most(std::llround(seconds * 1e9))) * 1e-9;
  };
  const double step_s = std::max(1e-9, longest(median)), exchange_s = longest(round.exchange_s),
               update_s = longest(round.update_s);
  round.choice = choose_every(recipe::hidden(options_), step_s, exchange_s, update_s, left, fragments());
  every_ = round.choice->every;
  seconds_.clear();
}

}  // namespace longhaul::optim
