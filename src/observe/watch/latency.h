// Finds slow ranks: it has the seconds of each phase of each rank over the last steps, and the distance of a
// rank from its peers, which do the same work (the ranks of its pipeline stage). This is MegaScale's heat map
// (arXiv 2402.15627 §5.2). Step times hide a slow rank, because all ranks wait for it; therefore ranks are
// compared in the phases in which they work alone. Distances are robust z-scores: (seconds − median) /
// (1.4826 · median deviation), with a deviation of at least 2 % of the median. A score is the peers' median
// work over the rank's own: a rank with a score below 0.95 and z above 4 over at least 8 steps of its own is
// named a straggler.
//
//   LatencyWindow window;
//   window.add(rank, step, {{"forward", 0.21}, {"communication", 0.05}});
//   const LatencyMap map = window.map([](int64_t rank) { return LatencyPlace{.node = "n0",
//       .peers = "stage 0"}; });
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace longhaul::observe {

struct LatencyPlace {
  std::string node, peers;
};

struct LatencyMap {
  struct Row {
    int64_t rank = 0;
    LatencyPlace place;
    std::vector<double> seconds, z;  // [phases]; NaN where the rank has no such phase
    double work = 0, work_z = 0;     // mean seconds of a step in forward, backward and optimizer
    double score = 1;                // the peers' median work over this rank's
    // [steps]; relative to the peers' median of that step: 1.1 is 10 % slower; NaN: unknown.
    std::vector<double> work_by_step;
    bool straggler = false;
  };
  std::vector<std::string> phases;
  std::vector<int64_t> steps;  // the columns of work_by_step
  std::vector<Row> rows;       // by node, then rank
  int64_t measured_steps = 0;  // number of steps in the means
};

class LatencyWindow {
 public:
  explicit LatencyWindow(int64_t most_steps = 90) : most_steps_(most_steps) {}
  // The same step again replaces the earlier one.
  void add(int64_t rank, int64_t step, const std::map<std::string, double>& phase_seconds);
  void drop(int64_t rank) { ranks_.erase(rank); }
  template <class Keep>
  void keep(const Keep& keep) {  // keeps only ranks for which it returns true
    std::erase_if(ranks_, [&](const auto& each) { return !keep(each.first); });
  }
  void clear() { ranks_.clear(); }
  bool empty() const { return ranks_.empty(); }
  LatencyMap map(const std::function<LatencyPlace(int64_t rank)>& place) const;

 private:
  int64_t most_steps_;
  // Rank → step → phase → seconds.
  std::map<int64_t, std::map<int64_t, std::map<std::string, double>>> ranks_;
};

// Orders columns: known phases first, in a fixed order; others follow by name.
std::vector<std::string> ordered_phases(std::vector<std::string> phases);

}  // namespace longhaul::observe
