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

int64_t pieces_of_rank(const recipe::ContextOptions& context) {
  return context.split == recipe::ContextSplit::kZigzag ? 2 : 1;
}

// The states that leave the rank which sends most. All-gather sends those of all pieces to all other ranks. A
// chain (ring, all-scan) hands the state of each piece on to the next piece. With a contiguous split that is
// one a rank. With zig-zag every rank has two pieces, and the chain runs through all ranks and back: the
// first and the last rank send one, because a state crosses no link between two pieces of the last rank, and
// the ranks between them send two.
double states_sent(const recipe::ContextOptions& context, int64_t ranks) {
  const int64_t pieces = pieces_of_rank(context);
  if (context.linear == LinearContextMethod::kAllGather) return static_cast<double>(pieces * (ranks - 1));
  return pieces == 2 && ranks > 2 ? 2 : 1;
}

// In softmax layers the other ranks' keys and values come here, round a ring or all at once; or heads are
// exchanged for tokens, of queries, keys, values and results. parallel.linear_context = ulysses exchanges
// heads for tokens in linear layers too, whose states then stay where they are.
SentBytes sent_by_context_ranks(const LayerBytes& layer, const RankSizes& ranks) {
  if (ranks.cp == 1) return {};
  const ContextMethod method = ranks.context.softmax;
  const bool heads = method == ContextMethod::kUlysses || method == ContextMethod::kTwoLevel;
  const double cp = static_cast<double>(ranks.cp);
  const double tokens = heads ? (2 * layer.queries + layer.keys) / cp : layer.keys;
  const bool linear_heads = ranks.context.linear == LinearContextMethod::kUlysses;
  const double rows = linear_heads ? layer.linear_rows / cp : 0;
  const double states =
      layer.states * states_sent(ranks.context, ranks.cp) +
      layer.delta_states * static_cast<double>(pieces_of_rank(ranks.context) * (ranks.cp - 1));
  return {.sent = gathered_bytes(tokens + rows + 2 * layer.summed_states, ranks.cp) +
                  (linear_heads ? 0 : states)};
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

double states_in_turn(const recipe::ContextOptions& context, int64_t ranks) {
  if (context.linear == LinearContextMethod::kUlysses) return 0;
  const auto links = static_cast<double>(pieces_of_rank(context) * (ranks - 1));
  if (context.linear != LinearContextMethod::kAllScan || ranks == 1) return links;
  return 1 + (links - 1) / static_cast<double>(kScanSlices);
}

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
          return ranks.cp == 1 || ranks_of_heads(ranks.context.softmax, ranks.cp, heads) > 0;
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
          return ranks.cp == 1 || ranks.context.linear != LinearContextMethod::kUlysses ||
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
