// Checks and timings of delta_rule against the recurrence itself, token by token in fp64.
#include "kernels/delta_rule/cuda.h"

#include <cmath>
#include <limits>

#include "gpu_check/session.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::DeltaGradientPointers;
using kernels::cuda::DeltaRule;

struct DeltaCase {
  const char* name;
  std::vector<int64_t> lengths;
  int heads, key_heads, keys, values;
  double steepest;  // of the decay; below 0: none
  double least_beta, most_beta;
  bool states = true;  // an initial state is given, and the gradient of the final one is not zero
  bool alike = false;  // keys differ by little
};

const std::vector<DeltaCase>& cases() {
  static const std::vector<DeltaCase> all = {
      {"tiny", {5}, 2, 2, 3, 4, 0.9, 0, 1, false},
      {"odd lengths, short and empty documents", {1, 0, 63, 64, 65, 0, 7}, 2, 2, 8, 24, 0.9, 0, 1},
      {"no decay, negative eigenvalues", {33, 130}, 2, 2, 16, 8, -1, 0, 2},
      {"shared keys, several chunks", {40, 200}, 4, 2, 64, 64, 0.3, 0, 1},
      {"nothing is written", {70}, 1, 1, 20, 12, 0.5, 0, 0},
      {"keys that are alike", {130}, 1, 1, 32, 32, -1, 0.8, 1, true, true},
      {"heads of 128", {150, 64}, 1, 1, 128, 128, 0.1, 0, 1, false},
      {"keys 100, values 136", {90, 3}, 2, 1, 100, 136, 0.1, 0, 1},
      {"keys 256, values 40", {130}, 1, 1, 256, 40, 0.05, 0, 1},
      {"steep decay", {130}, 2, 2, 16, 16, 60, 0, 1},
      {"decay that underflows", {70}, 1, 1, 16, 16, 10000, 0, 1},
  };
  return all;
}

std::vector<int64_t> boundaries(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> all{0};
  for (const int64_t length : lengths) all.push_back(all.back() + length);
  return all;
}

// Keys of length 1 but for rounding, as models make them.
std::vector<Bf16> unit_keys(Session& session, int64_t rows, int width, bool alike) {
  std::vector<float> x = random_fp32(session, rows * width);
  const std::vector<float> common = random_fp32(session, width);
  std::vector<Bf16> keys(x.size());
  for (int64_t row = 0; row < rows; ++row) {
    float* const of_row = x.data() + row * width;
    double sum = 0;
    for (int c = 0; c < width; ++c) {
      if (alike) of_row[c] = 0.1f * of_row[c] + common[static_cast<size_t>(c)];
      sum += of_row[c] * of_row[c];
    }
    for (int c = 0; c < width; ++c)
      keys[static_cast<size_t>(row * width + c)] =
          kernels::cuda::to_bf16(of_row[c] / static_cast<float>(std::sqrt(sum)));
  }
  return keys;
}

// Uniform between two values.
std::vector<float> random_betas(Session& session, int64_t count, double least, double most) {
  std::vector<float> values = random_log_decay(session, count, 1);
  for (float& x : values) x = static_cast<float>(least - x * (most - least));
  return values;
}

// Inputs and tables of one case on the device.
struct Setup {
  Setup(Session& session, const DeltaCase& which)
      : offsets(boundaries(which.lengths)),
        tokens(offsets.back()),
        states(static_cast<int64_t>(which.lengths.size()) * which.heads * which.keys * which.values),
        q(random_bf16(session, tokens * which.key_heads * which.keys)),
        k(unit_keys(session, tokens * which.key_heads, which.keys, which.alike)),
        v(random_bf16(session, tokens * which.heads * which.values)),
        d_o(random_bf16(session, tokens * which.heads * which.values)),
        beta(random_betas(session, tokens * which.heads, which.least_beta, which.most_beta)),
        log_decay(random_log_decay(session, which.steepest < 0 ? 0 : tokens * which.heads, which.steepest)),
        initial(random_fp32(session, which.states ? states : 0)),
        d_final(random_fp32(session, which.states ? states : 0)),
        table(
            kernels::cuda::chunks_of(kernels::cuda::plan_recurrence(offsets, int64_t{1} << 40).along, false)),
        chunks(table.chunks),
        document_chunks(table.segment_chunks) {
    problem = {.tokens = tokens,
               .documents = static_cast<int>(which.lengths.size()),
               .heads = which.heads,
               .key_heads = which.key_heads,
               .keys = which.keys,
               .values = which.values,
               .scale = 0.7f,
               .q = q.device(),
               .k = k.device(),
               .v = v.device(),
               .beta = beta.device(),
               .log_decay = which.steepest < 0 ? nullptr : log_decay.device(),
               .initial = which.states ? initial.device() : nullptr};
    tables = {chunks.device(), document_chunks.device(), static_cast<int>(chunks.size())};
  }

