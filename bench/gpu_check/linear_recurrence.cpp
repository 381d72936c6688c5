// Checks and timings of linear_recurrence: each form against the recurrence itself, token by token in fp64.
#include "kernels/linear_recurrence/cuda.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu_check/linear_recurrence_reference.h"
#include "kernels/linear_recurrence/cuda/segment_cost.h"
#include "kernels/linear_recurrence/work.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::Recurrence;

using Case = RecurrenceCase;
using Reference = RecurrenceReference;
using Inputs = RecurrenceInputs;

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"tiny", {5}, 2, 2, 3, 4, DecayKind::kHead, 0.9},
      {"odd lengths, short and empty documents",
       {1, 0, 63, 64, 65, 0, 7},
       2,
       2,
       8,
       24,
       DecayKind::kHead,
       0.9,
       false,
       true},
      {"no decay, several segments", {193, 100, 300}, 2, 2, 64, 64, DecayKind::kNone, 0, false, true},
      {"shared key heads", {70, 20, 150}, 4, 2, 32, 40, DecayKind::kHead, 0.3, false, true},
      {"head size 128, reverse", {200}, 1, 1, 128, 128, DecayKind::kHead, 0.5, true, true},
      {"heads of 128 and 72, several segments, shared keys",
       {150, 0, 70},
       2,
       1,
       128,
       72,
       DecayKind::kHeadToken,
       0.5,
       false,
       true,
       64},
      {"heads of 20 and 100, reverse, several segments",
       {140, 1},
       1,
       1,
       20,
       100,
       DecayKind::kHead,
       0.2,
       true,
       false,
       64},
      {"head size 256 and 96", {130}, 1, 1, 256, 96, DecayKind::kHead, 0.5, false, true},
      {"keys 60, values 192", {131, 2}, 2, 1, 60, 192, DecayKind::kHeadToken, 0.7},
      {"steep decay that underflows", {130}, 2, 2, 16, 16, DecayKind::kHead, 10000},
      {"decay per token and head", {100, 3, 140}, 2, 2, 64, 64, DecayKind::kHeadToken, 2, false, true},
      {"decay per token and head, reverse", {90, 145}, 2, 1, 32, 64, DecayKind::kHeadToken, 2, true, true},
      {"decay per token and channel", {17, 1, 30, 0}, 2, 2, 20, 40, DecayKind::kChannelToken, 2, false, true},
      {"decay per token and channel, several segments and slices",
       {300, 65},
       1,
       1,
       72,
       130,
       DecayKind::kChannelToken,
       0.3,
       false,
       true},
      {"decay per token and channel, steep",
       {130, 64},
       1,
       1,
       64,
       64,
       DecayKind::kChannelToken,
       60,
       false,
       true},
      {"tied keys", {150, 1, 0, 70}, 2, 2, 20, 40, DecayKind::kChannelToken, 2, false, true, 128, true},
      {"tied keys, shared values, reverse, nearly no decay",
       {100},
       4,
       2,
       70,
       8,
       DecayKind::kChannelToken,
       1e-3,
       true,
       false,
       64,
       true},
      {"decay per token and channel that underflows", {70}, 2, 2, 16, 8, DecayKind::kChannelToken, 10000},
      {"gate per head",
       {70, 1, 0, 65},
       2,
       2,
       70,
       8,
       DecayKind::kHeadToken,
       3,
       false,
       true,
       64,
       false,
       RecurrenceGateKind::kLogSigmoid},
      {"gate, tied keys",
       {100, 1},
       2,
       1,
       20,
       40,
       DecayKind::kChannelToken,
       3,
       false,
       true,
       64,
       true,
       RecurrenceGateKind::kLogSigmoid},
      {"lower-bounded gate, tied keys, several segments",
       {150, 1, 0, 70},
       2,
       2,
       70,
       24,
       DecayKind::kChannelToken,
       3,
       true,
       true,
       64,
       true,
       RecurrenceGateKind::kLowerBounded},
      {"lower-bounded gate of decays near 0",
       {90},
       2,
       1,
       16,
       8,
       DecayKind::kChannelToken,
       1000,
       false,
       true,
       128,
       false,
       RecurrenceGateKind::kLowerBounded},
      {"decay per token and channel, reverse, shared keys",
       {33},
       4,
       2,
       40,
       8,
       DecayKind::kChannelToken,
       1,
       true,
       true},
  };
  return all;
}

