#include "layout/schedule/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "layout/schedule/schedule_orders.h"
#include "recipe/options/option.h"

namespace longhaul::layout {
namespace {

[[noreturn]] void refuse_micro_batches(const Pipeline& pipeline, int64_t micro_batches,
                                       std::string expected) {
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("the schedule {} does not take this number of micro-batches on {} ranks",
                                   recipe::name_of_value(pipeline.schedule()), pipeline.ranks()),
               .expected = std::move(expected),
               .found = fmt::format("{} micro-batches", micro_batches),
               .where = "parallel.schedule, parallel.pp, train.batch and train.micro_batch",
               .hint = "parallel.schedule=1f1b"});
}

// Rank r's passes and the most activations that it holds.
struct RankOrder {
  Passes passes;
  int64_t most_in_flight = 0;
};

RankOrder order_of_rank(const Pipeline& pipeline, int64_t rank, int64_t m) {
  const int64_t p = pipeline.ranks(), v = pipeline.chunks();
  switch (pipeline.schedule()) {
    case PipelineSchedule::kGpipe:
      return {gpipe_passes(rank, p, m), m};
    case PipelineSchedule::k1F1B:
      return {one_forward_one_backward(rank, p, m), std::min(p - rank, m)};
    case PipelineSchedule::kInterleaved: {
      const int64_t run = interleaved_run(p, m);
      return {interleaved_passes(rank, p, v, m, run),
              std::min(interleaved_warm_up(rank, p, v, m, run) + 1, m * v)};
    }
    case PipelineSchedule::kZbH1:
      return {zero_bubble_h1(rank, p, m), std::min(p, m)};
    case PipelineSchedule::kZbV:
      return {zero_bubble_v(rank, p, m), std::min(2 * p, 2 * m)};
    case PipelineSchedule::kDualPipe:
      return {dual_pipe(rank, p, m), std::min(p + 1, m)};
  }
  LONGHAUL_ASSERT(false, "unknown schedule");
  return {};
}

}  // namespace

int64_t Schedule::stage_of(int64_t rank, const Action& action) const {
  if (action.chunk < 0 || action.chunk >= pipeline.chunks()) return -1;
  if (pipeline.routes() == 2 && route_of(action.micro_batch) != action.chunk) return -1;
  return pipeline.stage_of({rank, action.chunk});
}

Schedule passes_of(const Pipeline& pipeline, int64_t micro_batches) {
  const int64_t p = pipeline.ranks();
  if (micro_batches < 1) refuse_micro_batches(pipeline, micro_batches, "at least 1");
  if (pipeline.schedule() == PipelineSchedule::kInterleaved && interleaved_run(p, micro_batches) == 0) {
    refuse_micro_batches(pipeline, micro_batches, fmt::format("at least {}, one for each rank", p));
  }
  if (pipeline.schedule() == PipelineSchedule::kDualPipe &&
      (micro_batches % 2 != 0 || micro_batches < 2 * p)) {
    refuse_micro_batches(pipeline, micro_batches,
                         fmt::format("an even number of at least {}, two for each rank", 2 * p));
  }
  Schedule schedule{.pipeline = pipeline, .micro_batches = micro_batches, .ranks = {}, .most_in_flight = {}};
  if (pipeline.schedule() == PipelineSchedule::kInterleaved)
    schedule.gradients_under_way = interleaved_run(p, micro_batches) - p + 1;
  for (int64_t rank = 0; rank < p; ++rank) {
    RankOrder order = order_of_rank(pipeline, rank, micro_batches);
    schedule.ranks.push_back(std::move(order.passes));
    schedule.most_in_flight.push_back(order.most_in_flight);
  }
  return schedule;
}

Schedule make_schedule(const Pipeline& pipeline, int64_t micro_batches) {
  Schedule passes = passes_of(pipeline, micro_batches);
  return pipeline.pairs_in_turns() ? with_transfers_around_pairs(std::move(passes))
                                   : with_transfers(std::move(passes));
}

Schedule forward_schedule(const Pipeline& pipeline, int64_t micro_batches) {
  Schedule schedule{.pipeline = pipeline,
                    .micro_batches = micro_batches,
                    .ranks = std::vector<Passes>(static_cast<size_t>(pipeline.ranks())),
                    .trains = false,
                    .most_in_flight = std::vector<int64_t>(static_cast<size_t>(pipeline.ranks()),
                                                           micro_batches * pipeline.chunks())};
  for (int64_t m = 0; m < micro_batches; ++m) {
    for (int64_t stage = 0; stage < pipeline.stages(); ++stage) {
      const Hop hop = pipeline.hop(schedule.route_of(m), stage);
      schedule.ranks[static_cast<size_t>(hop.rank)].push_back(
          {.pass = Pass::kForward, .chunk = hop.chunk, .micro_batch = m});
    }
  }
  return with_transfers(std::move(schedule));
}

std::string text(const Action& action) {
  const std::string place = fmt::format("{}.{}", action.chunk, action.micro_batch);
  const char* const tensor = action.channel == Channel::kGradients ? "gradient" : "hidden states";
  switch (action.pass) {
    case Pass::kForward:
      return "F" + place;
    case Pass::kBackward:
    case Pass::kBackwardInput:
      return "B" + place;
    case Pass::kBackwardWeight:
      return "W" + place;
    case Pass::kStartReceive:
      return fmt::format("start receiving the {} of {} from rank {}", tensor, place, action.peer);
    case Pass::kWaitReceive:
      return fmt::format("wait for the {} of {} from rank {}", tensor, place, action.peer);
    case Pass::kStartSend:
      return fmt::format("start sending the {} of {} to rank {}", tensor, place, action.peer);
    case Pass::kWaitSend:
      return fmt::format("wait until the {} of {} are at rank {}", tensor, place, action.peer);
  }
  return place;
}

std::string text(const std::vector<Action>& of_a_rank) {
  std::string line;
  for (const Action& action : of_a_rank) {
    if (!action.transfer()) line += (line.empty() ? "" : " ") + text(action);
  }
  return line;
}

}  // namespace longhaul::layout