  std::vector<int64_t> offsets;
  int64_t tokens, states;
  Buffer<Bf16> q, k, v, d_o;
  Buffer<float> beta, log_decay, initial, d_final;
  kernels::cuda::ChunkTable table;
  Buffer<kernels::cuda::Chunk> chunks;
  Buffer<int32_t> document_chunks;
  DeltaRule problem;
  kernels::cuda::DeltaTables tables;
};

struct Outputs {
  explicit Outputs(const Setup& setup)
      : o(Buffer<Bf16>::output(setup.v.size())),
        d_q(Buffer<Bf16>::output(setup.q.size())),
        d_k(Buffer<Bf16>::output(setup.k.size())),
        d_v(Buffer<Bf16>::output(setup.v.size())),
        final_state(Buffer<float>::output(setup.states)),
        d_beta(Buffer<float>::output(setup.beta.size())),
        d_log_decay(Buffer<float>::output(setup.log_decay.size())),
        d_initial(Buffer<float>::output(setup.states)),
        workspace(kernels::cuda::delta_workspace_bytes(setup.problem, setup.tables, true)) {
    workspace.poison();
  }
  DeltaGradientPointers gradients(const Setup& setup) const {
    return {.d_o = setup.d_o.device(),
            .d_final = setup.problem.initial == nullptr ? nullptr : setup.d_final.device(),
            .d_q = d_q.device(),
            .d_k = d_k.device(),
            .d_v = d_v.device(),
            .d_beta = d_beta.device(),
            .d_log_decay = setup.problem.log_decay == nullptr ? nullptr : d_log_decay.device(),
            .d_initial = d_initial.device()};
  }
  void run(const Setup& setup) {
    kernels::cuda::delta_forward(setup.problem, setup.tables, o.device(), final_state.device(),
                                 workspace.data(), nullptr);
    workspace.poison();
    kernels::cuda::delta_backward(setup.problem, setup.tables, gradients(setup), workspace.data(), nullptr);
    kernels::cuda::runtime::synchronize();
  }

  Buffer<Bf16> o, d_q, d_k, d_v;
  Buffer<float> final_state, d_beta, d_log_decay, d_initial;
  Memory workspace;
};

struct Reference {
  std::vector<double> o, final_state, d_q, d_k, d_v, d_beta, d_log_decay, d_initial;
};

// S' = λ S, r = v − k S', S = S' + β kᵀ r, o = scale · q S, and its adjoint, of one head of one document.
class HeadReference {
 public:
  HeadReference(const DeltaCase& which, const Setup& setup, Reference& out)
      : case_(which),
        offsets_(setup.offsets),
        q_(widened(setup.q.host)),
        k_(widened(setup.k.host)),
        v_(widened(setup.v.host)),
        d_o_(widened(setup.d_o.host)),
        beta_(widened(setup.beta.host)),
        log_decay_(widened(setup.log_decay.host)),
        initial_(widened(setup.initial.host)),
        d_final_(widened(setup.d_final.host)),
        out_(out) {}

