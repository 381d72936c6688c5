#include "parallel/context/context_attention.h"

#include <fmt/format.h>

#include "base/error.h"
#include "layout/methods/methods.h"
#include "parallel/context/context_pieces.h"
#include "parallel/context/gathered_attention.h"
#include "parallel/context/head_exchange.h"
#include "parallel/context/ring_attention.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using comm::Communicator;
using kernels::AttentionOptions;
using layout::SequenceView;
using recipe::ContextMethod;

// A ring whose members have no runs yet.
Ring ring_of(Communicator& group, const SequenceView& view, const AttentionOptions& options) {
  Ring ring{.group = &group, .own = group.rank()};
  ring.visible = kernels::Visibility::packed(view.layout.document_offsets, view.layout.document_offsets);
  ring.visible.window = options.window;
  ring.visible.causal = options.causal;
  return ring;
}

Tensor striped_attention(Communicator& group, const Tensor& q, const Tensor& k, const Tensor& v,
                         const SequenceView& view, const AttentionOptions& options) {
  Ring ring = ring_of(group, view, options);
  ring.stripes = group.size();
  for (const int64_t tokens : view.context_lengths()) {
    RingMember& member = ring.members.emplace_back(RingMember{.rank = std::ssize(ring.members)});
    if (tokens > 0) member.runs.push_back({0, tokens});
  }
  return ring_attention(ring, q, k, v, options.scale);
}

Tensor shared_attention(int64_t inner, Communicator& group, const Tensor& q, const Tensor& k, const Tensor& v,
                        const SequenceView& view, const AttentionOptions& options) {
  const std::vector<ContextPiece> pieces = context_pieces(view);
  const int64_t place = group.rank() % inner, rounds = group.size() / inner;
  Ring ring = ring_of(group, view, options);
  ring.own = group.rank() / inner;
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
  if (view.share.split == layout::ContextSplit::kStriped) {
    LONGHAUL_ASSERT(method == ContextMethod::kRing, "a striped row and method {}", static_cast<int>(method));
    return striped_attention(group, q, k, v, view, options);
  }
  if (method == ContextMethod::kAllGather) return gathered_attention(group, q, k, v, view, options);
  return shared_attention(head_ranks(method, group.size(), k.size(1)), group, q, k, v, view, options);
}

}  // namespace longhaul::parallel
