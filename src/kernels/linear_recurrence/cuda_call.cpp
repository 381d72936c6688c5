// Which form runs: two-pass for a decay per channel and for the gradient of any decay; exact, token by token,
// forward where every document has one token (decoding); else chunked. Any backward pass may follow any
// forward pass: all recompute from the inputs.
#include "kernels/linear_recurrence/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/linear_recurrence/cuda.h"
#include "kernels/linear_recurrence/cuda/segment_cost.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kMostChannels = 256;

Refusal refuse(const RecurrenceProblem& problem) {
  const auto logits = problem.gated() ? problem.log_decay.scalar_type() : at::kFloat;
  if (logits != at::kBFloat16 && logits != at::kFloat) return "it takes logits of bf16 and fp32";
  const int64_t keys = problem.q_thk.size(2), values = problem.v_thv.size(2);
  static_assert(kMostChannels == 256);
  if (std::min(keys, values) < 1 || std::max(keys, values) > kMostChannels)
    return "it takes heads of 1 to 256 channels";
  return "";
}

cuda::DecayKind kind_of(DecayKind kind) {
  switch (kind) {
    case DecayKind::kNone:
      return cuda::DecayKind::kNone;
    case DecayKind::kHead:
      return cuda::DecayKind::kHead;
    case DecayKind::kHeadToken:
      return cuda::DecayKind::kHeadToken;
    default:
      return cuda::DecayKind::kChannelToken;
  }
}

cuda::RecurrenceGateKind kind_of(RecurrenceGate::Kind kind) {
  switch (kind) {
    case RecurrenceGate::Kind::kNone:
      return cuda::RecurrenceGateKind::kNone;
    case RecurrenceGate::Kind::kLogSigmoid:
      return cuda::RecurrenceGateKind::kLogSigmoid;
    default:
      return cuda::RecurrenceGateKind::kLowerBounded;
  }
}
bool bf16_logits(const RecurrenceProblem& problem) {
  return problem.gated() && problem.log_decay.scalar_type() == at::kBFloat16;
}

bool decoding(const RecurrenceProblem& problem) {
  return std::adjacent_find(problem.offsets.begin(), problem.offsets.end(),
                            [](int64_t a, int64_t b) { return b > a + 1; }) == problem.offsets.end();
}

// A problem as the kernels take it, and the tensors it points into.
struct Operands {
  explicit Operands(const RecurrenceProblem& problem)
      : q(problem.q_thk.contiguous()),
        k(cuda::contiguous(problem.k_thk)),
        v(problem.v_thv.contiguous()),
        log_decay(problem.log_decay.defined() && !bf16_logits(problem)
                      ? problem.log_decay.detach().to(at::kFloat).contiguous()
                      : Tensor()),
        logits(bf16_logits(problem) ? problem.log_decay.detach().contiguous() : Tensor()),
        lower_bound(cuda::contiguous(problem.gate().lower_bound_hk)),
        initial(cuda::contiguous(problem.initial_state_nhkv)),
        offsets(problem.offsets, q) {
    call = {.tokens = q.size(0),
            .documents = static_cast<int>(problem.documents()),
            .heads = static_cast<int>(q.size(1)),
            .key_heads = static_cast<int>(v.size(1)),
            .keys = static_cast<int>(q.size(2)),
            .values = static_cast<int>(v.size(2)),
            .kind = kind_of(problem.decay),
            .scale = static_cast<float>(problem.options.scale),
            .reverse = problem.options.reverse,
            .q = cuda::bf16(q),
            .k = cuda::bf16(k),
            .v = cuda::bf16(v),
            .log_decay = cuda::fp32(log_decay),
            .initial = cuda::fp32(initial),
            .offsets = offsets.data(),
            .gate = {.kind = kind_of(problem.gate().kind),
                     .inverse_divisor = static_cast<float>(1 / problem.gate().divisor),
                     .logits = cuda::bf16(logits),
                     .lower_bound = cuda::fp32(lower_bound)}};
  }
  Tensor state() const { return cuda::fp32_like(q, {call.documents, call.heads, call.keys, call.values}); }

  Tensor q, k, v, log_decay, logits, lower_bound, initial;
  cuda::Table<int64_t> offsets;
  cuda::Recurrence call;
};

// The segments of the chunked form on the device, one plan for all sweeps of a pass.
struct Segments {
  Segments(const RecurrenceProblem& problem, const Operands& in, bool backward)
      : Segments(plan_of(problem, in.call, backward), in.q) {}
  Segments(const cuda::RecurrencePlan& plan, const Tensor& like)
      : along(plan.along, like),
        against(plan.against, like),
        document_segments(plan.document_segments, like) {}
  static cuda::RecurrencePlan plan_of(const RecurrenceProblem& problem, const cuda::Recurrence& call,
                                      bool backward) {
    const auto walks = cuda::chunked_walks(call.heads, call.keys, call.values, backward);
    return cuda::plan_recurrence(
        problem.offsets, cuda::choose_segment_tokens(problem.offsets, walks, cuda::multiprocessors()));
  }
  cuda::RecurrenceTables tables() const {
    return {along.data(), against.data(), document_segments.data(), count()};
  }
  int count() const { return static_cast<int>(along.size); }
  cuda::Table<cuda::Segment> along, against;
  cuda::Table<int32_t> document_segments;
};

