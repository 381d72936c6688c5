// The chunked form (docs/sources/linear-attention.md §2) in LibTorch's operators under autograd: any device,
// every kind of decay, gradients of everything. With local positions i, j of a chunk and the sums D_ij = Σ_{j
// < s ≤ i} log λ_s, all of them ≤ 0:
//
//   o_i = scale · [ (q_i ⊙ e^{D_i0}) S + Σ_{j ≤ i} (Σ_c q_ic k_jc e^{D_ijc}) v_j ],
//   S_next = e^{D_m0} ⊙ S + Σ_j (k_j ⊙ e^{D_mj})ᵀ v_j
//
// D is summed term by term, not taken as a difference of two sums, which one steep decay would leave without
// digits. A decay per channel holds D for every channel, so its chunks are shorter. Short chunks are padded
// with zero keys and a decay of 1.
#include "kernels/document_chunks.h"
#include "kernels/linear_recurrence/problem.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kChunk = 64, kChannelChunk = 16;
// e^−800 is 0 in fp64 too; a steeper decay would only cost the sums digits
constexpr double kSmallestLog = -800;

// Of one kind of decay, in the state's dtype. Without a decay per channel the last axis of the decays has
// length 1.
struct ChunkedTensors {
  Tensor q, k, v;     // [C, H, B, D], padded keys zero
  Tensor within;      // [C, H, B, B, K or 1]: e^{D_ij} for j ≤ i, else 0
  Tensor from_begin;  // [C, H, B, K or 1]: e^{D_i0}
  Tensor to_end;      // [C, H, B, K or 1]: e^{D_mj}
};

ChunkedTensors chunks_of(const RecurrenceProblem& problem, const DocumentChunks& places, const Tensor& token,
                         const Tensor& padded_cb11) {
  const int64_t width = places.width, heads = problem.heads();
  const auto chunked = [&](const Tensor& x_thd) {  // → [C, H, B, D]
    Tensor x = x_thd.to(problem.state_type());
    if (x.size(1) != heads) x = x.repeat_interleave(problem.group(), 1);
    return x.index_select(0, token)
        .view({places.chunks(), width, heads, x.size(2)})
        .masked_fill(padded_cb11, 0)
        .transpose(1, 2);
  };
  ChunkedTensors parts{.q = chunked(problem.q_thk), .k = chunked(problem.k_thk), .v = chunked(problem.v_thv)};
  Tensor log_decay = problem.log_decay.defined() ? problem.log_decay : at::zeros({heads}, parts.q.options());
  if (log_decay.dim() == 1) log_decay = log_decay.unsqueeze(0).expand({problem.tokens(), heads});
  if (log_decay.dim() == 2) log_decay = log_decay.unsqueeze(2);
  const Tensor g = chunked(log_decay).clamp_min(kSmallestLog);  // [C, H, B, K or 1]
  const Tensor at_i = at::arange(width, token.options()).view({width, 1, 1}),
               at_j = at::arange(width, token.options()).view({1, width, 1});
  // D_ij
  const Tensor sums = g.unsqueeze(3).expand({-1, -1, -1, width, -1}).masked_fill(at_i.le(at_j), 0).cumsum(2);
  parts.within = sums.exp().masked_fill(at_i.lt(at_j), 0);
  parts.from_begin = g.cumsum(2).exp();
  parts.to_end = sums.select(2, width - 1).exp();
  return parts;
}

Tensor scores_of(const ChunkedTensors& parts) {  // [C, H, B, B]
  if (parts.within.size(4) == 1)
    return at::matmul(parts.q, parts.k.transpose(2, 3)).mul(parts.within.squeeze(4));
  return parts.q.unsqueeze(3).mul(parts.k.unsqueeze(2)).mul(parts.within).sum(4);
}

}  // namespace

