// Loss spikes (docs/sources/reliability.md §5.10): whether a step's loss and gradient norm are what the
// earlier steps let expect. A loss is a spike if it is above the least of
//
//   its median over the last 128 steps + 6 robust standard deviations · 5 times that median (ByteRobust) ·
//   10 times the largest of the run's first 100 steps (Megatron-LM),
//
// and also more than a twentieth of that largest loss above the median, because losses near 0 scatter by
// multiples. A gradient norm scatters too much for deviations: it is a spike above 5 times its median and
// above all norms of the first 100 steps, during which there are none. A value that is not finite is always a
// spike; otherwise there is none before 32 steps. A step that was called a spike and not applied is not
// added.
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

  // State: what a resumed run needs to judge as the original would have; it is saved with checkpoints.
  struct State {
    std::vector<double> losses, norms;      // the last kWindow
    int64_t steps = 0;                      // number of steps that were added
    double first_most = 0, first_norm = 0;  // the largest of the first kFirst steps
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

 private:
  State state_;
};

}  // namespace longhaul::detect
