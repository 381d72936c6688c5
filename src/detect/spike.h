// Loss spikes (docs/sources/reliability.md §5.10): whether a step's loss and gradient norm are what the steps before let expect. A loss is a spike above the least of
//
//   its median over the last 128 steps + 6 robust standard deviations · 5 times that median (ByteRobust) · 10 times the largest of the run's first
//   100 steps (Megatron-LM), and more than a twentieth of that largest one above the median: losses near 0 scatter by multiples
//
// a gradient norm, which scatters too much for deviations, above 5 times its median and above all of the first 100 steps, which go before. Not finite is a
// spike always; otherwise nothing is one before 32 steps. What was called a spike and not applied is not added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::detect {

struct Spike {
  std::string text;  // "the loss is 9.1, the median of the last 128 steps 3.2: the limit is 4.0"
  bool finite = true;
};

class SpikeWatch {
 public:
  static constexpr size_t kWindow = 128, kLeast = 32, kFirst = 100;
  std::optional<Spike> judge(double loss, double gradient_norm) const;
  void add(double loss, double gradient_norm);  // both finite

  // What a run that resumes needs to judge as it would have: saved with its checkpoints.
  struct State {
    std::vector<double> losses, norms;      // the last kWindow
    int64_t steps = 0;                      // that were added
    double first_most = 0, first_norm = 0;  // the largest of the first kFirst
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

 private:
  State state_;
};

}  // namespace longhaul::detect
