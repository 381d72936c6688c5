// Pipeline parallelism: ranks share the layers. Between stages hidden states travel, not within a layer.
#include <fmt/format.h>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

using recipe::PipelineSchedule;

constexpr const EvenRule* kRulesOfStages[] = {&kStagesOfLayers, &kRoundsOfStages};

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
    .holds = [](const SharedWork& work,
                const RankSizes& ranks) { return ranks.pp * ranks.chunks <= work.layers; },
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

const ParallelMethod kPipelineParallelism = {
    .name = "pipeline parallelism", .rules = kRulesOfStages, .proved = proved_stages};

}  // namespace longhaul::layout