// Inputs, tables and outputs of one case on the device.
struct Setup {
  Setup(Session& session, const Case& which, double scale)
      : offsets(boundaries(which.lengths)),
        tokens(offsets.host.back()),
        documents(static_cast<int>(which.lengths.size())),
        states(static_cast<int64_t>(documents) * which.heads * which.keys * which.values),
        decays(which.kind == DecayKind::kHead
                   ? which.heads
                   : tokens * which.heads * (which.kind == DecayKind::kChannelToken ? which.keys : 1)),
        q(random_bf16(session, tokens * which.heads * which.keys, 0.5)),
        k(random_bf16(session, which.tied ? 0 : tokens * which.key_heads * which.keys, 0.5)),
        v(random_bf16(session, tokens * which.key_heads * which.values)),
        log_decay(random_log_decay(session, which.gated() ? 0 : decays, which.steepest)),
        logits(random_bf16(session, which.gated() ? decays : 0, static_cast<float>(which.steepest))),
        lower_bound(random_bounds(session, which)),
        initial(random_fp32(session, which.states ? states : 0)),
        d_o(random_bf16(session, tokens * which.heads * which.values)),
        d_final(random_fp32(session, which.states ? states : 0)),
        plan(kernels::cuda::plan_recurrence(offsets.host, which.segment_tokens)),
        along(plan.along),
        against(plan.against),
        document_segments(plan.document_segments),
        chunk_table(kernels::cuda::chunks_of(which.reverse ? plan.against : plan.along, which.reverse)),
        chunks(chunk_table.chunks),
        segment_chunks(chunk_table.segment_chunks) {
    problem = {tokens,
               documents,
               which.heads,
               which.key_heads,
               which.keys,
               which.values,
               which.kind,
               static_cast<float>(scale),
               which.reverse,
               q.device(),
               which.tied ? nullptr : k.device(),
               v.device(),
               which.kind == DecayKind::kNone || which.gated() ? nullptr : log_decay.device(),
               which.states ? initial.device() : nullptr,
               offsets.device()};
    if (which.gated()) {
      problem.gate = {which.gate, static_cast<float>(1 / kGateDivisor), logits.device(),
                      which.gate == RecurrenceGateKind::kLowerBounded ? lower_bound.device() : nullptr};
    }
    tables = {along.device(), against.device(), document_segments.device(),
              static_cast<int>(plan.along.size())};
    two_pass = {which.reverse ? against.device() : along.device(),
                chunks.device(),
                segment_chunks.device(),
                document_segments.device(),
                tables.segments,
                static_cast<int>(chunks.size())};
  }
  static std::vector<int64_t> boundaries(const std::vector<int64_t>& lengths) {
    std::vector<int64_t> all{0};
    for (const int64_t length : lengths) all.push_back(all.back() + length);
    return all;
  }

  // γ from 0 to below 0.5.
  static std::vector<float> random_bounds(Session& session, const Case& which) {
    std::vector<float> values = random_log_decay(
        session, which.gate == RecurrenceGateKind::kLowerBounded ? which.heads * which.keys : 0, 0.5);
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 4 == 0 ? 0 : -values[i];
    return values;
  }

  Buffer<int64_t> offsets;
  int64_t tokens;
  int documents;
  int64_t states, decays;
  Buffer<Bf16> q, k, v;
  Buffer<float> log_decay;
  Buffer<Bf16> logits;
  Buffer<float> lower_bound, initial;
  Buffer<Bf16> d_o;
  Buffer<float> d_final;
  kernels::cuda::RecurrencePlan plan;
  Buffer<kernels::cuda::Segment> along, against;
  Buffer<int32_t> document_segments;
  kernels::cuda::ChunkTable chunk_table;
  Buffer<kernels::cuda::Chunk> chunks;
  Buffer<int32_t> segment_chunks;
  Recurrence problem;
  kernels::cuda::RecurrenceTables tables;
  kernels::cuda::TwoPassTables two_pass;
};

