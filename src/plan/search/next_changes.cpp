#include "plan/search/next_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "layout/methods/methods.h"

namespace longhaul::plan {
namespace {

using recipe::PipelineSchedule;
using recipe::Recompute;

// As a search would try it, except for its limits of size.
bool can_be(const Work& work, const PlanLayout& layout, int64_t batch) {
  if (layout.dp < 1 || layout.tp < 1 || layout.pp < 1 || layout.cp < 1) return false;
  return static_cast<double>(layout.cp * kLeastContext) <= work.sequence &&
         layout::comes_out_even(work.shared_work(batch), layout.sizes());
}

class Neighbours {
 public:
  Neighbours(const Work& work, const PlanLayout& from, int64_t batch)
      : work_(work), from_(from), batch_(batch) {
    add_sizes();
    add_axes();
    add_memory();
    add_schedules();
  }
  std::vector<std::pair<std::string, PlanLayout>> all;

 private:
  template <class Edit>
  void add(const std::string& what, Edit edit) {
    PlanLayout other = from_;
    edit(other);
    if (other.pp == 1) other.schedule = PipelineSchedule::k1F1B, other.chunks = 1;
    other.pairs_in_turns = other.can_pair() && (from_.pairs_in_turns || !from_.can_pair());
    if (other.recompute == Recompute::kNone || other.recompute_layers >= layers_of_stage(work_, other))
      other.recompute_layers = 0;
    if (other != from_ && other.world() == from_.world() && can_be(work_, other, batch_))
      all.emplace_back(what, other);
  }

  void add_sizes() {
    add("micro-batches twice as large", [](PlanLayout& to) { to.micro_batch *= 2; });
    if (from_.micro_batch % 2 == 0)
      add("micro-batches half as large", [](PlanLayout& to) { to.micro_batch /= 2; });
  }

  // Moves a factor of two from one axis to another.
  void add_axes() {
    struct Size {
      const char* name;
      int64_t PlanLayout::*size;
    };
    constexpr Size kAxes[] = {
        {"dp", &PlanLayout::dp}, {"tp", &PlanLayout::tp}, {"pp", &PlanLayout::pp}, {"cp", &PlanLayout::cp}};
    for (const Size& less : kAxes) {
      for (const Size& more : kAxes) {
        if (less.size == more.size || from_.*less.size % 2 != 0) continue;
        add(fmt::format("{} {} and {} {}", less.name, from_.*less.size / 2, more.name, from_.*more.size * 2),
            [&](PlanLayout& to) {
              to.*less.size /= 2;
              to.*more.size *= 2;
            });
      }
    }
    if (work_.expert_count == 0) return;
    for (const Size& axis : {Size{"ep", &PlanLayout::ep}, Size{"etp", &PlanLayout::etp}}) {
      add(fmt::format("{} {}", axis.name, from_.*axis.size * 2), [&](PlanLayout& to) { to.*axis.size *= 2; });
      if (from_.*axis.size % 2 == 0)
        add(fmt::format("{} {}", axis.name, from_.*axis.size / 2),
            [&](PlanLayout& to) { to.*axis.size /= 2; });
    }
  }

  void add_memory() {
    for (int64_t zero = 0; zero <= (from_.dp * from_.cp > 1 ? 3 : 0); ++zero) {
      add(fmt::format("ZeRO stage {}", zero), [&](PlanLayout& to) { to.zero = zero; });
    }
    for (const auto recompute :
         {Recompute::kNone, Recompute::kSelective, Recompute::kTokens, Recompute::kFull}) {
      const auto name = recipe::names_of(recompute)[static_cast<size_t>(recompute)];
      add(recompute == Recompute::kNone ? "no recomputation" : fmt::format("recompute {}", name),
          [&](PlanLayout& to) { to.recompute = recompute; });
    }
    if (from_.recompute != Recompute::kNone) add_layers();
    if (from_.recompute_layers == 0)
      add(from_.offload ? "activations stay" : "activations to a file (train.offload)",
          [](PlanLayout& to) { to.offload = !to.offload; });
  }

  // One layer of a stage more or less that is recomputed, half of them, or all.
  void add_layers() {
    const int64_t most = layers_of_stage(work_, from_),
                  now = from_.recompute_layers > 0 ? from_.recompute_layers : most;
    for (const int64_t layers : {now - 1, now + 1, now / 2, most}) {
      if (layers < 1 || layers > most || layers == now || from_.offload || from_.to_host) continue;
      add(layers == most ? "recompute all layers" : fmt::format("recompute {} of {} layers", layers, most),
          [&](PlanLayout& to) { to.recompute_layers = layers; });
    }
  }

  void add_schedules() {
    if (from_.pp == 1) return;
    for (const auto schedule : {PipelineSchedule::k1F1B, PipelineSchedule::kGpipe, PipelineSchedule::kZbH1,
                                PipelineSchedule::kZbV, PipelineSchedule::kDualPipe}) {
      const auto name = recipe::names_of(schedule)[static_cast<size_t>(schedule)];
      add(fmt::format("schedule {}", name),
          [&](PlanLayout& to) { to.schedule = schedule, to.chunks = chunks_of(schedule); });
    }
    for (const int64_t chunks : {from_.chunks / 2, from_.chunks - 1, from_.chunks + 1, from_.chunks * 2}) {
      if (chunks < 2) continue;
      add(fmt::format("interleaved, {} stages a rank", chunks),
          [&](PlanLayout& to) { to.schedule = PipelineSchedule::kInterleaved, to.chunks = chunks; });
    }
  }

  const Work& work_;
  const PlanLayout& from_;
  int64_t batch_;
};

std::vector<std::pair<std::string, Cluster>> better_clusters(const Cluster& cluster) {
  std::vector<std::pair<std::string, Cluster>> all;
  const auto add = [&](const char* what, const std::function<void(Cluster&)>& edit) {
    all.emplace_back(what, cluster);
    edit(all.back().second);
  };
  add("a network twice as fast", [](Cluster& to) { to.device.nic_rate *= 2; });
  add("links in the node twice as fast", [](Cluster& to) { to.device.link_rate *= 2; });
  add("memory twice as fast", [](Cluster& to) { to.device.memory_rate *= 2; });
  add("half the launching", [](Cluster& to) { to.efficiency.layer_s /= 2; });
  return all;
}

}  // namespace

std::vector<Change> next_changes(const Work& work, const PlanCandidate& plan, const Cluster& cluster,
                                 int64_t batch) {
  std::vector<Change> changes;
  const auto add = [&](const std::string& what, Change::Of of, const PlanLayout& layout, const Cluster& on,
                       int64_t sequences) {
    if (std::ranges::any_of(changes, [&](const Change& one) {
          return one.of == Change::Of::kLayout && of == one.of && one.candidate.layout == layout;
        }))
      return;
    PlanCandidate candidate = evaluate(work, layout, on, sequences);
    const bool fits = candidate.memory.total() <= on.device.memory_bytes;
    changes.push_back({.what = what, .of = of, .candidate = std::move(candidate), .fits = fits});
  };
  for (const auto& [what, layout] : Neighbours(work, plan.layout, batch).all)
    add(what, Change::Of::kLayout, layout, cluster, batch);
  add("twice the batch", Change::Of::kBatch, plan.layout, cluster, 2 * batch);
  for (const auto& [what, better] : better_clusters(cluster))
    add(what, Change::Of::kCluster, plan.layout, better, batch);
  std::ranges::sort(changes, std::ranges::greater(),
                    [](const Change& change) { return change.candidate.tokens_per_second; });
  return changes;
}

}  // namespace longhaul::plan
