#include "kernels/bidirectional/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/threads/parallel.h"
#include "kernels/bidirectional/cpu.h"
#include "kernels/bidirectional/loops.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/vector/tensors.h"

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
  return x.narrow(0, run.begin, run.tokens())
      .to(wide)
      .view({run.count, run.length, x.size(1), x.size(2)})
      .transpose(1, 2);
}
Tensor as_tokens(const Tensor& x_nhtd, ScalarType type) {
  return x_nhtd.transpose(1, 2).flatten(0, 1).to(type);
}

Tensor rows_or_none(const std::vector<Tensor>& parts, const Tensor& like) {
  return parts.empty()       ? at::empty(like.sizes(), like.options().requires_grad(false))
         : parts.size() == 1 ? parts[0]
                             : at::cat(parts);
}

void check_bidirectional(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.dim() != 3 || !at::isFloatingType(q.scalar_type()) || q.scalar_type() == at::kHalf)
    refuse_argument(kBidirectional, "q", "[tokens, heads, key channels] in bf16, fp32 or fp64",
                    shape_text(q));
  if (k.sizes() != q.sizes() || k.scalar_type() != q.scalar_type())
    refuse_argument(kBidirectional, "k", shape_text(q), shape_text(k));
  if (v.dim() != 3 || v.size(0) != q.size(0) || v.size(1) != q.size(1) || v.scalar_type() != q.scalar_type())
    refuse_argument(
        kBidirectional, "v",
        fmt::format("[{}, {}, value channels] {}", q.size(0), q.size(1), name_of(q.scalar_type())),
        shape_text(v));
}

// body(range) for every document and block of channels.
template <class Body>
void for_softmaxes(const Tensor& x, const std::vector<int64_t>& offsets, const Body& body) {
  const int64_t channels = x.size(1), blocks = (channels + kSoftmaxChannels - 1) / kSoftmaxChannels;
  parallel_for(0, (static_cast<int64_t>(offsets.size()) - 1) * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto n = static_cast<size_t>(i / blocks);
      const int64_t first = i % blocks * kSoftmaxChannels;
      body(SoftmaxRange{.storage = storage_of(x),
                        .channels = channels,
                        .ld_in = x.stride(0),
                        .begin = offsets[n],
                        .end = offsets[n + 1],
                        .first = first,
                        .last = std::min(channels, first + kSoftmaxChannels)});
    }
  });
}

Tensor softmax_by_loops(const Tensor& x, const std::vector<int64_t>& offsets) {
  return differentiable(kSegmentSoftmax, {x}, [&]() -> Recorded {
    const Tensor rows = x.numel() == 0 || x.stride(1) == 1 ? x : x.contiguous(),
                 k = at::empty(x.sizes(), x.options().requires_grad(false));
    for_softmaxes(rows, offsets, [&](const SoftmaxRange& range) {
      segment_softmax_range(range, pointer_to(rows), writable(k));
    });
    return {.results = {k}, .saved = {k}, .backward = [offsets](const BackwardCall& call) {
              const Tensor &of = call.saved[0], dk = call.gradients[0].contiguous(),
                           dx = at::empty(of.sizes(), of.options().requires_grad(false));
              for_softmaxes(of, offsets, [&](const SoftmaxRange& range) {
                segment_softmax_gradient_range(range, pointer_to(of), pointer_to(dk), writable(dx));
              });
              return std::vector<Tensor>{dx};
            }};
  })[0];
}

Tensor softmax_aten(const Tensor& x, const std::vector<int64_t>& offsets) {
  std::vector<Tensor> parts;
  for (const EqualDocuments& run : equal_documents(offsets)) {
    const Tensor rows = x.narrow(0, run.begin, run.tokens()).reshape({run.count, run.length, x.size(1)});
    parts.push_back(at::softmax(rows, 1, wide_of(x)).to(x.scalar_type()).flatten(0, 1));
  }
  return rows_or_none(parts, x);
}

Tensor with_channels_side_by_side(const Tensor& x) {
  return x.numel() == 0 || x.stride(2) == 1 ? x : x.contiguous();
}

Tensor attention_by_blocks(const Tensor& q, const Tensor& k, const Tensor& v,
                           const std::vector<int64_t>& offsets) {
  return differentiable(kBidirectional, {q, k, v}, [&]() -> Recorded {
    const Tensor state =
        at::empty({static_cast<int64_t>(offsets.size()) - 1, q.size(1), q.size(2), v.size(2)},
                  q.options().dtype(at::kFloat).requires_grad(false));
    const SetAttention in{with_channels_side_by_side(q), with_channels_side_by_side(k),
                          with_channels_side_by_side(v), state, offsets};
    return {.results = {set_attention_cpu(in)},
            .saved = {in.q_thk, in.k_thk, in.v_thv, state},
            .backward = [offsets](const BackwardCall& call) {
              return set_attention_backward_cpu(
                  {call.saved[0], call.saved[1], call.saved[2], call.saved[3], offsets},
                  call.gradients[0].contiguous());
            }};
  })[0];
}

// In fp64, and on devices without kernels of our own.
Tensor attention_aten(const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::vector<int64_t>& offsets) {
  const std::vector<EqualDocuments> runs = equal_documents(offsets);
  return differentiable(kBidirectional, {q, k, v}, [&]() -> Recorded {
    const ScalarType wide = wide_of(q), type = v.scalar_type();
    std::vector<Tensor> o, saved{q, k, v};
    for (const EqualDocuments& run : runs) {
      const Tensor state = at::matmul(of_documents(k, run, wide).transpose(2, 3), of_documents(v, run, wide));
      o.push_back(as_tokens(at::matmul(of_documents(q, run, wide), state), type));
      saved.push_back(state);
    }
    return {
        .results = {rows_or_none(o, v)}, .saved = saved, .backward = [runs, wide](const BackwardCall& call) {
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
          return std::vector<Tensor>{rows_or_none(dq, call.saved[0]), rows_or_none(dk, call.saved[1]),
                                     rows_or_none(dv, call.saved[2])};
        }};
  })[0];
}

}  // namespace

Tensor segment_softmax(const Tensor& x, const Tensor& offsets_any) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(kSegmentSoftmax, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  const std::vector<int64_t> offsets = document_offsets(offsets_any, x.size(0), kSegmentSoftmax);
  switch (choose_by_device(kSegmentSoftmax, x, "no kernels of our own on a GPU")) {
    case ByDevice::kMeta:
      return meta_results({x}, {{x.sizes().vec(), x.scalar_type()}})[0];
    case ByDevice::kCpu:
      return softmax_by_loops(x, offsets);
    default:
      return softmax_aten(x, offsets);
  }
}

Tensor bidirectional_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& offsets_any) {
  check_bidirectional(q, k, v);
  const std::vector<int64_t> offsets = document_offsets(offsets_any, q.size(0), kBidirectional);
  const bool narrow = q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16;
  switch (choose_by_device(kBidirectional, q, "no kernels of our own on a GPU",
                           narrow ? Refusal() : "fp64 has no blocks")) {
    case ByDevice::kMeta:
      return meta_results({q, k, v}, {{v.sizes().vec(), v.scalar_type()}})[0];
    case ByDevice::kCpu:
      return attention_by_blocks(q, k, v, offsets);
    default:
      return attention_aten(q, k, v, offsets);
  }
}

}  // namespace longhaul::kernels
