#include "parallel/context/context_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/experts/rows.h"
#include "layout/methods/methods.h"
#include "parallel/collectives.h"
#include "parallel/context/context_pieces.h"
#include "parallel/context/gathered_attention.h"
#include "parallel/context/ring_attention.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using comm::Communicator;
using kernels::AttentionOptions;
using layout::Range;
using layout::SequenceView;
using recipe::ContextMethod;

Tensor rows_at(const Tensor& x_thd, const Tensor& index) {
  return kernels::take_rows(x_thd.flatten(1), index).view({index.size(0), x_thd.size(1), x_thd.size(2)});
}

// `inner` neighbours among the context ranks, who hold together some runs of the row: rank first, first + 1,
// ….
struct Neighbours {
  int64_t first = 0;
  std::vector<Range> runs;  // in the order of the row
  // tokens of one rank after the other: element i of the runs is token order[i] of these
  std::vector<int64_t> order;
  std::vector<int64_t> rank_tokens;  // of each
};

Neighbours neighbours_of(const SequenceView& view, const std::vector<ContextPiece>& pieces, int64_t first,
                         int64_t inner) {
  Neighbours all{.first = first};
  const std::vector<int64_t> lengths = view.context_lengths();
  all.rank_tokens.assign(lengths.begin() + first, lengths.begin() + first + inner);
  for (const ContextPiece& piece : pieces) {
    if (piece.rank < first || piece.rank >= first + inner) continue;
    const auto before =
        std::accumulate(lengths.begin() + first, lengths.begin() + piece.rank, piece.local_begin);
    for (int64_t i = 0; i < piece.tokens.length; ++i) all.order.push_back(before + i);
    if (!all.runs.empty() && all.runs.back().end() == piece.tokens.begin) {
      all.runs.back().length += piece.tokens.length;
    } else {
      all.runs.push_back(piece.tokens);
    }
  }
  return all;
}

// All heads of own tokens ↔ the own share of the heads of the neighbours' tokens, in the order of their runs.
class HeadExchange {
 public:
  HeadExchange(Communicator& group, const Neighbours& all, at::Device device)
      : group_(group),
        ranks_(static_cast<int64_t>(all.rank_tokens.size())),
        own_tokens_(all.rank_tokens[static_cast<size_t>(group.rank() - all.first)]),
        own_rows_(static_cast<size_t>(group.size())),
        rows_(own_rows_),
        order_(to_tensor(all.order, device)),
        back_(to_tensor(layout::inverse_permutation(all.order), device)) {
    for (int64_t i = 0; i < ranks_; ++i) {
      own_rows_[static_cast<size_t>(all.first + i)] = own_tokens_;
      rows_[static_cast<size_t>(all.first + i)] = all.rank_tokens[static_cast<size_t>(i)];
    }
  }
  Tensor to_heads(const Tensor& x_thd, const char* name) const {
    if (ranks_ == 1) return rows_at(x_thd, order_);
    const int64_t heads = x_thd.size(1) / ranks_, channels = x_thd.size(2);
    const Tensor by_rank =
        x_thd.view({own_tokens_, ranks_, heads, channels}).transpose(0, 1).reshape({-1, heads, channels});
    return rows_at(exchange_rows(group_, by_rank, own_rows_, rows_, name), order_);
  }
  Tensor to_tokens(const Tensor& x_nhd, const char* name) const {
    if (ranks_ == 1) return rows_at(x_nhd, back_);
    const int64_t heads = x_nhd.size(1), channels = x_nhd.size(2);
    const Tensor by_rank = exchange_rows(group_, rows_at(x_nhd, back_), rows_, own_rows_, name);
    return by_rank.view({ranks_, own_tokens_, heads, channels})
        .transpose(0, 1)
        .reshape({own_tokens_, ranks_ * heads, channels});
  }

 private:
  Communicator& group_;
  int64_t ranks_, own_tokens_;
  // of the exchange, by rank: of own tokens, and of the neighbours' to their ranks
  std::vector<int64_t> own_rows_, rows_;
  Tensor order_, back_;
};

Tensor shared_attention(int64_t inner, Communicator& group, const Tensor& q, const Tensor& k, const Tensor& v,
                        const SequenceView& view, const AttentionOptions& options) {
  const std::vector<ContextPiece> pieces = context_pieces(view);
  const int64_t place = group.rank() % inner, rounds = group.size() / inner;
  Ring ring{.group = &group, .own = group.rank() / inner};
  ring.visible = kernels::Visibility::packed(view.layout.document_offsets, view.layout.document_offsets);
  ring.visible.window = options.window;
  ring.visible.causal = options.causal;
  for (int64_t i = 0; i < rounds; ++i) {
    ring.members.push_back(
        {.rank = i * inner + place, .runs = neighbours_of(view, pieces, i * inner, inner).runs});
  }
  const HeadExchange heads(group, neighbours_of(view, pieces, ring.own * inner, inner), q.device());
  const Tensor of_q = heads.to_heads(q, "queries to heads"), of_k = heads.to_heads(k, "keys to heads"),
               of_v = heads.to_heads(v, "values to heads");
  const Tensor documents = to_tensor(view.layout.document_offsets);
  const Tensor o = rounds == 1 ? kernels::attention(of_q, of_k, of_v, documents, {}, options).o_thd
                               : ring_attention(ring, of_q, of_k, of_v, options.scale);
  return heads.to_tokens(o, "attention to tokens");
}

}  // namespace

int64_t head_ranks(ContextMethod method, int64_t ranks, int64_t key_heads) {
  if (const int64_t inner = layout::ranks_of_heads(method, ranks, key_heads); inner > 0) return inner;
  throw Error({.code = ExitCode::kUsage,
               .what = std::string(layout::kHeadsOfContextRanks.broken),
               .expected = fmt::format(
                   "a number of key heads on each tensor rank that {} context ranks divide", ranks),
               .found = std::to_string(key_heads),
               .where = "parallel.context",
               .hint = "parallel.context=two-level or parallel.context=ring"});
}

Tensor context_attention(ContextMethod method, Communicator& group, const Tensor& q, const Tensor& k,
                         const Tensor& v, const SequenceView& view, const AttentionOptions& options) {
  if (method == ContextMethod::kAllGather) return gathered_attention(group, q, k, v, view, options);
  return shared_attention(head_ranks(method, group.size(), k.size(1)), group, q, k, v, view, options);
}

}  // namespace longhaul::parallel
