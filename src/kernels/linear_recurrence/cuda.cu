// Which runs a problem is: see cuda.h, run.h.
#include "kernels/linear_recurrence/cuda.h"

#include "kernels/cuda/group_sum.h"
#include "kernels/linear_recurrence/cuda/chunked_kernels.h"
#include "kernels/linear_recurrence/cuda/exact_kernels.h"
#include "kernels/linear_recurrence/cuda/two_pass_gradient.h"
#include "kernels/linear_recurrence/cuda/two_pass_kernels.h"

namespace longhaul::kernels::cuda {
namespace {

constexpr const char* kGroupSum = "linear_recurrence.group_sum";

template <int kKeys, int kValues>
int64_t blocks_of(const Run& run) {
  return run.segment_count * divide_up(run.v.width, kValues) * run.heads;
}

template <int kKeys, int kValues>
void find_states(const Run& run, Stream stream) {  // that enter the segments
  if (run.segment_count == run.documents) return;
  launch("linear_recurrence.segment_states", chunked_kernel<kKeys, kValues, false>,
         blocks_of<kKeys, kValues>(run), kChunkedWarps * kWarp, chunked_shared(kKeys, kValues).bytes, stream,
         run);
  const int64_t area = static_cast<int64_t>(run.k.width) * run.v.width;
  launch("linear_recurrence.scan", scan_kernel, divide_up(area, 256) * run.heads * run.documents, 256, 0,
         stream, run);
}

template <int kKeys, int kValues>
void run_chunked(const Run& run, Stream stream) {
  find_states<kKeys, kValues>(run, stream);
  launch("linear_recurrence.chunked", chunked_kernel<kKeys, kValues, true>, blocks_of<kKeys, kValues>(run),
         kChunkedWarps * kWarp, chunked_shared(kKeys, kValues).bytes, stream, run);
}

void run_chunked(const Run& run, Stream stream) {
  switch (padded_keys(run.k.width)) {
    case 64:
      return run_chunked<64, 64>(run, stream);
    case 128:
      return run_chunked<128, 64>(run, stream);
    default:
      return run_chunked<256, 32>(run, stream);
  }
}

template <int kWidth>
void run_joined(const Run& of_v, const Run& of_k, Stream stream) {
  find_states<kWidth, 64>(of_v, stream);
  launch("linear_recurrence.joined", joined_kernel<kWidth>, blocks_of<kWidth, kWidth>(of_v),
         kJoinedWarps<kWidth> * kWarp, joined_shared(kWidth).bytes, stream, of_v, of_k);
}

// The gradients of k and v: together where both fit, else one after the other.
void run_joined(const Run& of_v, const Run& of_k, Stream stream) {
  const int width = std::max(of_v.k.width, of_v.v.width);
  if (width <= 64) return run_joined<64>(of_v, of_k, stream);
  if (width <= kJoinedWidth) return run_joined<kJoinedWidth>(of_v, of_k, stream);
  run_chunked(of_k, stream);
  run_chunked(of_v, stream);
}

void run_exact(const Run& run, Stream stream) {
  const int64_t blocks = divide_up(run.v.width, 32) * run.heads * run.documents;
  launch("linear_recurrence.exact", exact_kernel, blocks, exact_warps(run.k.width) * 32,
         exact_shared(run.k.width).bytes, stream, run);
}

Rows rows_view(const Bf16* data, int heads, int group, int width) {
  return {data, group, width, static_cast<int64_t>(heads) * width,
          width % kUnit == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
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
  run.gate = p.gate;
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

StateView as_stored(const float* data, const Recurrence& p) {
  return {const_cast<float*>(data), p.values, 1};
}
StateView transposed(const float* data, const Recurrence& p) {
  return {const_cast<float*>(data), 1, p.values};
}

Run forward_run(const Recurrence& p, const RecurrenceTables& tables, Bf16* o, float* final_state) {
  const Roles roles(p);
  Run run = base_run(p, tables, p.reverse);
  run.q = roles.q, run.k = roles.k, run.v = roles.v;
  run.out = o;
  run.initial = as_stored(p.initial, p);
  run.final = as_stored(final_state, p);
  return run;
}

// The gradients as runs.
struct BackwardRuns {
  Run q, k, v;
};
BackwardRuns backward_runs(const Recurrence& p, const RecurrenceTables& tables,
                           const RecurrenceGradientPointers& gradients) {
  const Roles roles(p, gradients.d_o);
  BackwardRuns runs{base_run(p, tables, p.reverse), base_run(p, tables, !p.reverse),
                    base_run(p, tables, !p.reverse)};
  runs.q.q = roles.d_o, runs.q.k = roles.v, runs.q.v = roles.k;
  runs.q.out = gradients.d_q;
  runs.q.initial = transposed(p.initial, p);
  runs.k.q = roles.v, runs.k.k = roles.d_o, runs.k.v = roles.q;
  runs.k.initial = transposed(gradients.d_final, p);
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

// The two-pass form's workspace, and its size where `memory` is null.
struct TwoPassWorkspace {
  Bf16 *q_scaled, *k_scaled, *states, *d_states;
  float *decays, *segment_states, *segment_decays, *wide_k, *wide_v, *decay_sums, *bound_sums;
  int64_t bytes;
};
TwoPassWorkspace divide_two_pass(const Recurrence& p, const TwoPassTables& tables, bool backward,
                                 unsigned char* memory) {
  TwoPassWorkspace w{};
  const auto take = [&]<class T>(T*& part, int64_t count) {
    part = memory != nullptr && count > 0 ? reinterpret_cast<T*>(memory + w.bytes) : nullptr;
    w.bytes += round_up(count * static_cast<int64_t>(sizeof(T)), 256);
  };
  const int64_t keys = p.tokens * p.heads * p.keys, values = p.tokens * p.heads * p.values;
  const int64_t segments = tables.segment_count > p.documents ? tables.segment_count : 0;
  take(w.q_scaled, keys);
  take(w.k_scaled, keys);
  take(w.decays, static_cast<int64_t>(tables.chunk_count) * p.heads * p.keys);
  take(w.states, tables.chunk_count * state_floats(p));
  take(w.segment_states, segments * state_floats(p));
  take(w.segment_decays, segments * p.heads * p.keys);
  if (!backward) return w;
  const bool grouped = p.heads != p.key_heads, tied = p.k == nullptr;
  take(w.d_states, tables.chunk_count * state_floats(p));
  take(w.wide_k, grouped && !tied ? keys : 0);
  take(w.wide_v, grouped ? values : 0);
  take(w.decay_sums, p.kind == DecayKind::kHead || p.kind == DecayKind::kHeadToken
                         ? p.tokens * p.heads * slices_of(p.keys)
                         : 0);
  take(w.bound_sums, bounded(p.gate) ? static_cast<int64_t>(tables.chunk_count) * p.heads * p.keys : 0);
  return w;
}

TwoPass two_pass_of(const Recurrence& p, const TwoPassTables& tables, const Bf16* d_o,
                    const TwoPassWorkspace& w) {
  const Roles roles(p, d_o);
  TwoPass in{};
  in.q = roles.q, in.k = roles.k, in.v = roles.v, in.d_o = roles.d_o;
  in.q_scaled = rows_view(w.q_scaled, p.heads, 1, p.keys),
  in.k_scaled = rows_view(w.k_scaled, p.heads, 1, p.keys);
  in.kind = p.kind;
  in.log_decay = p.log_decay;
  in.gate = p.gate;
  in.segments = tables.segments, in.chunks = tables.chunks;
  in.segment_chunks = tables.segment_chunks, in.document_segments = tables.document_segments;
  in.segment_count = tables.segment_count, in.chunk_count = tables.chunk_count;
  in.documents = p.documents;
  in.heads = p.heads;
  in.reverse = p.reverse;
  in.scale = p.scale;
  in.decays = w.decays, in.states = w.states, in.d_states = w.d_states;
  in.segment_states = w.segment_states, in.segment_decays = w.segment_decays;
  return in;
}

void prepare(const TwoPass& in, const TwoPassWorkspace& w, Stream stream) {
  const int64_t blocks = static_cast<int64_t>(in.chunk_count) * in.heads * slices_of(in.q.width);
  launch("linear_recurrence.prepare", prepare_kernel, blocks, kTwoPassThreads, 4 * kSlice * 4, stream, in,
         w.q_scaled, w.k_scaled);
}

void run_states(const TwoPass& in, const StatePass& pass, Stream stream) {
  const int64_t blocks =
      static_cast<int64_t>(in.segment_count) * in.heads * slices_of(in.q.width) * slices_of(in.v.width);
  if (in.segment_count > in.documents) {
    launch("linear_recurrence.state_segments", states_kernel<true>, blocks, kStateThreads, 5 * kTileBytes,
           stream, in, pass);
    const int64_t area = static_cast<int64_t>(in.q.width) * in.v.width;
    launch("linear_recurrence.state_scan", state_scan_kernel, divide_up(area, 256) * in.heads * in.documents,
           256, 0, stream, in, pass);
  }
  launch("linear_recurrence.states", states_kernel<false>, blocks, kStateThreads, 5 * kTileBytes, stream, in,
         pass);
}

void run_outputs(const TwoPass& in, const OutputPass& pass, Stream stream) {
  launch("linear_recurrence.outputs", outputs_kernel, static_cast<int64_t>(in.chunk_count) * in.heads,
         kTwoPassThreads, 8 * kTileBytes, stream, in, pass);
}

void run_gradients(const TwoPass& in, const Recurrence& p, const RecurrenceGradientPointers& gradients,
                   const TwoPassWorkspace& w, Stream stream) {
  const int slices = slices_of(p.keys);
  const bool scalar = p.kind != DecayKind::kChannelToken,
             wanted = gradients.d_log_decay != nullptr || gradients.d_logits != nullptr;
  const bool decay = wanted && p.kind != DecayKind::kNone, bound = gradients.d_lower_bound != nullptr;
  const GradientPass pass{gradients.d_q,
                          gradients.d_k,
                          w.wide_k,
                          !decay   ? nullptr
                          : scalar ? w.decay_sums
                                   : gradients.d_log_decay,
                          scalar ? nullptr : gradients.d_logits,
                          bound ? w.bound_sums : nullptr};
  launch("linear_recurrence.gradients", gradients_kernel,
         static_cast<int64_t>(in.chunk_count) * in.heads * slices, kTwoPassThreads, gradient_shared().bytes,
         stream, in, pass, p.tokens);
  if (bound) {
    const int64_t channels = static_cast<int64_t>(p.heads) * p.keys;
    launch("linear_recurrence.bound_sum", bound_sum_kernel, divide_up(channels, 256), 256, 0, stream,
           w.bound_sums, gradients.d_lower_bound, channels, in.chunk_count);
  }
  if (!decay || !scalar) return;
  const float* sums = w.decay_sums;
  const int64_t count = p.tokens * p.heads;
  if (p.kind == DecayKind::kHeadToken) {
    launch("linear_recurrence.slice_sum", slice_sum_kernel, divide_up(count, 256), 256, 0, stream, sums,
           p.gate, p.log_decay, gradients.d_log_decay, gradients.d_logits, count, slices);
  } else {
    launch("linear_recurrence.token_sum", token_sum_kernel, p.heads, 256, 256 * 8, stream, sums,
           gradients.d_log_decay, p.tokens * slices, p.heads);
  }
}

}  // namespace

int64_t chunked_workspace_bytes(const Recurrence& p, int segments, bool backward) {
  const bool grouped = backward && p.heads != p.key_heads;
  return 4 *
         (segments * (state_floats(p) + p.heads) + (grouped ? p.tokens * p.heads * (p.keys + p.values) : 0));
}

void chunked_forward(const Recurrence& p, const RecurrenceTables& tables, Bf16* o, float* final_state,
                     void* workspace, Stream stream) {
  const Workspace w = divide_workspace(p, tables.segments, workspace);
  Run run = forward_run(p, tables, o, final_state);
  run.states = w.states, run.segment_decays = w.segment_decays;
  run_chunked(run, stream);
}

void chunked_backward(const Recurrence& p, const RecurrenceTables& tables,
                      const RecurrenceGradientPointers& gradients, void* workspace, Stream stream) {
  const Workspace w = divide_workspace(p, tables.segments, workspace);
  BackwardRuns runs = backward_runs(p, tables, gradients);
  for (Run* run : {&runs.q, &runs.k, &runs.v}) run->states = w.states, run->segment_decays = w.segment_decays;
  const int group = p.heads / p.key_heads;
  runs.k.out = gradients.d_k;
  runs.v.out = gradients.d_v;
  if (group > 1) runs.k.out_fp32 = w.wide_k, runs.v.out_fp32 = w.wide_v;
  run_chunked(runs.q, stream);
  run_joined(runs.v, runs.k, stream);
  if (group == 1) return;
  sum_group(kGroupSum, w.wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(kGroupSum, w.wide_v, gradients.d_v, p.tokens, p.key_heads, group, p.values, stream);
}

int64_t two_pass_workspace_bytes(const Recurrence& p, const TwoPassTables& tables, bool backward) {
  return divide_two_pass(p, tables, backward, nullptr).bytes;
}

void two_pass_forward(const Recurrence& p, const TwoPassTables& tables, Bf16* o, float* final_state,
                      void* workspace, Stream stream) {
  const TwoPassWorkspace w = divide_two_pass(p, tables, false, static_cast<unsigned char*>(workspace));
  const TwoPass in = two_pass_of(p, tables, nullptr, w);
  prepare(in, w, stream);
  run_states(in, {in.k_scaled, in.v, p.initial, final_state, in.states, false}, stream);
  run_outputs(in, {in.q_scaled, in.v, in.states, o, nullptr, false}, stream);
}

void two_pass_backward(const Recurrence& p, const TwoPassTables& tables,
                       const RecurrenceGradientPointers& gradients, void* workspace, Stream stream) {
  const TwoPassWorkspace w = divide_two_pass(p, tables, true, static_cast<unsigned char*>(workspace));
  const TwoPass in = two_pass_of(p, tables, gradients.d_o, w);
  prepare(in, w, stream);
  run_states(in, {in.k_scaled, in.v, p.initial, nullptr, in.states, false}, stream);
  run_states(in, {in.q_scaled, in.d_o, gradients.d_final, gradients.d_initial, in.d_states, true}, stream);
  run_outputs(in, {in.k_scaled, in.d_o, in.d_states, gradients.d_v, w.wide_v, true}, stream);
  run_gradients(in, p, gradients, w, stream);
  const int group = p.heads / p.key_heads;
  if (group == 1) return;
  if (!tied(in)) sum_group(kGroupSum, w.wide_k, gradients.d_k, p.tokens, p.key_heads, group, p.keys, stream);
  sum_group(kGroupSum, w.wide_v, gradients.d_v, p.tokens, p.key_heads, group, p.values, stream);
}

void exact_forward(const Recurrence& p, Bf16* o, float* final_state, Stream stream) {
  run_exact(forward_run(p, {}, o, final_state), stream);
}

}  // namespace longhaul::kernels::cuda
