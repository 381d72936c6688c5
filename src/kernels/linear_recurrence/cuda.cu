// Which runs a problem is: see cuda.h, run.h.
#include "kernels/linear_recurrence/cuda.h"

#include "kernels/linear_recurrence/chunked_kernels.h"
#include "kernels/linear_recurrence/exact_kernels.h"

namespace longhaul::kernels::cuda {
namespace {

template <int kKeys, int kValues>
void run_chunked(const Run& run, Stream stream) {
  const int64_t slices = divide_up(run.v.width, kValues), blocks = run.segment_count * slices * run.heads;
  const int bytes = chunked_shared(kKeys, kValues).bytes;
  if (run.segment_count > run.documents) {
    launch("linear_recurrence.segment_states", chunked_kernel<kKeys, kValues, false>, blocks, kChunkedThreads, bytes, stream, run);
    const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
    launch("linear_recurrence.scan", scan_kernel, divide_up(area, 256) * run.heads * run.documents, 256, 0, stream, run);
  }
  launch("linear_recurrence.chunked", chunked_kernel<kKeys, kValues, true>, blocks, kChunkedThreads, bytes, stream, run);
}

void run_chunked(const Run& run, Stream stream) {
  switch (padded_keys(run.k.width)) {
    case 64: return run_chunked<64, 64>(run, stream);
    case 128: return run_chunked<128, 64>(run, stream);
    default: return run_chunked<256, 32>(run, stream);
  }
}

void run_exact(const Run& run, Stream stream) {
  const int64_t blocks = divide_up(run.v.width, 32) * run.heads * run.documents;
  launch("linear_recurrence.exact", exact_kernel, blocks, exact_warps(run.k.width) * 32, exact_shared(run.k.width).bytes, stream, run);
}

Rows rows_view(const Bf16* data, int heads, int group, int width) {
  return {data, group, width, static_cast<int64_t>(heads) * width, width % kUnit == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

struct Roles {
  Rows q, k, v, d_o;
  int64_t keys, values;
  explicit Roles(const Recurrence& p, const Bf16* gradient = nullptr)
      : q(rows_view(p.q, p.heads, 1, p.keys)),
        k(rows_view(p.k, p.key_heads, p.heads / p.key_heads, p.keys)),
        v(rows_view(p.v, p.key_heads, p.heads / p.key_heads, p.values)),
        d_o(rows_view(gradient, p.heads, 1, p.values)),
        keys(p.keys),
        values(p.values) {}
};

Run base_run(const Recurrence& p, const RecurrenceTables& tables, bool against) {
  Run run{};
  run.kind = p.kind;
  run.log_decay = p.log_decay;
  run.segments = against ? tables.against : tables.along;
  run.document_segments = tables.document_segments;
  run.segment_count = tables.segments;
  run.offsets = p.offsets;
  run.documents = p.documents;
  run.heads = p.heads;
  run.write = 1;
  run.scale = p.scale;
  run.against = against;
  return run;
}

StateView as_stored(const float* data, const Recurrence& p) { return {const_cast<float*>(data), p.values, 1}; }
StateView transposed(const float* data, const Recurrence& p) { return {const_cast<float*>(data), 1, p.values}; }

Run forward_run(const Recurrence& p, const RecurrenceTables& tables, Bf16* o, float* final_state) {
  const Roles roles(p);
  Run run = base_run(p, tables, p.reverse);
  run.q = roles.q, run.k = roles.k, run.v = roles.v;
  run.out = o;
  run.initial = as_stored(p.initial, p);
  run.final = as_stored(final_state, p);
  return run;
}

// The gradients as runs. `final_state`, where wanted, takes S_T (for the gradient of the decay).
struct BackwardRuns {
  Run q, k, v;
};
BackwardRuns backward_runs(const Recurrence& p, const RecurrenceTables& tables, const RecurrenceGradientPointers& gradients, float* final_state) {
  const Roles roles(p, gradients.d_o);
  BackwardRuns runs{base_run(p, tables, p.reverse), base_run(p, tables, !p.reverse), base_run(p, tables, !p.reverse)};
  runs.q.q = roles.d_o, runs.q.k = roles.v, runs.q.v = roles.k;
  runs.q.out = gradients.d_q;
  runs.q.initial = transposed(p.initial, p);
  runs.q.final = transposed(final_state, p);
  runs.q.decay_on_columns = p.kind == DecayKind::kChannelToken;
  runs.k.q = roles.v, runs.k.k = roles.d_o, runs.k.v = roles.q;
  runs.k.initial = transposed(gradients.d_final, p);
  runs.k.decay_on_columns = p.kind == DecayKind::kChannelToken;
  runs.v.q = roles.k, runs.v.k = roles.q, runs.v.v = roles.d_o;
  runs.v.initial = as_stored(gradients.d_final, p);
  runs.v.final = as_stored(gradients.d_initial, p);
  for (Run* run : {&runs.k, &runs.v}) {
    run->late = true;
    run->write = p.scale;
    run->scale = 1;
  }
  return runs;
}

void sum_group(const float* x, Bf16* out, int64_t tokens, int heads_out, int group, int width, Stream stream) {
  const int64_t count = tokens * heads_out * width;
  launch("linear_recurrence.group_sum", group_sum_kernel, divide_up(count, 256), 256, 0, stream, x, out, count, group, width);
}

struct Workspace {
  float *states, *segment_decays, *wide_k, *wide_v;
};
int64_t state_floats(const Recurrence& p) { return static_cast<int64_t>(p.heads) * p.keys * p.values; }
Workspace divide_workspace(const Recurrence& p, int segments, void* memory) {
  Workspace w{};
  w.states = static_cast<float*>(memory);
  w.segment_decays = w.states + segments * state_floats(p);
  w.wide_k = w.segment_decays + static_cast<int64_t>(segments) * p.heads;
  w.wide_v = w.wide_k + p.tokens * p.heads * p.keys;
  return w;
}

}  // namespace

int64_t chunked_workspace_bytes(const Recurrence& p, int segments, bool backward) {
  const bool grouped = backward && p.heads != p.key_heads;
  return 4 * (segments * (state_floats(p) + p.heads) + (grouped ? p.tokens * p.heads * (p.keys + p.values) : 0));
}

void chunked_forward(const Recurrence& p, const RecurrenceTables& tables, Bf16* o, float* final_state, void* workspace, Stream stream) {
  const Workspace w = divide_workspace(p, tables.segments, workspace);
  Run run = forward_run(p, tables, o, final_state);
  run.states = w.states, run.segment_decays = w.segment_decays;
  run_chunked(run, stream);
}

void chunked_backward(const Recurrence& p, const RecurrenceTables& tables, const RecurrenceGradientPointers& gradients, void* workspace,
                      Stream stream) {
  const Workspace w = divide_workspace(p, tables.segments, workspace);
  BackwardRuns runs = backward_runs(p, tables, gradients, nullptr);
  for (Run* run : {&runs.q, &runs.k, &runs.v}) run->states = w.states, run->segment_decays = w.segment_decays;
  const int group = p.heads / p.key_heads;
  runs.k.out = gradients.d_k;
  runs.v.out = gradients.d_v;
  if (group > 1) runs.k.out_fp32 = w.wide_k, runs.v.out_fp32 = w.wide_v;
  run_chunked(runs.q, stream);
  run_chunked(runs.k, stream);
  run_chunked(runs.v, stream);
  if (group == 1) return;
  sum_group(w.wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(w.wide_v, gradients.d_v, p.tokens, p.key_heads, group, p.values, stream);
}

int64_t exact_workspace_bytes(const Recurrence& p, bool backward) {
  return backward ? 4 * (p.tokens * p.heads * (2 * p.keys + p.values) + p.documents * state_floats(p)) : 0;
}

void exact_forward(const Recurrence& p, Bf16* o, float* final_state, Stream stream) {
  run_exact(forward_run(p, {}, o, final_state), stream);
}

void exact_backward(const Recurrence& p, const RecurrenceGradientPointers& gradients, void* workspace, Stream stream) {
  float* wide_q = static_cast<float*>(workspace);
  float* wide_k = wide_q + p.tokens * p.heads * p.keys;
  float* wide_v = wide_k + p.tokens * p.heads * p.keys;
  float* final_state = wide_v + p.tokens * p.heads * p.values;
  BackwardRuns runs = backward_runs(p, {}, gradients, final_state);
  runs.q.out_fp32 = wide_q, runs.k.out_fp32 = wide_k, runs.v.out_fp32 = wide_v;
  run_exact(runs.q, stream);
  run_exact(runs.k, stream);
  run_exact(runs.v, stream);
  const int group = p.heads / p.key_heads;
  sum_group(wide_q, gradients.d_q, p.tokens, p.heads, 1, p.keys, stream);
  sum_group(wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(wide_v, gradients.d_v, p.tokens, p.key_heads, group, p.values, stream);
  if (gradients.d_log_decay == nullptr) return;
  const DecayGradient decay{p.q, p.k, wide_q, wide_k, final_state, gradients.d_final, p.log_decay, p.offsets, gradients.d_log_decay,
                            p.documents, p.heads, group, p.keys, p.values, p.kind, p.reverse};
  launch("linear_recurrence.decay_gradient", decay_gradient_kernel, p.heads, static_cast<int>(round_up(p.keys, kWarp)), 32 * 4, stream, decay);
}

}  // namespace longhaul::kernels::cuda
