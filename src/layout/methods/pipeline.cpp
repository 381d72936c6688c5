// Pipeline parallelism: ranks share the layers. Between stages hidden states travel, not within a layer.
#include <fmt/format.h>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

using recipe::PipelineSchedule;

constexpr const EvenRule* kRulesOfStages[] = {&kStagesOfLayers, &kRoundsOfStages, &kPairsOfStages};

std::vector<recipe::ParallelOptions> proved_stages() {
  using enum recipe::PipelineSchedule;
  return {{.pp = 2},
          {.pp = 2, .pipeline = {.schedule = kGpipe}},
          {.pp = 2, .pipeline = {.schedule = kInterleaved, .chunks = 2}},
          {.pp = 2, .pipeline = {.schedule = kZbH1}},
          {.pp = 2, .pipeline = {.schedule = kZbV}},
          {.pp = 2, .pipeline = {.schedule = kDualPipe}}};
}

}  // namespace

const EvenRule kStagesOfLayers = {
    .broken = "there are more pipeline stages than layers",
    .holds = [](const SharedWork& work, const RankSizes& ranks) { return stages_of(ranks) <= work.layers; },
    .numbers =
        [](const SharedWork& work, const RankSizes& ranks) {
          return fmt::format("{} stages on each of {} ranks, {} layers", ranks.chunks, ranks.pp, work.layers);
        }};

const EvenRule kRoundsOfStages = {.broken = "interleaved stages need whole rounds",
                                  .holds =
                                      [](const SharedWork& work, const RankSizes& ranks) {
                                        return ranks.schedule != PipelineSchedule::kInterleaved ||
                                               ranks.micro_batches(work.batch) % ranks.pp == 0;
                                      },
                                  .numbers =
                                      [](const SharedWork& work, const RankSizes& ranks) {
                                        return fmt::format("{} micro-batches over pp {}",
                                                           ranks.micro_batches(work.batch), ranks.pp);
                                      }};

const EvenRule kPairsOfStages = {
    .broken = "dualpipe cannot pair its ranks or micro-batches",
    .holds =
        [](const SharedWork& work, const RankSizes& ranks) {
          if (ranks.schedule != PipelineSchedule::kDualPipe || ranks.pp == 1) return true;
          const int64_t micro_batches = ranks.micro_batches(work.batch);
          return ranks.pp % 2 == 0 && micro_batches % 2 == 0 && micro_batches >= 2 * ranks.pp &&
                 !work.judges_batch;
        },
    .numbers =
        [](const SharedWork& work, const RankSizes& ranks) {
          if (work.judges_batch) return std::string("experts judge all sequences of a step on one rank");
          return fmt::format("{} micro-batches over pp {}", ranks.micro_batches(work.batch), ranks.pp);
        }};

const ParallelMethod kPipelineParallelism = {
    .name = "pipeline parallelism", .rules = kRulesOfStages, .proved = proved_stages};

}  // namespace longhaul::layout
