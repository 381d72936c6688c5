#include "plan/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/clock.h"
#include "base/progress.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;
using recipe::Recompute;

std::vector<int64_t> powers_of_two(int64_t most) {
  std::vector<int64_t> powers;
  for (int64_t power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

class Searcher {
 public:
  Searcher(const Work& work, const Cluster& cluster, const SearchLimits& limits) : work_(work), cluster_(cluster), limits_(limits) {}

  SearchResult run() {
    const Stopwatch watch;
    const int64_t most_cp =
        limits_.most_context > 0 ? limits_.most_context : std::max<int64_t>(1, static_cast<int64_t>(work_.sequence) / 4096);
    for (const int64_t tp : powers_of_two(cluster_.device.node)) {
      for (int64_t pp = 1; pp <= static_cast<int64_t>(work_.layers); ++pp) {
        for (const int64_t cp : powers_of_two(most_cp)) try_grid({.tp = tp, .pp = pp, .cp = cp});
      }
    }
    std::ranges::sort(result_.best, {}, &PlanCandidate::seconds);
    result_.best.resize(std::min(result_.best.size(), static_cast<size_t>(limits_.keep)));
    for (auto& [reason, rejected] : rejected_) result_.rejected.push_back(std::move(rejected));
    std::ranges::sort(result_.rejected, std::ranges::greater(), &Rejected::layouts);
    result_.seconds = watch.seconds();
    return std::move(result_);
  }

 private:
  // The example's text is made once.
  template <class Text>
  void reject(const char* reason, Text example) {
    ++result_.tried;
    Rejected& rejected = rejected_[reason];
    if (rejected.layouts++ > 0) return;
    rejected.reason = reason;
    rejected.example = example();
  }

  void try_grid(PlanLayout layout) {
    const int64_t replica = layout.tp * layout.pp * layout.cp;
    if (cluster_.gpus % replica != 0) {
      return reject("the devices cannot be dealt out", [&] {
        return fmt::format("tp {} · pp {} · cp {} does not divide {}", layout.tp, layout.pp, layout.cp, cluster_.gpus);
      });
    }
    if (!work_.deals_out_heads(layout.tp)) {
      return reject("heads cannot be dealt out over tensor ranks",
                    [&] { return fmt::format("{} heads, {} of keys, over {}", work_.heads, work_.kv_heads, layout.tp); });
    }
    layout.dp = cluster_.gpus / replica;
    for (const int64_t ep : powers_of_two(std::max<int64_t>(1, work_.expert_count))) {
      layout.ep = ep;
      if (layout.dp * layout.cp * layout.tp % ep != 0 || (ep > 1 && work_.expert_count % ep != 0)) {
        reject("experts cannot be dealt out", [&] {
          return fmt::format("{} experts over {} of {} ranks of a stage", work_.expert_count, ep, layout.dp * layout.cp * layout.tp);
        });
        continue;
      }
      for (const int64_t etp : work_.expert_count > 0 ? powers_of_two(layout.tp) : std::vector<int64_t>{1}) {
        if (layout.dp * layout.cp * layout.tp % (ep * etp) != 0) continue;
        layout.etp = etp;
        try_micro_batches(layout);
      }
    }
  }

  void try_micro_batches(PlanLayout layout) {
    for (const int64_t micro_batch : {1, 2, 4, 8}) {
      layout.micro_batch = micro_batch;
      if (limits_.batch % (layout.dp * micro_batch) != 0) {
        reject("the batch cannot be dealt out",
               [&] { return fmt::format("{} sequences over dp {} · micro-batch {}", limits_.batch, layout.dp, micro_batch); });
        continue;
      }
      try_schedules(layout);
    }
  }

  void try_schedules(PlanLayout layout) {
    if (layout.pp == 1) return try_memory(layout);
    const int64_t m = layout.micro_batches(limits_.batch);
    for (const auto schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kZbH1, PipelineSchedule::kZbV}) {
      layout.schedule = schedule;
      layout.chunks = schedule == PipelineSchedule::kZbV ? 2 : 1;
      if (layout.pp * layout.chunks <= static_cast<int64_t>(work_.layers)) try_memory(layout);
    }
    layout.schedule = PipelineSchedule::kInterleaved;
    for (const int64_t chunks : {2, 3, 4, 6, 8}) {
      if (layout.pp * chunks > static_cast<int64_t>(work_.layers)) break;
      layout.chunks = chunks;
      if (m % layout.pp != 0) {
        reject("interleaved stages need whole rounds", [&] { return fmt::format("{} micro-batches over pp {}", m, layout.pp); });
      } else {
        try_memory(layout);
      }
    }
  }

  // At each stage of ZeRO, which costs here and gains there: where everything that waits fits, to make it again or take it to the host only costs;
  // else the least recomputation that fits, and every one that fits when it is taken to the host, which is less the less waits.
  void try_memory(PlanLayout layout) {
    const int64_t most = layout.dp * layout.cp > 1 ? 3 : 0;
    for (layout.zero = 0; layout.zero <= most; ++layout.zero) {
      for (const bool offload : {false, true}) {
        layout.offload = offload;
        bool fits = false;
        for (const auto recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
          layout.recompute = recompute;
          fits = keep_if_it_fits(layout);
          if (fits && !offload) break;
        }
        if (fits && layout.recompute == Recompute::kNone) break;
      }
    }
  }

  bool keep_if_it_fits(const PlanLayout& layout) {
    const RankMemory memory = rank_memory(work_, layout, limits_.batch, cluster_);
    if (memory.total() <= cluster_.device.memory_bytes) {
      keep(layout, memory);
      return true;
    }
    reject("it does not fit into memory", [&] {
      return fmt::format("{}: {} of {}", layout.text(), bytes_text(whole_bytes(memory.total())),
                         bytes_text(whole_bytes(cluster_.device.memory_bytes)));
    });
    return false;
  }

  void keep(const PlanLayout& layout, const RankMemory& memory) {
    ++result_.tried;
    PlanCandidate candidate{
        .layout = layout, .parts = step_parts(work_, layout, limits_.batch, cluster_, default_practice(layout)), .memory = memory};
    candidate.seconds = candidate.parts.total();
    const auto full = static_cast<size_t>(4 * limits_.keep);
    if (result_.best.size() >= full && candidate.seconds >= worst_) {
      ++rejected_["a faster layout exists"].layouts;
      rejected_["a faster layout exists"].reason = "a faster layout exists";
      return;
    }
    candidate.tokens_per_second = static_cast<double>(limits_.batch) * work_.sequence / candidate.seconds;
    candidate.mfu = candidate.tokens_per_second * work_.flops.causal() / (static_cast<double>(cluster_.gpus) * cluster_.device.bf16_flops);
    result_.best.push_back(std::move(candidate));
    if (result_.best.size() < 2 * full) return;
    std::ranges::nth_element(result_.best, result_.best.begin() + static_cast<std::ptrdiff_t>(full), {}, &PlanCandidate::seconds);
    result_.best.resize(full);
    worst_ = std::ranges::max_element(result_.best, {}, &PlanCandidate::seconds)->seconds;
  }

  const Work& work_;
  const Cluster& cluster_;
  const SearchLimits& limits_;
  SearchResult result_;
  std::map<std::string_view, Rejected> rejected_;
  double worst_ = std::numeric_limits<double>::infinity();  // of those kept, once they are many
};

}  // namespace

PlanCandidate evaluate(const Work& work, const PlanLayout& layout, const Cluster& cluster, int64_t batch) {
  PlanCandidate candidate{.layout = layout,
                          .parts = step_parts(work, layout, batch, cluster, default_practice(layout)),
                          .memory = rank_memory(work, layout, batch, cluster)};
  candidate.seconds = candidate.parts.total();
  candidate.tokens_per_second = static_cast<double>(batch) * work.sequence / candidate.seconds;
  candidate.mfu = candidate.tokens_per_second * work.flops.causal() / (static_cast<double>(layout.world()) * cluster.device.bf16_flops);
  return candidate;
}

SearchResult search(const Work& work, const Cluster& cluster, const SearchLimits& limits) { return Searcher(work, cluster, limits).run(); }

}  // namespace longhaul::plan
