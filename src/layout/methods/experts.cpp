// Expert parallelism: ranks of a stage share the experts (ep), and ranks share each expert (etp).
#include <fmt/format.h>

#include <algorithm>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

using recipe::Dispatcher;

constexpr const EvenRule* kRulesOfExperts[] = {&kExpertsOfRanks, &kModelOfExperts};

// Sent, and as much back (parallel/experts/expert_dispatch.h): a row for each expert, and then on every rank
// of etp that has a part of it; all tokens; each token once to each rank that has any of its experts.
SentBytes sent_to_experts(const LayerBytes& layer, const RankSizes& of) {
  const double own = layer.hidden / static_cast<double>(of.tp), ep = static_cast<double>(of.ep),
               etp = static_cast<double>(of.etp), ranks = ep * etp;
  switch (of.dispatcher) {
    case Dispatcher::kAllGather:
      return {.sent = own * (ranks - 1)};
    case Dispatcher::kFlex:
      return {.sent = own * (ranks - 1) * std::min(1.0, layer.imbalance * layer.chance)};
    case Dispatcher::kAllToAll:
      break;
  }
  return {.sent = own * layer.rows_per_token * layer.imbalance * (ep - 1) / ep,
          .within_expert = own * layer.rows_per_token * layer.imbalance * (etp - 1)};
}

std::vector<recipe::ParallelOptions> proved_experts() {
  return {{.ep = 2},
          {.etp = 2},
          {.ep = 2, .experts = {.dispatcher = Dispatcher::kAllGather}},
          {.ep = 4, .experts = {.dispatcher = Dispatcher::kFlex}},
          {.ep = 2, .etp = 2, .experts = {.token_groups = 2, .delay_gradients = true}},
          // Rows travel while the other pass of a pair computes.
          {.pp = 2, .cp = 2, .ep = 2, .pipeline = {.schedule = recipe::PipelineSchedule::kDualPipe}}};
}

}  // namespace

const EvenRule kExpertsOfRanks = {.broken = "experts cannot be dealt out",
                                  .holds =
                                      [](const SharedWork& work, const RankSizes& ranks) {
                                        return ranks.stage_ranks() % (ranks.ep * ranks.etp) == 0 &&
                                               (ranks.ep == 1 || work.experts % ranks.ep == 0);
                                      },
                                  .numbers =
                                      [](const SharedWork& work, const RankSizes& ranks) {
                                        return fmt::format("{} experts over {} of {} ranks of a stage",
                                                           work.experts, ranks.ep, ranks.stage_ranks());
                                      }};

const EvenRule kModelOfExperts = {
    .broken = "the model has no experts that ranks could share",
    .holds = [](const SharedWork& work,
                const RankSizes& ranks) { return work.experts > 0 || (ranks.ep == 1 && ranks.etp == 1); },
    .numbers = [](const SharedWork&,
                  const RankSizes& ranks) { return fmt::format("ep {}, etp {}", ranks.ep, ranks.etp); }};

const ParallelMethod kExpertParallelism = {.name = "expert parallelism",
                                           .rules = kRulesOfExperts,
                                           .sent = sent_to_experts,
                                           .proved = proved_experts};

}  // namespace longhaul::layout
