#include "plan/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "layout/methods/methods.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;
using recipe::Recompute;

std::vector<int64_t> powers_of_two(int64_t most) {
  std::vector<int64_t> powers;
  for (int64_t power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

// Of two layouts that take equally long the one that needs less memory comes first.
bool better(const PlanCandidate& a, const PlanCandidate& b) {
  return std::pair(a.seconds, a.memory.total()) < std::pair(b.seconds, b.memory.total());
}

// With a NaN every comparison is false, and a search would silently discard good layouts.
PlanCandidate timed(const Work& work, const PlanLayout& layout, const Cluster& cluster, int64_t batch,
                    const SearchMemory& memory) {
  PlanCandidate candidate{.layout = layout,
                          .parts = step_parts(work, layout, batch, cluster, default_practice(layout)),
                          .memory = memory};
  candidate.seconds = candidate.parts.total();
  LONGHAUL_ASSERT(std::isfinite(candidate.seconds) && candidate.seconds > 0 && std::isfinite(memory.total()),
                  "{} takes {} s and {} bytes", layout.text(), candidate.seconds, memory.total());
  candidate.tokens_per_second = static_cast<double>(batch) * work.sequence / candidate.seconds;
  candidate.mfu = candidate.tokens_per_second * work.flops.causal() /
                  (static_cast<double>(layout.world()) * cluster.device.bf16_flops);
  return candidate;
}

class Searcher {
 public:
  Searcher(const Work& work, const Cluster& cluster, const SearchLimits& limits)
      : work_(work), shared_(work.shared_work(limits.batch)), cluster_(cluster), limits_(limits) {}

  SearchResult run() {
    const Stopwatch watch;
    const int64_t most_cp = limits_.most_context > 0
                                ? limits_.most_context
                                : std::max<int64_t>(1, static_cast<int64_t>(work_.sequence) / kLeastContext);
    for (const int64_t tp : powers_of_two(cluster_.device.node)) {
      for (int64_t pp = 1; pp <= static_cast<int64_t>(work_.layers); ++pp) {
        for (const int64_t cp : powers_of_two(most_cp))
          try_grid({.tp = tp, .pp = pp, .cp = cp, .context = limits_.context});
      }
    }
    std::ranges::sort(result_.best, better);
    result_.best.resize(std::min(result_.best.size(), static_cast<size_t>(limits_.keep)));
    for (auto& [reason, rejected] : rejected_) result_.rejected.push_back(std::move(rejected));
    std::ranges::sort(result_.rejected, std::ranges::greater(), &Rejected::layouts);
    result_.seconds = watch.seconds();
    return std::move(result_);
  }

 private:
  // The example's text is made once.
  template <class Text>
  void reject(std::string_view reason, Text example) {
    ++result_.tried;
    Rejected& rejected = rejected_[reason];
    if (rejected.layouts++ > 0) return;
    rejected.reason = reason;
    rejected.example = example();
  }

  // Rejects a layout whose numbers do not come out even.
  bool refused_by(const layout::EvenRule& rule, const layout::RankSizes& sizes) {
    if (rule.holds(shared_, sizes)) return false;
    reject(rule.broken, [&] { return rule.numbers(shared_, sizes); });
    return true;
  }

  void try_grid(PlanLayout layout) {
    layout::RankSizes all = layout.sizes();
    all.world = cluster_.gpus;
    if (refused_by(layout::kRanksOfReplicas, all) || refused_by(layout::kHeadsOfTensorRanks, all) ||
        refused_by(layout::kHeadsOfContextRanks, all))
      return;
    layout.dp = cluster_.gpus / (layout.tp * layout.pp * layout.cp);
    for (const int64_t ep : powers_of_two(std::max<int64_t>(1, work_.expert_count))) {
      layout.ep = ep, layout.etp = 1;
      if (refused_by(layout::kExpertsOfRanks, layout.sizes())) continue;
      for (const int64_t etp :
           work_.expert_count > 0 ? powers_of_two(2 * layout.tp) : std::vector<int64_t>{1}) {
        layout.etp = etp;
        if (layout::kExpertsOfRanks.holds(shared_, layout.sizes())) try_micro_batches(layout);
      }
    }
  }

  // If none of a size fits, none that is larger does.
  void try_micro_batches(PlanLayout layout) {
    for (const int64_t micro_batch : powers_of_two(std::max<int64_t>(1, limits_.batch / layout.dp))) {
      layout.micro_batch = micro_batch;
      if (refused_by(layout::kSequencesOfReplicas, layout.sizes())) return;
      if (!try_schedules(layout)) return;
    }
  }

  bool try_schedules(PlanLayout layout) {
    if (layout.pp == 1) return try_memory(layout);
    const int64_t most_chunks = static_cast<int64_t>(work_.layers) / layout.pp;
    bool any = false;
    for (const auto schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kGpipe, PipelineSchedule::kZbH1,
                                PipelineSchedule::kZbV, PipelineSchedule::kDualPipe}) {
      layout.schedule = schedule;
      layout.chunks = chunks_of(schedule);
      layout.pairs_in_turns = layout.can_pair();
      if (!layout::kStagesOfLayers.holds(shared_, layout.sizes()) ||
          refused_by(layout::kPairsOfStages, layout.sizes()))
        continue;
      any |= try_memory(layout);
    }
    layout.schedule = PipelineSchedule::kInterleaved, layout.pairs_in_turns = false;
    if (most_chunks > 1 && refused_by(layout::kRoundsOfStages, layout.sizes())) return any;
    for (layout.chunks = 2; layout.chunks <= most_chunks; ++layout.chunks) any |= try_memory(layout);
    return any;
  }

  // At each stage of ZeRO, which has its own cost and gain: nothing is recomputed where that fits, else by
  // each kind of recomputation as few layers as possible. More of it only costs, and of two kinds the one
  // that costs a layer more may be enough in fewer layers.
  bool try_memory(PlanLayout layout) {
    const int64_t most = layout.dp * layout.cp > 1 ? 3 : 0;
    bool any = false;
    for (layout.zero = 0; layout.zero <= most; ++layout.zero) {
      layout.recompute = Recompute::kNone, layout.recompute_layers = 0;
      if (keep_if_it_fits(layout)) {
        any = true;
        continue;
      }
      for (const auto recompute : {Recompute::kSelective, Recompute::kTokens, Recompute::kFull}) {
        // the same as full
        if (recompute == Recompute::kTokens && work_.recurrence_bytes == 0) continue;
        layout.recompute = recompute;
        layout.recompute_layers = fewest_layers(layout);
        any |= keep_if_it_fits(layout);
      }
    }
    return any;
  }

  double bytes_with(PlanLayout layout, int64_t recomputed) const {
    layout.recompute_layers = recomputed;
    return search_memory(work_, layout, limits_.batch, cluster_).total();
  }

  // Layers of each stage that must be recomputed; 0: all, also where that is not enough. A stage's memory
  // falls by as much with each layer.
  int64_t fewest_layers(const PlanLayout& layout) const {
    const int64_t all = layers_of_stage(work_, layout);
    const double room = cluster_.device.memory_bytes, least = bytes_with(layout, 0),
                 most = bytes_with(layout, 1);
    if (all <= 1 || least > room) return 0;
    const double a_layer = (most - least) / static_cast<double>(all - 1);
    if (a_layer <= 0) return 0;
    const auto kept = static_cast<int64_t>(std::min((room - least) / a_layer, static_cast<double>(all - 1)));
    int64_t recomputed = all - kept;
    if (recomputed < all && bytes_with(layout, recomputed) > room) ++recomputed;  // by rounding
    return recomputed == all ? 0 : recomputed;
  }

  bool keep_if_it_fits(const PlanLayout& layout) {
    const SearchMemory memory = search_memory(work_, layout, limits_.batch, cluster_);
    if (memory.total() <= cluster_.device.memory_bytes) {
      // With gpipe a rank waits as long as with 1F1B, and holds all micro-batches.
      if (layout.schedule == PipelineSchedule::kGpipe) {
        reject("1f1b takes as long and holds no more", [&] { return layout.text(); });
      } else {
        keep(layout, memory);
      }
      return true;
    }
    reject("it does not fit into memory", [&] {
      return fmt::format("{}: {} of {}", layout.text(), bytes_text(whole_bytes(memory.total())),
                         bytes_text(whole_bytes(cluster_.device.memory_bytes)));
    });
    return false;
  }

  void keep(const PlanLayout& layout, const SearchMemory& memory) {
    ++result_.tried;
    PlanCandidate candidate = timed(work_, layout, cluster_, limits_.batch, memory);
    const auto full = static_cast<size_t>(4 * limits_.keep);
    if (result_.best.size() >= full && candidate.seconds >= worst_) {
      ++rejected_["a faster layout exists"].layouts;
      rejected_["a faster layout exists"].reason = "a faster layout exists";
      return;
    }
    result_.best.push_back(std::move(candidate));
    if (result_.best.size() < 2 * full) return;
    std::ranges::nth_element(result_.best, result_.best.begin() + static_cast<std::ptrdiff_t>(full), better);
    result_.best.resize(full);
    worst_ = std::ranges::max_element(result_.best, {}, &PlanCandidate::seconds)->seconds;
  }

  const Work& work_;
  layout::SharedWork shared_;
  const Cluster& cluster_;
  const SearchLimits& limits_;
  SearchResult result_;
  std::map<std::string_view, Rejected> rejected_;
  double worst_ = std::numeric_limits<double>::infinity();  // of those kept, once they are many
};

}  // namespace

int64_t chunks_of(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kZbV || schedule == PipelineSchedule::kDualPipe ? 2 : 1;
}

PlanCandidate evaluate(const Work& work, const PlanLayout& layout, const Cluster& cluster, int64_t batch) {
  return timed(work, layout, cluster, batch, search_memory(work, layout, batch, cluster));
}

SearchResult search(const Work& work, const Cluster& cluster, const SearchLimits& limits) {
  return Searcher(work, cluster, limits).run();
}

}  // namespace longhaul::plan