  void run(size_t n, int64_t h) {
    const int64_t length = offsets_[n + 1] - offsets_[n], area = case_.keys * case_.values;
    const auto base = static_cast<int64_t>(n) * case_.heads * area + h * area;
    std::vector<std::vector<double>> states(1, of_document(initial_, base)), residuals;
    for (int64_t t = offsets_[n]; t < offsets_[n + 1]; ++t) step(t, h, states, residuals);
    std::vector<double> adjoint = of_document(d_final_, base);
    for (int64_t i = 0; i < area; ++i) out_.final_state[at(base + i)] = states.back()[at(i)];
    for (int64_t i = length; i-- > 0;)
      step_back(offsets_[n] + i, h, states[at(i)], states[at(i + 1)], residuals[at(i)], adjoint);
    for (int64_t i = 0; i < area; ++i) out_.d_initial[at(base + i)] = adjoint[at(i)];
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  int64_t key_row(int64_t t, int64_t h) const {
    return (t * case_.key_heads + h / (case_.heads / case_.key_heads)) * case_.keys;
  }
  int64_t value_row(int64_t t, int64_t h) const { return (t * case_.heads + h) * case_.values; }
  double lambda(int64_t t, int64_t h) const {
    return log_decay_.empty() ? 1 : std::exp(log_decay_[at(t * case_.heads + h)]);
  }
  std::vector<double> of_document(const std::vector<double>& states, int64_t base) const {
    std::vector<double> state(at(static_cast<int64_t>(case_.keys) * case_.values), 0);
    for (size_t i = 0; i < state.size() && !states.empty(); ++i) state[i] = states[at(base) + i];
    return state;
  }

  void step(int64_t t, int64_t h, std::vector<std::vector<double>>& states,
            std::vector<std::vector<double>>& residuals) const {
    std::vector<double> state = states.back(), residual(at(case_.values));
    const double beta = beta_[at(t * case_.heads + h)];
    for (double& x : state) x *= lambda(t, h);
    for (int64_t d = 0; d < case_.values; ++d) {
      double& r = residual[at(d)] = v_[at(value_row(t, h) + d)];
      for (int64_t c = 0; c < case_.keys; ++c)
        r -= k_[at(key_row(t, h) + c)] * state[at(c * case_.values + d)];
      double sum = 0;
      for (int64_t c = 0; c < case_.keys; ++c) {
        double& s = state[at(c * case_.values + d)];
        s += k_[at(key_row(t, h) + c)] * beta * r;
        sum += q_[at(key_row(t, h) + c)] * s;
      }
      out_.o[at(value_row(t, h) + d)] = kScale * sum;
    }
    states.push_back(state);
    residuals.push_back(residual);
  }

  void step_back(int64_t t, int64_t h, const std::vector<double>& before, const std::vector<double>& now,
                 const std::vector<double>& residual, std::vector<double>& adjoint) const {
    const double beta = beta_[at(t * case_.heads + h)], decay = lambda(t, h);
    double d_beta = 0, d_decay = 0;
    for (int64_t d = 0; d < case_.values; ++d) {
      const double d_o = kScale * d_o_[at(value_row(t, h) + d)];
      double d_u = 0;
      for (int64_t c = 0; c < case_.keys; ++c) {
        const int64_t i = c * case_.values + d;
        adjoint[at(i)] += q_[at(key_row(t, h) + c)] * d_o;
        out_.d_q[at(key_row(t, h) + c)] += now[at(i)] * d_o;
        out_.d_k[at(key_row(t, h) + c)] += adjoint[at(i)] * beta * residual[at(d)];
        d_u += k_[at(key_row(t, h) + c)] * adjoint[at(i)];
      }
      d_beta += residual[at(d)] * d_u;
      out_.d_v[at(value_row(t, h) + d)] = beta * d_u;
      for (int64_t c = 0; c < case_.keys; ++c) {
        const int64_t i = c * case_.values + d;
        out_.d_k[at(key_row(t, h) + c)] -= decay * before[at(i)] * beta * d_u;
        adjoint[at(i)] -= k_[at(key_row(t, h) + c)] * beta * d_u;
        d_decay += decay * before[at(i)] * adjoint[at(i)];
        adjoint[at(i)] *= decay;
      }
    }
    out_.d_beta[at(t * case_.heads + h)] = d_beta;
    if (!log_decay_.empty()) out_.d_log_decay[at(t * case_.heads + h)] = d_decay;
  }

  static constexpr double kScale = 0.7f;
  const DeltaCase& case_;
  const std::vector<int64_t>& offsets_;
  std::vector<double> q_, k_, v_, d_o_, beta_, log_decay_, initial_, d_final_;
  Reference& out_;
};

Reference reference_of(const DeltaCase& which, const Setup& setup) {
  const auto zeros = [](int64_t count) { return std::vector<double>(static_cast<size_t>(count), 0); };
  Reference out{zeros(setup.v.size()),         zeros(setup.states),   zeros(setup.q.size()),
                zeros(setup.k.size()),         zeros(setup.v.size()), zeros(setup.beta.size()),
                zeros(setup.log_decay.size()), zeros(setup.states)};
  HeadReference head(which, setup, out);
  for (size_t n = 0; n < which.lengths.size(); ++n) {
    for (int64_t h = 0; h < which.heads; ++h) head.run(n, h);
  }
  return out;
}

// T, P, R, S and G are rounded to bf16 on the way besides what enters and leaves: 8e-3. What is left to write
// solves a system, and errors grow with it: writes with β up to 2 turn what they replace over and keep it all
// (1.2e-2); where keys are alike the gradient of what is left is a difference of neighbours an eighth as long
// as they are (2e-2).
Tolerance tolerance_of(const DeltaCase& which) {
  const double rms = which.alike ? 2e-2 : which.most_beta > 1 ? 1.2e-2 : 8e-3;
  return {rms, 4 * rms, 1e-30};  // below that, fp32 ends
}

void check_case(Session& session, const DeltaCase& which) {
  Setup setup(session, which);
  const Reference want = reference_of(which, setup);
  Outputs out(setup);
  out.run(setup);
  const auto compare = [&](const char* tensor, auto& found, const std::vector<double>& expected) {
    session.compare("delta_rule", which.name, tensor, found, expected, tolerance_of(which));
  };
  compare("o", out.o, want.o);
  compare("final_state", out.final_state, want.final_state);
  compare("d_q", out.d_q, want.d_q);
  compare("d_k", out.d_k, want.d_k);
  compare("d_v", out.d_v, want.d_v);
  compare("d_beta", out.d_beta, want.d_beta);
  if (setup.problem.log_decay != nullptr) compare("d_log_decay", out.d_log_decay, want.d_log_decay);
  compare("d_initial", out.d_initial, want.d_initial);
  session.expect("delta_rule", which.name, "workspace", out.workspace.guards_hold(),
                 "wrote outside the workspace");
}

// A decay above 0 by more than rounding, or NaN, shows as NaN from its token on, and in no other head.
void check_impossible_decays(Session& session) {
  for (const float bad : {2 * kernels::cuda::kLargestLogDecay, std::numeric_limits<float>::quiet_NaN()}) {
    const DeltaCase which{"a decay above 0 or NaN", {100}, 2, 2, 24, 40, 0.5, 0, 1};
    Setup setup(session, which);
    const int64_t token = 70, head = 1;
    setup.log_decay.host[static_cast<size_t>(token * which.heads + head)] = bad;
    setup.log_decay.upload();
    Outputs out(setup);
    out.run(setup);
    out.o.download();
    int64_t of_head = 0, of_other = 0;
    for (int64_t i = 0; i < out.o.size(); ++i) {
      const float x = kernels::cuda::to_float(out.o.host[static_cast<size_t>(i)]);
      const int64_t row = i / which.values;
      if (x == x) continue;
      if (row % which.heads == head && row / which.heads >= token) ++of_head;
      if (row % which.heads != head) ++of_other;
    }
    session.expect("delta_rule", which.name, "o",
                   of_head == (setup.tokens - token) * which.values && of_other == 0);
  }
}

// Bytes that must move and operations that the form takes, of one token and head. Of the tokens of a chunk
// half of the pairs count.
void time_shape(Session& session, const DeltaCase& which, const char* shape) {
  Setup setup(session, which);
  Outputs out(setup);
  const double token_heads = static_cast<double>(setup.tokens) * which.heads, k = which.keys,
               v = which.values, pairs = kernels::cuda::kChunk / 2.0;
  session.time("delta_rule forward", shape, token_heads * (2 * (2 * k + 2 * v) + 8),
               token_heads * 2 * (3 * k * v + pairs * (2 * k + 2 * v)), [&] {
                 kernels::cuda::delta_forward(setup.problem, setup.tables, out.o.device(),
                                              out.final_state.device(), out.workspace.data(), nullptr);
               });
  session.time("delta_rule backward", shape, token_heads * (2 * (4 * k + 3 * v) + 16),
               token_heads * 2 * (8 * k * v + pairs * (7 * k + 5 * v)), [&] {
                 kernels::cuda::delta_backward(setup.problem, setup.tables, out.gradients(setup),
                                               out.workspace.data(), nullptr);
               });
}

}  // namespace

void check_delta_rule(Session& session) {
  for (const DeltaCase& which : cases()) check_case(session, which);
  check_impossible_decays(session);
}

void time_delta_rule(Session& session) {
  const std::vector<int64_t> batch(4, 8192);
  time_shape(session, {"", batch, 8, 8, 128, 128, 0.1, 0, 1, false}, "4 × 8192, 8 heads × 128");
  time_shape(session, {"", batch, 16, 16, 64, 64, 0.1, 0, 1, false}, "4 × 8192, 16 heads × 64");
  time_shape(session, {"", {8192, 8192}, 6, 6, 256, 512, 0.1, 0, 1, false}, "2 × 8192, 6 heads × 256 by 512");
}

}  // namespace longhaul::gpu_check
