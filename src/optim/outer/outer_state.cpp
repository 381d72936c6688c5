// What of an outer loop evaluations and checkpoints see.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "optim/outer/outer.h"

namespace longhaul::optim {

void OuterLoop::with_agreed_weights(const std::function<void()>& body) {
  if (between_rounds() && !recipe::keeps_local_work(options_.method)) return body();
  const auto exchange = [this] {
    const at::NoGradGuard no_gradient;
    ranks_.settle_values(parameters_);
    weights_.exchange();
    optimizer_.refresh_values();
    ranks_.share_values(parameters_);
  };
  exchange();
  body();
  exchange();
}

std::vector<StateTensor> OuterLoop::state() const {
  std::vector<StateTensor> all = weights_.state();
  if (gaps_) std::ranges::move(gaps_->state(), std::back_inserter(all));
  return all;
}

bool OuterLoop::saves_well() const {
  if (!recipe::hidden(options_)) return between_rounds();
  return every_ > 0 && done_ == (delay() < length() ? delay() : length() - 1);
}

nlohmann::json OuterLoop::facts() const {
  const OuterWeights::Numbers numbers =
      weights_.numbers(fragment_of(std::max<int64_t>(0, shared_.in_flight_round)));
  return {
      {"every", every_},
      {"round", round_},
      {"done", done_},
      {"in_flight_round", shared_.in_flight_round},
      {"in_flight_steps", shared_.in_flight_steps},
      {"in_flight_lr", shared_.in_flight_lr},
      {"in_flight_numbers", std::vector<double>(numbers.begin(), numbers.begin() + OuterWeights::kNumbers)},
      {"movement", shared_.movement},
      {"relative_movement", shared_.relative_movement},
      {"gradient", shared_.gradient},
      {"earlier_movement", shared_.earlier_movement},
      {"growing", shared_.growing}};
}

void OuterLoop::restore(const nlohmann::json& facts) {
  try {
    every_ = options_.every > 0 ? options_.every : facts.at("every").get<int64_t>();
    facts.at("round").get_to(round_);
    facts.at("done").get_to(done_);
    facts.at("in_flight_round").get_to(shared_.in_flight_round);
    facts.at("in_flight_steps").get_to(shared_.in_flight_steps);
    facts.at("in_flight_lr").get_to(shared_.in_flight_lr);
    facts.at("movement").get_to(shared_.movement);
    facts.at("relative_movement").get_to(shared_.relative_movement);
    facts.at("growing").get_to(shared_.growing);
    shared_.gradient = facts.value("gradient", 0.0);  // of earlier versions: not known
    shared_.earlier_movement = facts.value("earlier_movement", 0.0);
    OuterWeights::Numbers numbers(OuterWeights::kNumbers);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = facts.at("in_flight_numbers").at(i).get<double>();
    weights_.set_numbers(numbers, fragment_of(std::max<int64_t>(0, shared_.in_flight_round)));
  } catch (const nlohmann::json::exception& error) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "the outer loop's facts of the checkpoint cannot be read",
                 .found = error.what()});
  }
}

void OuterLoop::begin_anew() {
  weights_.masters_from_anchors();
  optimizer_.refresh_values();
  done_ = 0;
  shared_ = {};
  worker_numbers_.zero_();
  if (gaps_) gaps_->forget();
}

void OuterLoop::forget() {
  weights_.anchors_from_masters();
  weights_.forget_momentum();
  every_ = options_.every;
  round_ = done_ = 0;
  shared_ = {};
  worker_numbers_.zero_();
  if (gaps_) gaps_->forget();
}

}  // namespace longhaul::optim
