#include "parallel/context/context_bidirectional.h"

#include <algorithm>
#include <limits>
#include <map>

#include "kernels/differentiable.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {
namespace {

using comm::Reduction;
using kernels::BackwardCall;
using kernels::Recorded;

ScalarType wide_of(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

Tensor run_of(const Tensor& x, const layout::Segment& segment) {
  return x.narrow(0, segment.local_start, segment.length).to(wide_of(x));
}

// A row of sums for each document that this rank has tokens of or that several ranks have; the latter first,
// alike on all of them.
class DocumentSums {
 public:
  DocumentSums(comm::Communicator& group, const layout::SequenceView& view)
      : group_(&group), segments_(view.segments) {
    for (int64_t d = 0; d < view.layout.documents(); ++d) {
      if (is_shared(view, d)) rows_.emplace(d, static_cast<int64_t>(rows_.size()));
    }
    shared_ = static_cast<int64_t>(rows_.size());
    for (const layout::Segment& segment : segments_)
      rows_.emplace(segment.document, static_cast<int64_t>(rows_.size()));
    for (const layout::Segment& segment : segments_)
      row_of_token_.insert(row_of_token_.end(), static_cast<size_t>(segment.length),
                           rows_.at(segment.document));
  }

  // Of runs of this rank's tokens, [tokens, …] → […], which join(row, of run) puts into the row of their
  // document.
  template <class OfRun, class Join>
  Tensor over_runs(const std::vector<int64_t>& sizes, double nothing, const Tensor& like, const OfRun& of_run,
                   const Join& join, Reduction reduction, const char* name) const {
    std::vector<int64_t> all = sizes;
    all.insert(all.begin(), static_cast<int64_t>(rows_.size()));
    const Tensor sums = at::full(all, nothing, like.options().dtype(wide_of(like)).requires_grad(false));
    for (const layout::Segment& segment : segments_) {
      const Tensor row = sums[rows_.at(segment.document)];
      join(row, of_run(segment));
    }
    if (shared_ > 0) group_->all_reduce(sums.narrow(0, 0, shared_), reduction, {.name = name}).wait();
    return sums;
  }
  template <class OfRun>
  Tensor sum(const std::vector<int64_t>& sizes, const Tensor& like, const OfRun& of_run,
             const char* name) const {
    return over_runs(
        sizes, 0, like, of_run, [](const Tensor& row, const Tensor& part) { row.add_(part); },
        Reduction::kSum, name);
  }
  // Of each token its document's row.
  Tensor of_tokens(const Tensor& sums) const {
    return sums.index_select(0, to_tensor(row_of_token_, sums.device()));
  }
  // What make(run, its document's row) gives of all runs, put together.
  template <class Make>
  Tensor for_each_run(const Tensor& sums, const Tensor& like, const Make& make) const {
    const Tensor result = at::empty(like.sizes(), like.options().requires_grad(false));
    for (const layout::Segment& segment : segments_)
      result.narrow(0, segment.local_start, segment.length)
          .copy_(make(segment, sums[rows_.at(segment.document)]));
    return result;
  }

 private:
  static bool is_shared(const layout::SequenceView& view, int64_t document) {
    const layout::Range tokens = view.layout.document(document);
    int64_t owners = 0;
    for (int64_t rank = 0; rank < view.share.context_ranks; ++rank) {
      const auto chunks =
          layout::context_chunks(view.layout.tokens(), view.share.context_ranks, rank, view.share.split);
      owners += std::ranges::any_of(chunks, [&](const layout::Range& c) {
        return c.length > 0 && tokens.length > 0 && c.begin < tokens.end() && tokens.begin < c.end();
      });
    }
    return owners > 1;
  }

  comm::Communicator* group_;
  std::vector<layout::Segment> segments_;
  std::map<int64_t, int64_t> rows_;  // by document
  int64_t shared_ = 0;
  std::vector<int64_t> row_of_token_;
};

Tensor by_head(const Tensor& run_thc) { return run_thc.transpose(0, 1); }

// aᵀ b of a run's heads: [heads, channels of a, channels of b].
Tensor products(const Tensor& a, const Tensor& b, const layout::Segment& segment) {
  return at::matmul(by_head(run_of(a, segment)).transpose(1, 2), by_head(run_of(b, segment)));
}

}  // namespace

Tensor context_segment_softmax(comm::Communicator& group, const Tensor& x, const layout::SequenceView& view) {
  const DocumentSums documents(group, view);
  const std::vector<int64_t> channels{x.size(1)};
  return kernels::differentiable("context_segment_softmax", {x}, [&]() -> Recorded {
    const auto run = [&](const layout::Segment& segment) { return run_of(x, segment); };
    const Tensor largest = documents.over_runs(
        channels, -std::numeric_limits<double>::infinity(), x,
        [&](const layout::Segment& segment) { return run(segment).amax(0); },
        [](const Tensor& row, const Tensor& part) { row.copy_(at::maximum(row, part)); }, Reduction::kMax,
        "largest logits of documents");
    const Tensor grown = x.to(wide_of(x)).sub(documents.of_tokens(largest)).exp_();
    const Tensor sums = documents.sum(
        channels, x, [&](const layout::Segment& segment) { return run_of(grown, segment).sum(0); },
        "sums of exponentials of documents");
    const Tensor k = grown.div_(documents.of_tokens(sums)).to(x.scalar_type());
    return {.results = {k}, .saved = {k}, .backward = [documents, channels](const BackwardCall& call) {
              const Tensor &of = call.saved[0], both = of.to(wide_of(of)).mul(call.gradients[0]);
              const Tensor slopes = documents.sum(
                  channels, of, [&](const layout::Segment& segment) { return run_of(both, segment).sum(0); },
                  "sums of exponentials of documents (gradient)");
              return std::vector<Tensor>{both.sub(of.mul(documents.of_tokens(slopes))).to(of.scalar_type())};
            }};
  })[0];
}

Tensor context_bidirectional_attention(comm::Communicator& group, const Tensor& q, const Tensor& k,
                                       const Tensor& v, const layout::SequenceView& view) {
  const DocumentSums documents(group, view);
  const std::vector<int64_t> area{q.size(1), q.size(2), v.size(2)};
  return kernels::differentiable("context_bidirectional_attention", {q, k, v}, [&]() -> Recorded {
    const Tensor states = documents.sum(
        area, v, [&](const layout::Segment& segment) { return products(k, v, segment); },
        "sums of documents");
    const Tensor o =
        documents.for_each_run(states, v, [&](const layout::Segment& segment, const Tensor& state) {
          return by_head(at::matmul(by_head(run_of(q, segment)), state));
        });
    return {
        .results = {o}, .saved = {q, k, v, states}, .backward = [documents, area](const BackwardCall& call) {
          const Tensor &of_q = call.saved[0], &of_k = call.saved[1], &of_v = call.saved[2],
                       &d_o = call.gradients[0];
          const Tensor slopes = documents.sum(
              area, of_v, [&](const layout::Segment& segment) { return products(of_q, d_o, segment); },
              "sums of documents (gradient)");
          const auto times = [&](const Tensor& x, const Tensor& matrices, bool turned, const Tensor& like) {
            return documents.for_each_run(
                matrices, like, [&](const layout::Segment& segment, const Tensor& matrix) {
                  return by_head(
                      at::matmul(by_head(run_of(x, segment)), turned ? matrix.transpose(1, 2) : matrix));
                });
          };
          return std::vector<Tensor>{times(d_o, call.saved[3], true, of_q), times(of_v, slopes, true, of_k),
                                     times(of_k, slopes, false, of_v)};
        }};
  })[0];
}

}  // namespace longhaul::parallel
