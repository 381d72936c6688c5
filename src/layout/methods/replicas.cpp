// Data parallelism: replicas of the model share a step's sequences. What it sends comes once a step, or with
// every pass under ZeRO (plan/reductions.h), and not within a layer.
#include <fmt/format.h>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

constexpr const EvenRule* kRulesOfReplicas[] = {&kRanksOfReplicas, &kSequencesOfReplicas};

std::vector<recipe::ParallelOptions> proved_replicas() { return {{.ranks = 2}}; }

}  // namespace

const EvenRule kRanksOfReplicas = {
    .broken = "the devices cannot be dealt out",
    .holds = [](const SharedWork&,
                const RankSizes& ranks) { return ranks.world % (ranks.tp * ranks.pp * ranks.cp) == 0; },
    .numbers =
        [](const SharedWork&, const RankSizes& ranks) {
          return fmt::format("tp {} · pp {} · cp {} does not divide {}", ranks.tp, ranks.pp, ranks.cp,
                             ranks.world);
        }};

const EvenRule kSequencesOfReplicas = {
    .broken = "the batch cannot be dealt out",
    .holds = [](const SharedWork& work,
                const RankSizes& ranks) { return work.batch % (ranks.dp * ranks.micro_batch) == 0; },
    .numbers =
        [](const SharedWork& work, const RankSizes& ranks) {
          return fmt::format("{} sequences over dp {} · micro-batch {}", work.batch, ranks.dp,
                             ranks.micro_batch);
        }};

const ParallelMethod kReplicas = {
    .name = "data parallelism", .rules = kRulesOfReplicas, .proved = proved_replicas};

}  // namespace longhaul::layout