// The tables of the two-pass form: its segments in the order of the problem, and their chunks.
struct Chunks {
  Chunks(const RecurrenceProblem& problem, const Operands& in)
      : Chunks(plan_of(problem, in.call), in.call.reverse, in.q) {}
  Chunks(const cuda::RecurrencePlan& plan, bool reverse, const Tensor& like)
      : Chunks(reverse ? plan.against : plan.along, plan.document_segments,
               cuda::chunks_of(reverse ? plan.against : plan.along, reverse), like) {}
  Chunks(const std::vector<cuda::Segment>& in_order, const std::vector<int32_t>& of_documents,
         const cuda::ChunkTable& table, const Tensor& like)
      : segments(in_order, like),
        chunks(table.chunks, like),
        segment_chunks(table.segment_chunks, like),
        document_segments(of_documents, like) {}
  static cuda::RecurrencePlan plan_of(const RecurrenceProblem& problem, const cuda::Recurrence& call) {
    const auto walks = cuda::two_pass_walks(call.heads, call.keys, call.values);
    return cuda::plan_recurrence(
        problem.offsets, cuda::choose_segment_tokens(problem.offsets, walks, cuda::multiprocessors()));
  }
  cuda::TwoPassTables tables() const {
    return {segments.data(),
            chunks.data(),
            segment_chunks.data(),
            document_segments.data(),
            static_cast<int>(segments.size),
            static_cast<int>(chunks.size)};
  }
  cuda::Table<cuda::Segment> segments;
  cuda::Table<cuda::Chunk> chunks;
  cuda::Table<int32_t> segment_chunks, document_segments;
};

LinearRecurrenceResult forward(const RecurrenceProblem& problem) {
  const cuda::OnDevice device(problem.q_thk);
  const Operands in(problem);
  LinearRecurrenceResult result{
      at::empty({in.call.tokens, in.call.heads, in.call.values}, in.v.options().requires_grad(false)),
      in.state()};
  cuda::Bf16* o = cuda::bf16_out(result.o_thd);
  float* final_state = cuda::fp32_out(result.final_state_nhkv);
  if (decoding(problem)) {
    cuda::exact_forward(in.call, o, final_state, device.stream());
    return result;
  }
  if (problem.decay == DecayKind::kKeyToken) {
    const Chunks chunks(problem, in);
    const Tensor workspace =
        cuda::workspace(cuda::two_pass_workspace_bytes(in.call, chunks.tables(), false), in.q);
    cuda::two_pass_forward(in.call, chunks.tables(), o, final_state, workspace.mutable_data_ptr(),
                           device.stream());
    return result;
  }
  const Segments segments(problem, in, false);
  const Tensor workspace =
      cuda::workspace(cuda::chunked_workspace_bytes(in.call, segments.count(), false), in.q);
  cuda::chunked_forward(in.call, segments.tables(), o, final_state, workspace.mutable_data_ptr(),
                        device.stream());
  return result;
}

RecurrenceGradients backward(const RecurrenceProblem& problem, const Tensor& d_o, const Tensor& d_final,
                             bool want_decay) {
  const cuda::OnDevice device(problem.q_thk);
  const Operands in(problem);
  const Tensor d_o_flat = d_o.contiguous(), d_final_flat = cuda::contiguous(d_final);
  RecurrenceGradients out{
      at::empty_like(in.q), in.k.defined() ? at::empty_like(in.k) : Tensor(), at::empty_like(in.v),
      want_decay ? at::empty_like(in.logits.defined() ? in.logits : in.log_decay) : Tensor(), in.state()};
  if (want_decay && in.lower_bound.defined()) out.lower_bound_hk = at::empty_like(in.lower_bound);
  const cuda::RecurrenceGradientPointers gradients{
      .d_o = cuda::bf16(d_o_flat),
      .d_final = cuda::fp32(d_final_flat),
      .d_q = cuda::bf16_out(out.q_thk),
      .d_k = cuda::bf16_out(out.k_thk),
      .d_v = cuda::bf16_out(out.v_thv),
      .d_initial = cuda::fp32_out(out.initial_state_nhkv),
      .d_log_decay = in.logits.defined() ? nullptr : cuda::fp32_out(out.log_decay),
      .d_logits = in.logits.defined() ? cuda::bf16_out(out.log_decay) : nullptr,
      .d_lower_bound = cuda::fp32_out(out.lower_bound_hk)};
  if (problem.decay == DecayKind::kKeyToken || want_decay) {
    const Chunks chunks(problem, in);
    const Tensor workspace =
        cuda::workspace(cuda::two_pass_workspace_bytes(in.call, chunks.tables(), true), in.q);
    cuda::two_pass_backward(in.call, chunks.tables(), gradients, workspace.mutable_data_ptr(),
                            device.stream());
    if (want_decay) out.log_decay = out.log_decay.to(problem.log_decay.scalar_type());
    return out;
  }
  const Segments segments(problem, in, true);
  const Tensor workspace =
      cuda::workspace(cuda::chunked_workspace_bytes(in.call, segments.count(), true), in.q);
  cuda::chunked_backward(in.call, segments.tables(), gradients, workspace.mutable_data_ptr(),
                         device.stream());
  return out;
}

const CudaCalls<RecurrenceCuda> registered({.refuse = refuse, .forward = forward, .backward = backward});

}  // namespace
}  // namespace longhaul::kernels
