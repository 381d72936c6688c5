#include "kernels/bidirectional/op.h"

#include <fmt/format.h>

#include "kernels/differentiable.h"
#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

constexpr const char *kSegmentSoftmax = "segment_softmax", *kBidirectional = "bidirectional_attention";

ScalarType wide_of(const Tensor& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// Documents of one length that stand side by side are one batch: images are.
struct EqualDocuments {
  int64_t begin = 0, count = 0, length = 0;
  int64_t tokens() const { return count * length; }
};
std::vector<EqualDocuments> equal_documents(const std::vector<int64_t>& offsets) {
  std::vector<EqualDocuments> runs;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const int64_t length = offsets[n + 1] - offsets[n];
    if (length == 0) continue;
    if (!runs.empty() && runs.back().length == length) {
      ++runs.back().count;
    } else {
      runs.push_back({offsets[n], 1, length});
    }
  }
  return runs;
}

// [T, H, D] → [documents, H, tokens of a document, D]
Tensor of_documents(const Tensor& x, const EqualDocuments& run, ScalarType wide) {
  return x.narrow(0, run.begin, run.tokens()).to(wide).view({run.count, run.length, x.size(1), x.size(2)}).transpose(1, 2);
}
Tensor as_tokens(const Tensor& x_nhtd, ScalarType type) { return x_nhtd.transpose(1, 2).flatten(0, 1).to(type); }

Tensor rows_or_none(const std::vector<Tensor>& parts, const Tensor& like) {
  return parts.empty() ? at::empty(like.sizes(), like.options().requires_grad(false)) : parts.size() == 1 ? parts[0] : at::cat(parts);
}

void check_bidirectional(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()) || q.scalar_type() == at::kHalf)
    refuse_argument(kBidirectional, "q", "[tokens, heads, key channels] in bf16, fp32 or fp64", shape_text(q));
  if (k.sizes() != q.sizes() || k.scalar_type() != q.scalar_type()) refuse_argument(kBidirectional, "k", shape_text(q), shape_text(k));
  if (v.dim() != 3 || v.size(0) != q.size(0) || v.size(1) != q.size(1) || v.scalar_type() != q.scalar_type())
    refuse_argument(kBidirectional, "v", fmt::format("[{}, {}, value channels] {}", q.size(0), q.size(1), name_of(q.scalar_type())),
                    shape_text(v));
}

}  // namespace

Tensor segment_softmax(const Tensor& x, const Tensor& offsets) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(kSegmentSoftmax, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  std::vector<Tensor> parts;
  for (const EqualDocuments& run : equal_documents(document_offsets(offsets, x.size(0), kSegmentSoftmax))) {
    const Tensor rows = x.narrow(0, run.begin, run.tokens()).reshape({run.count, run.length, x.size(1)});
    parts.push_back(at::softmax(rows, 1, wide_of(x)).to(x.scalar_type()).flatten(0, 1));
  }
  return rows_or_none(parts, x);
}

Tensor bidirectional_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets_any) {
  check_bidirectional(q, k, v);
  const std::vector<EqualDocuments> runs = equal_documents(document_offsets(offsets_any, q.size(0), kBidirectional));
  return differentiable(kBidirectional, {q, k, v}, [&]() -> Recorded {
    const ScalarType wide = wide_of(q), type = v.scalar_type();
    std::vector<Tensor> o, saved{q, k, v};
    for (const EqualDocuments& run : runs) {
      const Tensor state = at::matmul(of_documents(k, run, wide).transpose(2, 3), of_documents(v, run, wide));
      o.push_back(as_tokens(at::matmul(of_documents(q, run, wide), state), type));
      saved.push_back(state);
    }
    return {.results = {rows_or_none(o, v)}, .saved = saved, .backward = [runs, wide](const BackwardCall& call) {
              std::vector<Tensor> dq, dk, dv;
              for (size_t i = 0; i < runs.size(); ++i) {
                const auto of = [&](const Tensor& x) { return of_documents(x, runs[i], wide); };
                const auto type_of = [&](size_t input) { return call.saved[input].scalar_type(); };
                const Tensor &state = call.saved[3 + i], d_o = of(call.gradients[0]);
                const Tensor d_state = at::matmul(of(call.saved[0]).transpose(2, 3), d_o);
                dq.push_back(as_tokens(at::matmul(d_o, state.transpose(2, 3)), type_of(0)));
                dk.push_back(as_tokens(at::matmul(of(call.saved[2]), d_state.transpose(2, 3)), type_of(1)));
                dv.push_back(as_tokens(at::matmul(of(call.saved[1]), d_state), type_of(2)));
              }
              return std::vector<Tensor>{rows_or_none(dq, call.saved[0]), rows_or_none(dk, call.saved[1]), rows_or_none(dv, call.saved[2])};
            }};
  })[0];
}

}  // namespace longhaul::kernels
