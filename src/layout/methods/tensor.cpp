// Tensor parallelism: ranks share heads, inner channels and the vocabulary, and between mixers the tokens.
#include <fmt/format.h>

#include "layout/methods/methods.h"

namespace longhaul::layout {
namespace {

constexpr const EvenRule* kRulesOfTensorRanks[] = {&kHeadsOfTensorRanks};

// A mixer's input is gathered, and the sum of its outputs is dealt out again.
SentBytes sent_by_tensor_ranks(const LayerBytes& layer, const RankSizes& ranks) {
  return {.sent = gathered_bytes(2 * layer.hidden, ranks.tp)};
}

std::vector<recipe::ParallelOptions> proved_tensor_ranks() { return {{.tp = 2}, {.tp = 2, .tp_chunks = 3}}; }

}  // namespace

// Key heads are whole on a rank, or several ranks hold copies of one.
const EvenRule kHeadsOfTensorRanks = {
    .broken = "heads cannot be dealt out over tensor ranks",
    .holds =
        [](const SharedWork& work, const RankSizes& ranks) {
          return work.heads % ranks.tp == 0 &&
                 (work.key_heads % ranks.tp == 0 || ranks.tp % work.key_heads == 0);
        },
    .numbers =
        [](const SharedWork& work, const RankSizes& ranks) {
          return fmt::format("{} heads, {} of keys, over {}", work.heads, work.key_heads, ranks.tp);
        }};

const ParallelMethod kTensorParallelism = {.name = "tensor parallelism",
                                           .rules = kRulesOfTensorRanks,
                                           .sent = sent_by_tensor_ranks,
                                           .proved = proved_tensor_ranks};

}  // namespace longhaul::layout