namespace {

// A problem in chunks, and the tensors that say which.
struct Cut {
  explicit Cut(const RecurrenceProblem& problem)
      : places(document_chunks(problem.offsets,
                               problem.decay == DecayKind::kKeyToken ? kChannelChunk : kChunk,
                               problem.options.reverse)),
        device(problem.q_thk.device()),
        padded(at::arange(places.width, problem.q_thk.options().dtype(at::kLong).requires_grad(false))
                   .unsqueeze(0)
                   .ge(on_device(places.length).unsqueeze(1))),
        parts(chunks_of(problem, places, on_device(places.token), padded.unsqueeze(2).unsqueeze(3))) {}
  Tensor on_device(const std::vector<int64_t>& numbers) const {
    return to_device(to_tensor(numbers), device);
  }
  DocumentChunks places;
  at::Device device;
  Tensor padded;
  ChunkedTensors parts;
};

}  // namespace

void recurrence_fold_aten(const RecurrenceProblem& problem, bool gradient, const Tensor& state_nhkv,
                          const Tensor& decay_nhk) {
  const Cut cut(problem);
  const ChunkedTensors& parts = cut.parts;
  const Tensor written =
      gradient ? at::matmul(parts.q.mul(parts.from_begin).transpose(2, 3), parts.v).mul(problem.options.scale)
               : at::matmul(parts.k.mul(parts.to_end).transpose(2, 3), parts.v);
  const Tensor kept = parts.from_begin.select(2, cut.places.width - 1);  // [C, H, K or 1]
  state_nhkv.zero_();
  decay_nhk.fill_(1);
  for (int64_t i = 0; i < cut.places.chunks(); ++i) {
    const int64_t c = gradient ? cut.places.chunks() - 1 - i : i,
                  document = cut.places.document[static_cast<size_t>(c)];
    state_nhkv.select(0, document).mul_(kept.select(0, c).unsqueeze(2)).add_(written.select(0, c));
    decay_nhk.select(0, document).mul_(kept.select(0, c));
  }
}

LinearRecurrenceResult linear_recurrence_aten(const RecurrenceProblem& problem) {
  const ScalarType type = problem.state_type();
  const auto options = problem.q_thk.options().dtype(type).requires_grad(false);
  const Tensor initial =
      problem.initial_state_nhkv.defined()
          ? problem.initial_state_nhkv
          : at::zeros({problem.documents(), problem.heads(), problem.q_thk.size(2), problem.v_thv.size(2)},
                      options);
  const Cut cut(problem);
  const DocumentChunks& places = cut.places;
  const ChunkedTensors& parts = cut.parts;

  const auto written = at::matmul(parts.k.mul(parts.to_end).transpose(2, 3), parts.v).unbind(0);
  // each [H, K or 1, 1]
  const auto kept = parts.from_begin.select(2, places.width - 1).unsqueeze(3).unbind(0);
  std::vector<Tensor> state = initial.unbind(0), entering;
  for (int64_t c = 0; c < places.chunks(); ++c) {
    Tensor& of_document = state[static_cast<size_t>(places.document[static_cast<size_t>(c)])];
    entering.push_back(of_document);
    of_document = of_document.mul(kept[static_cast<size_t>(c)]).add(written[static_cast<size_t>(c)]);
  }
  const Tensor read =
      entering.empty() ? parts.v : at::matmul(parts.q.mul(parts.from_begin), at::stack(entering));
  const Tensor o = read.add(at::matmul(scores_of(parts), parts.v)).mul(problem.options.scale).transpose(1, 2);
  const Tensor o_thd = o.reshape({places.chunks() * places.width, problem.heads(), problem.v_thv.size(2)})
                           .index_select(0, cut.on_device(places.place));
  Tensor final_state = at::stack(state);
  // 0: a decay without tokens has a gradient all the same
  if (places.chunks() == 0) final_state = final_state.add(parts.from_begin.sum());
  return {o_thd.to(problem.v_thv.scalar_type()), final_state};
}

}  // namespace longhaul::kernels