Reference reference_of(const Case& which, const Setup& setup, double scale) {
  const Inputs in{widened(setup.q.host),           widened(setup.k.host),
                  widened(setup.v.host),           widened(setup.log_decay.host),
                  widened(setup.initial.host),     widened(setup.d_o.host),
                  widened(setup.d_final.host),     widened(setup.logits.host),
                  widened(setup.lower_bound.host), setup.offsets.host};
  const auto zeros = [](int64_t count) { return std::vector<double>(static_cast<size_t>(count), 0); };
  Reference out{
      zeros(setup.d_o.size()), zeros(setup.states), zeros(setup.q.size()), zeros(setup.k.size()),
      zeros(setup.v.size()),   zeros(setup.decays), zeros(setup.states),   zeros(setup.lower_bound.size())};
  HeadReference head(which, in, scale, out);
  for (int64_t n = 0; n < setup.documents; ++n) {
    for (int64_t h = 0; h < which.heads; ++h) head.run(n, h);
  }
  return out;
}

enum class Form { kChunked, kTwoPass, kExact };
const char* name_of(Form form) {
  return form == Form::kChunked   ? "linear_recurrence chunked"
         : form == Form::kTwoPass ? "linear_recurrence two-pass"
                                  : "linear_recurrence exact";
}

// What one form leaves behind; the exact one has no backward pass, the chunked one no gradient of a decay.
struct Outputs {
  explicit Outputs(const Setup& setup)
      : o(Buffer<Bf16>::output(setup.d_o.size())),
        d_q(Buffer<Bf16>::output(setup.q.size())),
        d_k(Buffer<Bf16>::output(setup.k.size())),
        d_v(Buffer<Bf16>::output(setup.v.size())),
        final_state(Buffer<float>::output(setup.states)),
        d_initial(Buffer<float>::output(setup.states)),
        d_log_decay(Buffer<float>::output(setup.problem.gate.logits != nullptr ? 0 : setup.decays)),
        d_logits(Buffer<Bf16>::output(setup.logits.size())),
        d_bound(Buffer<float>::output(setup.lower_bound.size())) {}

  void run(const Setup& setup, const Case& which, Form form, void* workspace) {
    const Recurrence& problem = setup.problem;
    const kernels::cuda::RecurrenceGradientPointers gradients{
        setup.d_o.device(),
        which.states ? setup.d_final.device() : nullptr,
        d_q.device(),
        d_k.device(),
        d_v.device(),
        d_initial.device(),
        form == Form::kTwoPass && !which.gated() ? d_log_decay.device() : nullptr,
        form == Form::kTwoPass && which.gated() ? d_logits.device() : nullptr,
        which.gate == RecurrenceGateKind::kLowerBounded ? d_bound.device() : nullptr};
    if (form == Form::kExact) {
      kernels::cuda::exact_forward(problem, o.device(), final_state.device(), nullptr);
    } else if (form == Form::kTwoPass) {
      kernels::cuda::two_pass_forward(problem, setup.two_pass, o.device(), final_state.device(), workspace,
                                      nullptr);
      kernels::cuda::two_pass_backward(problem, setup.two_pass, gradients, workspace, nullptr);
    } else {
      kernels::cuda::chunked_forward(problem, setup.tables, o.device(), final_state.device(), workspace,
                                     nullptr);
      kernels::cuda::chunked_backward(problem, setup.tables, gradients, workspace, nullptr);
    }
    kernels::cuda::runtime::synchronize();
  }

  Buffer<Bf16> o, d_q, d_k, d_v;
  Buffer<float> final_state, d_initial, d_log_decay;
  Buffer<Bf16> d_logits;
  Buffer<float> d_bound;
};

bool takes(const Setup& setup, Form form) {
  return setup.problem.kind != DecayKind::kChannelToken || form == Form::kTwoPass || form == Form::kExact;
}

