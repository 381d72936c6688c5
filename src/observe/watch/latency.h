// Who is slow: the seconds of each phase of each rank over the last steps, and how far a rank stands from those that do the same work (its peers: the ranks of
// its pipeline stage). MegaScale's heat map (arXiv 2402.15627 §5.2): what all ranks share, such as waiting for the slow one, hides him in step times, so ranks
// are compared by the phases in which they work alone. Distances are robust z-scores: (seconds − median) / (1.4826 · median deviation), the deviation
// being at least 2 % of the median. A score is the peers' median work over the rank's own: below 0.95, with z above 4 over 8 steps or more of its own, it is named a straggler.
//
//   LatencyWindow window;
//   window.add(rank, step, {{"forward", 0.21}, {"communication", 0.05}});
//   const LatencyMap map = window.map([](int64_t rank) { return LatencyPlace{.node = "n0", .peers = "stage 0"}; });
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
    std::vector<double> seconds, z;    // [phases]; NaN where the rank has no such phase
    double work = 0, work_z = 0;       // mean seconds of a step in forward, backward and optimizer
    double score = 1;                  // the peers' median work over this rank's
    std::vector<double> work_by_step;  // [steps]; relative to the peers' median of that step: 1.1 is 10 % slower. NaN: not known
    bool straggler = false;
  };
  std::vector<std::string> phases;
  std::vector<int64_t> steps;  // the columns of work_by_step
  std::vector<Row> rows;       // by node, then rank
  int64_t measured_steps = 0;  // of which the means are
};

class LatencyWindow {
 public:
  explicit LatencyWindow(int64_t most_steps = 90) : most_steps_(most_steps) {}
  void add(int64_t rank, int64_t step, const std::map<std::string, double>& phase_seconds);  // the same step again replaces it
  void drop(int64_t rank) { ranks_.erase(rank); }
  template <class Keep>
  void keep(const Keep& keep) {  // ranks alone of which it says so
    std::erase_if(ranks_, [&](const auto& each) { return !keep(each.first); });
  }
  void clear() { ranks_.clear(); }
  bool empty() const { return ranks_.empty(); }
  LatencyMap map(const std::function<LatencyPlace(int64_t rank)>& place) const;

 private:
  int64_t most_steps_;
  std::map<int64_t, std::map<int64_t, std::map<std::string, double>>> ranks_;  // rank → step → phase → seconds
};

// Column order of phases that are known; others follow by name.
std::vector<std::string> ordered_phases(std::vector<std::string> phases);

}  // namespace longhaul::observe
