// The kernels of a pass, one after another: see cuda.h, cuda/delta.h.
#include "kernels/delta_rule/cuda.h"

#include "kernels/cuda/group_sum.h"
#include "kernels/delta_rule/cuda/gradients.h"
#include "kernels/delta_rule/cuda/outputs.h"
#include "kernels/delta_rule/cuda/prepare.h"
#include "kernels/delta_rule/cuda/states.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr const char* kGroupSum = "delta_rule.group_sum";

Rows rows_of(const Bf16* data, int heads, int group, int width) {
  return {data, group, width, static_cast<int64_t>(heads) * width,
          width % kUnit == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

// The workspace, and its size where `memory` is null.
struct DeltaWorkspace {
  Bf16 *inverses, *scores, *residuals, *states, *d_states;
  float *wide_q, *wide_k;
  int64_t bytes;
};
DeltaWorkspace divide(const DeltaRule& p, const DeltaTables& tables, bool backward, unsigned char* memory) {
  DeltaWorkspace w{};
  const auto take = [&]<class T>(T*& part, int64_t count) {
    part = memory != nullptr && count > 0 ? reinterpret_cast<T*>(memory + w.bytes) : nullptr;
    w.bytes += round_up(count * static_cast<int64_t>(sizeof(T)), 256);
  };
  const int64_t blocks = static_cast<int64_t>(tables.chunk_count) * p.heads,
                keys = p.tokens * p.heads * p.keys;
  take(w.inverses, blocks * kTileValues);
  take(w.scores, blocks * kTileValues);
  take(w.residuals, p.tokens * p.heads * p.values);
  take(w.states, blocks * p.keys * p.values);
  if (!backward) return w;
  take(w.d_states, blocks * p.keys * p.values);
  const bool grouped = p.heads != p.key_heads;
  take(w.wide_q, grouped ? keys : 0);
  take(w.wide_k, grouped ? keys : 0);
  return w;
}

Delta delta_of(const DeltaRule& p, const DeltaTables& tables, const Bf16* d_o, const DeltaWorkspace& w) {
  const int group = p.heads / p.key_heads;
  return {.q = rows_of(p.q, p.key_heads, group, p.keys),
          .k = rows_of(p.k, p.key_heads, group, p.keys),
          .v = rows_of(p.v, p.heads, 1, p.values),
          .d_o = rows_of(d_o, p.heads, 1, p.values),
          .beta = p.beta,
          .log_decay = p.log_decay,
          .initial = p.initial,
          .chunks = tables.chunks,
          .document_chunks = tables.document_chunks,
          .heads = p.heads,
          .scale = p.scale,
          .inverses = w.inverses,
          .scores = w.scores,
          .residuals = w.residuals,
          .states = w.states,
          .d_states = w.d_states};
}

int64_t chunk_blocks(const DeltaRule& p, const DeltaTables& tables) {
  return static_cast<int64_t>(tables.chunk_count) * p.heads;
}
int64_t state_blocks(const DeltaRule& p) { return divide_up(p.values, kStateValues) * p.heads * p.documents; }

template <int kKeys>
void run_states(const DeltaRule& p, const Delta& in, float* final_state, Stream stream) {
  launch("delta_rule.states", delta_states_kernel<kKeys>, state_blocks(p), kStatesThreads,
         DeltaShared<kKeys>::kForwardBytes, stream, in, final_state);
}
template <int kKeys>
void run_states_backward(const DeltaRule& p, const Delta& in, const DeltaGradientPointers& gradients,
                         Stream stream) {
  launch("delta_rule.states_backward", delta_states_backward_kernel<kKeys>, state_blocks(p), kStatesThreads,
         DeltaShared<kKeys>::kBackwardBytes, stream, in, gradients.d_final, gradients.d_v,
         gradients.d_initial);
}

// T and P, then R and the states that enter chunks and leave documents.
void run_along(const DeltaRule& p, const DeltaTables& tables, const Delta& in, float* final_state,
               Stream stream) {
  launch("delta_rule.prepare", delta_prepare_kernel, chunk_blocks(p, tables), kPrepareThreads,
         prepare_shared().bytes, stream, in);
  switch (padded_keys(p.keys)) {
    case 64:
      return run_states<64>(p, in, final_state, stream);
    case 128:
      return run_states<128>(p, in, final_state, stream);
    default:
      return run_states<256>(p, in, final_state, stream);
  }
}
void run_against(const DeltaRule& p, const Delta& in, const DeltaGradientPointers& gradients, Stream stream) {
  switch (padded_keys(p.keys)) {
    case 64:
      return run_states_backward<64>(p, in, gradients, stream);
    case 128:
      return run_states_backward<128>(p, in, gradients, stream);
    default:
      return run_states_backward<256>(p, in, gradients, stream);
  }
}

}  // namespace

int64_t delta_workspace_bytes(const DeltaRule& p, const DeltaTables& tables, bool backward) {
  return divide(p, tables, backward, nullptr).bytes;
}

void delta_forward(const DeltaRule& p, const DeltaTables& tables, Bf16* o, float* final_state,
                   void* workspace, Stream stream) {
  const Delta in =
      delta_of(p, tables, nullptr, divide(p, tables, false, static_cast<unsigned char*>(workspace)));
  run_along(p, tables, in, final_state, stream);
  launch("delta_rule.outputs", delta_outputs_kernel, chunk_blocks(p, tables), kTwoPassThreads,
         kDeltaOutputTiles * kTileBytes + static_cast<int>(sizeof(DeltaDecays)), stream, in, o);
}

void delta_backward(const DeltaRule& p, const DeltaTables& tables, const DeltaGradientPointers& gradients,
                    void* workspace, Stream stream) {
  const DeltaWorkspace w = divide(p, tables, true, static_cast<unsigned char*>(workspace));
  const Delta in = delta_of(p, tables, gradients.d_o, w);
  run_along(p, tables, in, nullptr, stream);
  run_against(p, in, gradients, stream);
  const DeltaGradientPass pass{gradients.d_q, gradients.d_k,    w.wide_q,
                               w.wide_k,      gradients.d_beta, gradients.d_log_decay};
  launch("delta_rule.gradients", delta_gradients_kernel, chunk_blocks(p, tables), kTwoPassThreads,
         delta_gradient_shared().bytes, stream, in, gradients.d_v, pass);
  if (w.wide_q == nullptr) return;
  const int group = p.heads / p.key_heads;
  sum_group(kGroupSum, w.wide_q, gradients.d_q, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(kGroupSum, w.wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
}

}  // namespace longhaul::kernels::cuda