int64_t workspace_bytes(const Setup& setup, Form form) {
  return form == Form::kExact ? 0
         : form == Form::kTwoPass
             ? kernels::cuda::two_pass_workspace_bytes(setup.problem, setup.two_pass, true)
             : kernels::cuda::chunked_workspace_bytes(setup.problem, setup.tables.segments, true);
}

constexpr Form kForms[] = {Form::kChunked, Form::kTwoPass, Form::kExact};

void check_case(Session& session, const Case& which) {
  const double scale = 0.7;
  Setup setup(session, which, scale);
  const Reference want = reference_of(which, setup, scale);
  for (const Form form : kForms) {
    if (!takes(setup, form)) continue;
    const char* const op = name_of(form);
    Outputs out(setup);
    const auto workspace = Buffer<unsigned char>::output(workspace_bytes(setup, form));
    out.run(setup, which, form, workspace.device());
    // The chunked forms round their states to bf16 where they enter a product; fp32 ones are sums of products
    // of rounded operands.
    session.compare(op, which.name, "o", out.o, want.o, kBf16);
    session.compare(op, which.name, "final_state", out.final_state, want.final_state,
                    form == Form::kExact ? kFp32 : kBf16);
    session.expect(op, which.name, "workspace", workspace.guards_hold(), "wrote outside the workspace");
    if (form == Form::kExact) continue;
    session.compare(op, which.name, "d_q", out.d_q, want.d_q, kBf16);
    session.compare(op, which.name, "d_k", out.d_k, want.d_k, kBf16);
    session.compare(op, which.name, "d_v", out.d_v, want.d_v, kBf16);
    // below that, fp32 ends
    session.compare(op, which.name, "d_initial", out.d_initial, want.d_initial,
                    {kBf16.rms, kBf16.worst, 1e-30});
    // Sums, of both signs, of products of operands that were rounded.
    const Tolerance sums{8e-3, kBf16.worst};
    if (form != Form::kTwoPass || which.kind == DecayKind::kNone) continue;
    if (!which.gated()) {
      session.compare(op, which.name, "d_log_decay", out.d_log_decay, want.d_log_decay, sums);
      continue;
    }
    session.compare(op, which.name, "d_logits", out.d_logits, want.d_log_decay, sums);
    if (which.gate == RecurrenceGateKind::kLowerBounded)
      session.compare(op, which.name, "d_lower_bound", out.d_bound, want.d_bound, sums);
  }
}

// Nobody can look at a decay on the device before a kernel does, so one that is none (above 0 by more than
// rounding, or NaN) shows as NaN: in o from its token on, in the final state, in the gradients, and in no
// other head. One within rounding does not.
void check_impossible_decays(Session& session) {
  for (const DecayKind kind : {DecayKind::kHead, DecayKind::kHeadToken, DecayKind::kChannelToken}) {
    for (const float bad : {2 * kernels::cuda::kLargestLogDecay, std::numeric_limits<float>::quiet_NaN(),
                            0.9f * kernels::cuda::kLargestLogDecay}) {
      const Case which{"", {100}, 2, 2, 24, 40, kind, 0.5, false, true};
      Setup setup(session, which, 1);
      const int64_t token = 70, head = 1;
      setup.log_decay.host[static_cast<size_t>(kind == DecayKind::kHead ? head
                                               : kind == DecayKind::kHeadToken
                                                   ? token * which.heads + head
                                                   : (token * which.heads + head) * which.keys + 3)] = bad;
      setup.log_decay.upload();
      const bool shows = !(bad < kernels::cuda::kLargestLogDecay);
      const std::string name = std::string(kind == DecayKind::kHead        ? "decay per head"
                                           : kind == DecayKind::kHeadToken ? "decay per token and head"
                                                                           : "decay per token and channel") +
                               (bad != bad ? ", NaN"
                                : shows    ? ", above 0"
                                           : ", 0 but for rounding");
      for (const Form form : kForms) {
        if (!takes(setup, form)) continue;
        Outputs out(setup);
        const Memory workspace(workspace_bytes(setup, form));
        out.run(setup, which, form, workspace.data());
        // of [rows, heads, width]
        const auto nans = [&](auto& buffer, int64_t of_head, int64_t width, int64_t first_row) {
          buffer.download();
          int64_t count = 0;
          for (int64_t i = 0; i < buffer.size(); ++i) {
            const float x = kernels::cuda::to_float(buffer.host[static_cast<size_t>(i)]);
            count += i / width % which.heads == of_head && i / width / which.heads >= first_row && x != x;
          }
          return count;
        };
        const int64_t area = which.keys * which.values, after = shows ? (100 - token) * which.values : 0;
        session.expect(
            name_of(form), name, "o",
            nans(out.o, head, which.values, token) == after && nans(out.o, 0, which.values, 0) == 0);
        session.expect(
            name_of(form), name, "final_state",
            (nans(out.final_state, head, area, 0) > 0) == shows && nans(out.final_state, 0, area, 0) == 0);
        if (form == Form::kExact) continue;
        const auto gradient = [&](const char* tensor, auto& buffer, int64_t width) {
          session.expect(name_of(form), name, tensor,
                         (nans(buffer, head, width, 0) > 0) == shows && nans(buffer, 0, width, 0) == 0);
        };
        gradient("d_q", out.d_q, which.keys);
        gradient("d_k", out.d_k, which.keys);
        gradient("d_v", out.d_v, which.values);
        gradient("d_initial", out.d_initial, area);
      }
    }
  }
}

