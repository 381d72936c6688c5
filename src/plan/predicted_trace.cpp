#include "plan/predicted_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/error.h"
#include "plan/simulated.h"

namespace longhaul::plan {
namespace {

using layout::Pass;
using observe::SpanKind;

int64_t ns_of(double seconds) { return std::llround(1e9 * seconds); }

// Exchanges of one pass over one chunk, in seconds, by the group that makes them.
struct Exchange {
  const char* group;
  const char* kind;
  double forward, backward;
  bool hidden_in_turns = false;  // by the other pass of a pair
};

std::vector<Exchange> exchanges_of(const PlanLayout& layout, double micro_batches, const StepParts& parts) {
  const double each = micro_batches * static_cast<double>(layout.visits());
  return {{"tp", "all_gather", parts.tensor_exchange / each / 2, parts.tensor_exchange / each / 2},
          {"cp", "all_gather", parts.context_exchange / each / 3, 2 * parts.context_exchange / each / 3},
          {"ep", "all_to_all", parts.expert_exchange / each / 2, parts.expert_exchange / each / 2, true}};
}

SpanKind kind_of(const layout::Action& action) {
  switch (action.pass) {
    case Pass::kForward:
      return SpanKind::kForward;
    case Pass::kBackward:
      return SpanKind::kBackward;
    case Pass::kBackwardInput:
      return SpanKind::kBackwardInput;
    default:
      return SpanKind::kBackwardWeight;
  }
}

// Without a pipeline: each micro-batch forward and backward; the head is part of both, once and twice.
layout::Timeline one_after_the_other(int64_t micro_batches, const StepParts& parts) {
  layout::Timeline timeline;
  timeline.ranks.resize(1);
  const double head = parts.head / static_cast<double>(micro_batches);
  double now = 0;
  for (int64_t m = 0; m < micro_batches; ++m) {
    for (const bool forward : {true, false}) {
      const double took =
          forward ? parts.forward + head / 3 : parts.backward_input + parts.backward_weight + 2 * head / 3;
      timeline.ranks[0].push_back(
          {.action = {.pass = forward ? Pass::kForward : Pass::kBackward, .micro_batch = m},
           .begin = now,
           .end = now + took});
      now += took;
    }
  }
  timeline.makespan = now;
  return timeline;
}

class StepWriter {
 public:
  StepWriter(observe::StepTrace& step, int64_t begin_ns) : step_(step), begin_ns_(begin_ns) {}

  void span(SpanKind kind, double begin, double end, int64_t chunk = -1, int64_t micro_batch = -1) {
    step_.spans.push_back(
        {.kind = kind, .begin_ns = at(begin), .end_ns = at(end), .chunk = chunk, .micro_batch = micro_batch});
  }
  // The computing thread waits for it.
  void call(const char* group, int64_t of, const char* kind, const std::string& name, double begin,
            double end) {
    if (end <= begin) return;
    step_.calls.push_back({.group = fmt::format("planned/{} {}", group, of),
                           .kind = kind,
                           .name = name,
                           .sequence = static_cast<int64_t>(step_.calls.size()),
                           .begin_ns = at(begin),
                           .end_ns = at(end),
                           .waited_from_ns = at(begin),
                           .waited_until_ns = at(end)});
  }

 private:
  int64_t at(double seconds) const { return begin_ns_ + ns_of(seconds); }
  observe::StepTrace& step_;
  int64_t begin_ns_;
};

}  // namespace

std::vector<observe::TraceRank> ranks_of_stages(const PlanLayout& layout) {
  std::vector<observe::TraceRank> ranks;
  for (int64_t pp = 0; pp < layout.pp; ++pp)
    ranks.push_back({.rank = pp * layout.world() / layout.pp, .pp = pp});
  return ranks;
}

std::vector<observe::RankTrace> predicted_trace(const PlanLayout& plan, int64_t batch, const StepParts& parts,
                                                const std::vector<observe::TraceRank>& ranks, int64_t step,
                                                int64_t begin_ns) {
  constexpr int64_t kMostActions = 2'000'000;
  const int64_t micro_batches = plan.micro_batches(batch);
  const auto timeline = plan.pp == 1 ? one_after_the_other(micro_batches, parts)
                                     : simulated(plan, micro_batches, parts, kMostActions);
  if (!timeline) {
    throw Error({.code = ExitCode::kData,
                 .what = "the schedule is too long to be played",
                 .expected = fmt::format("at most {} actions", kMostActions),
                 .found = fmt::format("{} stages, {} micro-batches", plan.pp * plan.chunks, micro_batches),
                 .hint = "a smaller train.batch shows the same picture"});
  }
  const auto exchanges = exchanges_of(plan, static_cast<double>(micro_batches), parts);
  std::vector<observe::RankTrace> traces;
  for (const observe::TraceRank& rank : ranks) {
    observe::RankTrace trace{.rank = rank};
    trace.rank.rank += observe::kFirstPlannedRank;
    observe::StepTrace& of_step = trace.steps.emplace_back();
    of_step.step = step, of_step.begin_ns = begin_ns;
    StepWriter writer(of_step, begin_ns);
    for (const layout::PassSpan& pass : timeline->ranks.at(static_cast<size_t>(rank.pp))) {
      writer.span(kind_of(pass.action), pass.begin, pass.end, plan.chunks > 1 ? pass.action.chunk : -1,
                  pass.action.micro_batch);
      if (pass.action.pass == Pass::kBackwardWeight) continue;  // nothing of it is exchanged
      double end = pass.end;
      for (const Exchange& exchange : exchanges) {
        if (pass.in_turns && exchange.hidden_in_turns) continue;
        const double took = pass.action.pass == Pass::kForward ? exchange.forward : exchange.backward;
        writer.call(exchange.group, trace.rank.rank, exchange.kind,
                    fmt::format("of micro-batch {}", pass.action.micro_batch), end - took, end);
        end -= took;
      }
    }
    double now = timeline->makespan;
    const auto next = [&](double seconds) {
      const double begin = now;
      now += seconds;
      return std::pair(begin, now);
    };
    if (plan.pp > 1 && parts.head > 0) {
      const auto [begin, end] = next(parts.head);
      writer.span(SpanKind::kNumbers, begin, end);
    }
    if (parts.offload > 0) {
      const auto [begin, end] = next(parts.offload);
      writer.call("file", trace.rank.rank, "copy", "activations", begin, end);
    }
    if (parts.gradients > 0) {
      const auto [begin, end] = next(parts.gradients);
      writer.span(SpanKind::kGradients, begin, end);
      writer.call("dp", trace.rank.rank, "reduce_scatter", "gradients, and weights back", begin, end);
    }
    const auto [begin, end] = next(parts.update + parts.fixed);
    writer.span(SpanKind::kOptimizer, begin, end);
    of_step.end_ns = begin_ns + ns_of(now);
    traces.push_back(std::move(trace));
  }
  return traces;
}

}  // namespace longhaul::plan
