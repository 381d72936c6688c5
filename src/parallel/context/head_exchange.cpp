#include "parallel/context/head_exchange.h"

#include <numeric>

#include "kernels/experts/rows.h"
#include "parallel/collectives.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

Tensor rows_at(const Tensor& x_thd, const Tensor& index) {
  return kernels::take_rows(x_thd.flatten(1), index).view({index.size(0), x_thd.size(1), x_thd.size(2)});
}

}  // namespace

Neighbours neighbours_of(const layout::SequenceView& view, const std::vector<ContextPiece>& pieces,
                         int64_t first, int64_t inner) {
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

HeadExchange::HeadExchange(comm::Communicator& group, const Neighbours& all, at::Device device)
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

Tensor HeadExchange::to_heads(const Tensor& x_thd, const char* name) const {
  if (ranks_ == 1) return rows_at(x_thd, order_);
  const int64_t heads = x_thd.size(1) / ranks_, channels = x_thd.size(2);
  const Tensor by_rank =
      x_thd.reshape({own_tokens_, ranks_, heads, channels}).transpose(0, 1).reshape({-1, heads, channels});
  return rows_at(exchange_rows(group_, by_rank, own_rows_, rows_, name), order_);
}

Tensor HeadExchange::to_tokens(const Tensor& x_nhd, const char* name) const {
  if (ranks_ == 1) return rows_at(x_nhd, back_);
  const int64_t heads = x_nhd.size(1), channels = x_nhd.size(2);
  const Tensor by_rank = exchange_rows(group_, rows_at(x_nhd, back_), rows_, own_rows_, name);
  return by_rank.view({ranks_, own_tokens_, heads, channels})
      .transpose(0, 1)
      .reshape({own_tokens_, ranks_ * heads, channels});
}

}  // namespace longhaul::parallel