// One token for each of many sequences, the state in place.
void check_decode(Session& session) {
  const Case which{"one step of decoding", {1, 1, 1, 1, 1}, 4, 2, 64, 48, DecayKind::kHead, 0.5, false, true};
  Setup setup(session, which, 1);
  const Reference want = reference_of(which, setup, 1);
  auto o = Buffer<Bf16>::output(setup.d_o.size());
  kernels::cuda::exact_forward(setup.problem, o.device(), setup.initial.device(), nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare("linear_recurrence exact", which.name, "o", o, want.o, kBf16);
  session.compare("linear_recurrence exact", which.name, "state", setup.initial, want.final_state, kFp32);
}

// One shape, both directions of a form, for several lengths of segments.
void time_form(Session& session, Form form, const Case& which, const std::string& shape,
               const std::vector<int64_t>& segment_lengths) {
  for (const int64_t segment_tokens : segment_lengths) {
    Case split = which;
    split.segment_tokens = segment_tokens;
    Setup setup(session, split, 1);
    Outputs out(setup);
    Memory workspace(workspace_bytes(setup, form));
    const bool two_pass = form == Form::kTwoPass;
    const kernels::cuda::RecurrenceGradientPointers gradients{setup.d_o.device(),
                                                              nullptr,
                                                              out.d_q.device(),
                                                              out.d_k.device(),
                                                              out.d_v.device(),
                                                              nullptr,
                                                              two_pass ? out.d_log_decay.device() : nullptr};
    const double token_heads = static_cast<double>(setup.tokens) * which.heads;
    const kernels::RecurrenceShape work{
        .block = 64,
        .keys = which.keys,
        .values = which.values,
        .decay_bytes = which.kind == DecayKind::kChannelToken ? 4 * which.keys : 0};
    const kernels::RecurrenceWork forward = kernels::forward_work(work),
                                  backward = kernels::backward_work(work, 2);
    const std::string name = shape + ", " + std::to_string(setup.tables.segments) + " segments",
                      op = name_of(form);
    session.time(op + " forward", name, token_heads * forward.bytes, token_heads * forward.flops, [&] {
      if (two_pass)
        return kernels::cuda::two_pass_forward(setup.problem, setup.two_pass, out.o.device(),
                                               out.final_state.device(), workspace.data(), nullptr);
      kernels::cuda::chunked_forward(setup.problem, setup.tables, out.o.device(), out.final_state.device(),
                                     workspace.data(), nullptr);
    });
    session.time(op + " backward", name, token_heads * backward.bytes, token_heads * backward.flops, [&] {
      if (two_pass)
        return kernels::cuda::two_pass_backward(setup.problem, setup.two_pass, gradients, workspace.data(),
                                                nullptr);
      kernels::cuda::chunked_backward(setup.problem, setup.tables, gradients, workspace.data(), nullptr);
    });
  }
}

void time_decode(Session& session, const Case& which, const std::string& shape) {
  Setup setup(session, which, 1);
  auto o = Buffer<Bf16>::output(setup.d_o.size());
  auto final_state = Buffer<float>::output(setup.states);
  const double token_heads = static_cast<double>(setup.tokens) * which.heads, k = which.keys,
               v = which.values;
  session.time(
      "linear_recurrence exact forward", shape,
      token_heads * 4 * (k + v) + 8 * static_cast<double>(setup.states), token_heads * 4 * k * v,
      [&] { kernels::cuda::exact_forward(setup.problem, o.device(), final_state.device(), nullptr); });
}

}  // namespace

