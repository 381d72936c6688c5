// Context parallelism: ranks share the tokens of a sequence. docs/sources/long-context-parallelism.md A8 has
// the bytes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

using recipe::ContextMethod, recipe::LinearContextMethod;

constexpr const EvenRule* kRulesOfContextRanks[] = {&kHeadsOfContextRanks, &kHeadsOfLinearContext};

// In softmax layers the other ranks' keys and values come here, round a ring or all at once; or heads are
// exchanged for tokens, of queries, keys, values and results. Recurrences exchange states, which every rank
// but the last passes on (ring, all-scan); parallel.linear_context = all-gather sends all of them to all
// ranks, and with ulysses they exchange heads for tokens.
SentBytes sent_by_context_ranks(const LayerBytes& layer, const RankSizes& ranks) {
  const bool heads = ranks.context == ContextMethod::kUlysses || ranks.context == ContextMethod::kTwoLevel;
  const double cp = static_cast<double>(ranks.cp);
  const double tokens = heads ? (2 * layer.queries + layer.keys) / cp : layer.keys;
  const double linear =
      ranks.linear_context == LinearContextMethod::kUlysses ? layer.linear_rows / cp : layer.states;
  return {.sent = gathered_bytes(tokens + linear, ranks.cp)};
}

std::vector<recipe::ParallelOptions> proved_context_ranks() {
  using enum recipe::ContextMethod;
  using enum recipe::ContextSplit;
  constexpr auto kAllScan = LinearContextMethod::kAllScan;
  return {{.cp = 2, .context = {.split = kContiguous}},
          {.cp = 2},
          {.cp = 2, .context = {.softmax = kUlysses, .linear = kAllScan}},
          {.cp = 2, .context = {.softmax = kUlysses, .linear = LinearContextMethod::kUlysses}},
          {.cp = 4, .context = {kRing, LinearContextMethod::kRing, kContiguous}},
          {.cp = 4, .context = {kRing, LinearContextMethod::kRing, kZigzag}},
          {.cp = 2, .context = {.softmax = kRing, .split = kStriped}},
          {.cp = 4, .context = {.softmax = kTwoLevel, .linear = kAllScan, .split = kContiguous}}};
}

}  // namespace

int64_t ranks_of_heads(ContextMethod method, int64_t ranks, int64_t key_heads) {
  const int64_t inner = method == ContextMethod::kRing || method == ContextMethod::kAllGather ? 1
                        : method == ContextMethod::kUlysses                                   ? ranks
                                                            : std::gcd(ranks, key_heads);
  return key_heads % inner == 0 ? inner : 0;
}

const EvenRule kHeadsOfContextRanks = {
    .broken = "context ranks cannot share the heads of attention",
    .holds =
        [](const SharedWork& work, const RankSizes& ranks) {
          const int64_t heads = std::max<int64_t>(1, work.key_heads / ranks.tp);
          return ranks.cp == 1 || ranks_of_heads(ranks.context, ranks.cp, heads) > 0;
        },
    .numbers =
        [](const SharedWork& work, const RankSizes& ranks) {
          return fmt::format("{} key heads on each of {} tensor ranks, over cp {}",
                             std::max<int64_t>(1, work.key_heads / ranks.tp), ranks.tp, ranks.cp);
        }};

const EvenRule kHeadsOfLinearContext = {
    .broken = "context ranks cannot share the heads of linear layers",
    .holds =
        [](const SharedWork& work, const RankSizes& ranks) {
          return ranks.cp == 1 || ranks.linear_context != LinearContextMethod::kUlysses ||
                 work.linear_heads == 0 || std::max<int64_t>(1, work.linear_heads / ranks.tp) % ranks.cp == 0;
        },
    .numbers =
        [](const SharedWork& work, const RankSizes& ranks) {
          return fmt::format("{} heads on each of {} tensor ranks, over cp {}",
                             std::max<int64_t>(1, work.linear_heads / ranks.tp), ranks.tp, ranks.cp);
        }};

const ParallelMethod kContextParallelism = {.name = "context parallelism",
                                            .rules = kRulesOfContextRanks,
                                            .sent = sent_by_context_ranks,
                                            .proved = proved_context_ranks};

}  // namespace longhaul::layout
