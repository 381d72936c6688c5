#include "kernels/delta_rule/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/delta_rule/cuda.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kMostKeys = 256;

Refusal refuse(const DeltaRuleProblem& problem) {
  if (problem.decays_by_channel()) return "it takes no decay per key channel";
  static_assert(kMostKeys == 256);
  if (problem.keys() < 1 || problem.keys() > kMostKeys || problem.values() < 1)
    return "it takes heads of 1 to 256 key channels";
  return "";
}

Tensor fp32_of(const Tensor& x) { return x.defined() ? x.detach().to(at::kFloat).contiguous() : Tensor(); }

// A problem as the kernels take it, and the tensors it points into.
struct Operands {
  explicit Operands(const DeltaRuleProblem& problem)
      : Operands(problem, cuda::plan_recurrence(problem.offsets, kWholeDocuments)) {}
  Operands(const DeltaRuleProblem& problem, const cuda::RecurrencePlan& plan)
      : Operands(problem, cuda::chunks_of(plan.along, false)) {}
  Operands(const DeltaRuleProblem& problem, const cuda::ChunkTable& table)
      : q(problem.in.q_tgk.detach().contiguous()),
        k(problem.in.k_tgk.detach().contiguous()),
        v(problem.in.v_thv.detach().contiguous()),
        beta(fp32_of(problem.in.beta_th)),
        log_decay(fp32_of(problem.in.log_decay)),
        initial(fp32_of(problem.in.initial_state_nhkv)),
        chunks(table.chunks, q),
        document_chunks(table.segment_chunks, q) {
    call = {.tokens = problem.tokens(),
            .documents = static_cast<int>(problem.documents()),
            .heads = static_cast<int>(problem.heads()),
            .key_heads = static_cast<int>(problem.key_heads()),
            .keys = static_cast<int>(problem.keys()),
            .values = static_cast<int>(problem.values()),
            .scale = static_cast<float>(problem.in.scale),
            .q = cuda::bf16(q),
            .k = cuda::bf16(k),
            .v = cuda::bf16(v),
            .beta = cuda::fp32(beta),
            .log_decay = cuda::fp32(log_decay),
            .initial = cuda::fp32(initial)};
    tables = {.chunks = chunks.data(),
              .document_chunks = document_chunks.data(),
              .chunk_count = static_cast<int>(chunks.size)};
  }
  Tensor states() const { return cuda::fp32_like(q, {call.documents, call.heads, call.keys, call.values}); }
  Tensor workspace(bool backward) const {
    return cuda::workspace(cuda::delta_workspace_bytes(call, tables, backward), q);
  }

  static constexpr int64_t kWholeDocuments = int64_t{1} << 40;  // tokens of a segment
  Tensor q, k, v, beta, log_decay, initial;
  cuda::Table<cuda::Chunk> chunks;
  cuda::Table<int32_t> document_chunks;
  cuda::DeltaRule call;
  cuda::DeltaTables tables;
};

LinearRecurrenceResult forward(const DeltaRuleProblem& problem) {
  const cuda::OnDevice device(problem.in.v_thv);
  const Operands in(problem);
  const LinearRecurrenceResult result{at::empty_like(in.v), in.states()};
  const Tensor workspace = in.workspace(false);
  cuda::delta_forward(in.call, in.tables, cuda::bf16_out(result.o_thd),
                      cuda::fp32_out(result.final_state_nhkv), workspace.mutable_data_ptr(), device.stream());
  return result;
}

DeltaRuleGradients backward(const DeltaRuleProblem& problem, const Tensor& d_o, const Tensor& d_final) {
  const cuda::OnDevice device(problem.in.v_thv);
  const Operands in(problem);
  const Tensor d_o_flat = d_o.contiguous(), d_final_flat = fp32_of(d_final);
  DeltaRuleGradients out{at::empty_like(in.q),
                         at::empty_like(in.k),
                         at::empty_like(in.v),
                         at::empty_like(in.beta),
                         in.log_decay.defined() ? at::empty_like(in.log_decay) : Tensor(),
                         in.states()};
  const cuda::DeltaGradientPointers gradients{.d_o = cuda::bf16(d_o_flat),
                                              .d_final = cuda::fp32(d_final_flat),
                                              .d_q = cuda::bf16_out(out.q_tgk),
                                              .d_k = cuda::bf16_out(out.k_tgk),
                                              .d_v = cuda::bf16_out(out.v_thv),
                                              .d_beta = cuda::fp32_out(out.beta_th),
                                              .d_log_decay = cuda::fp32_out(out.log_decay),
                                              .d_initial = cuda::fp32_out(out.initial_state_nhkv)};
  const Tensor workspace = in.workspace(true);
  cuda::delta_backward(in.call, in.tables, gradients, workspace.mutable_data_ptr(), device.stream());
  out.beta_th = out.beta_th.to(problem.in.beta_th.scalar_type());
  if (out.log_decay.defined()) out.log_decay = out.log_decay.to(problem.in.log_decay.scalar_type());
  return out;
}

const CudaCalls<DeltaRuleCuda> registered({.refuse = refuse, .forward = forward, .backward = backward});

}  // namespace
}  // namespace longhaul::kernels