void check_linear_recurrence(Session& session) {
  for (const Case& which : cases()) check_case(session, which);
  check_decode(session);
  check_impossible_decays(session);
}

namespace {

// A form's shape, for these lengths of segments and those that the model takes.
void time_shape(Session& session, Form form, const Case& which, const char* shape,
                std::vector<int64_t> segment_lengths) {
  const auto walks_of = [&](bool backward) {
    return form == Form::kTwoPass
               ? kernels::cuda::two_pass_walks(which.heads, which.keys, which.values)
               : kernels::cuda::chunked_walks(which.heads, which.keys, which.values, backward);
  };
  for (const bool backward : {false, true}) {
    const int64_t chosen = kernels::cuda::choose_segment_tokens(
        Setup::boundaries(which.lengths), walks_of(backward), session.machine.multiprocessors);
    if (std::find(segment_lengths.begin(), segment_lengths.end(), chosen) == segment_lengths.end())
      segment_lengths.push_back(chosen);
  }
  time_form(session, form, which, shape, segment_lengths);
}

constexpr int64_t kUnsplit = kernels::cuda::kUnsplit;
const Case kLightning{"", {16384}, 64, 64, 128, 128, DecayKind::kHead, 0.5};
const Case kLong{"", {32768, 32768, 32768, 32768}, 32, 32, 128, 128, DecayKind::kHead, 0.5};
constexpr const char *kLightningName = "1 × 16384, 64 heads × 128", *kLongName = "4 × 32768, 32 heads × 128";

}  // namespace

void time_linear_recurrence(Session& session) {
  const auto time = [&](Form form, const Case& which, const char* shape,
                        const std::vector<int64_t>& segment_lengths) {
    time_shape(session, form, which, shape, segment_lengths);
  };
  time(Form::kChunked, kLightning, kLightningName, {kUnsplit, 8192, 4096, 1024});
  time(Form::kChunked, kLong, kLongName, {kUnsplit, 8192});
  time(Form::kChunked, {"", {32768}, 8, 8, 64, 64, DecayKind::kHeadToken, 0.5},
       "1 × 32768, 8 heads × 64, decay per token", {});
  time(Form::kTwoPass, {"", {32768}, 8, 8, 64, 64, DecayKind::kHeadToken, 0.5},
       "1 × 32768, 8 heads × 64, decay per token, its gradient", {});
  time(Form::kTwoPass, {"", {16384}, 8, 8, 64, 64, DecayKind::kChannelToken, 0.5},
       "1 × 16384, 8 heads × 64, decay per channel", {4096, 1024});
  time(Form::kTwoPass, {"", {8192, 8192}, 16, 16, 128, 128, DecayKind::kChannelToken, 0.5},
       "2 × 8192, 16 heads × 128, decay per channel", {kUnsplit, 2048});
  time_decode(session,
              {"", std::vector<int64_t>(64, 1), 64, 64, 128, 128, DecayKind::kHead, 0.5, false, true},
              "decoding, 64 sequences, 64 heads × 128");
}

}  // namespace longhaul::gpu_check
