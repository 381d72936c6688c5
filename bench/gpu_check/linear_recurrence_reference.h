// The recurrence of linear_recurrence.cpp's checks itself, token by token in fp64, with its gates
// (kernels/linear_recurrence/op.h).
#pragma once

#include <cmath>

#include "gpu_check/session.h"
#include "kernels/linear_recurrence/cuda.h"

namespace longhaul::gpu_check {

using kernels::cuda::DecayKind;
using kernels::cuda::RecurrenceGateKind;

struct RecurrenceCase {
  const char* name;
  std::vector<int64_t> lengths;
  int heads, key_heads, keys, values;
  DecayKind kind;
  double steepest;
  bool reverse = false, states = false;  // states: initial state given, gradient of the final one not zero
  int64_t segment_tokens = 128;
  bool tied = false;  // k = 1 − λ, one for each head of q
  // bf16 logits, of standard deviation `steepest`, make λ; τ = 2
  RecurrenceGateKind gate = RecurrenceGateKind::kNone;
  bool gated() const { return gate != RecurrenceGateKind::kNone; }
};
constexpr double kGateDivisor = 2;

// [T, heads …] as the kernels have them
struct RecurrenceReference {
  std::vector<double> o, final_state, d_q, d_k, d_v, d_log_decay, d_initial;  // d_log_decay: or of the logits
  std::vector<double> d_bound;
};

struct RecurrenceInputs {
  std::vector<double> q, k, v, log_decay, initial, d_o, d_final;
  std::vector<double> logits, bound;
  std::vector<int64_t> offsets;
};

// S_t = λ_t ⊙ S_{t−1} + k_tᵀ v_t, o_t = scale · q_t S_t, and its adjoint, of one head of one document.
class HeadReference {
 public:
  HeadReference(const RecurrenceCase& which, const RecurrenceInputs& in, double scale,
                RecurrenceReference& out)
      : case_(which), in_(in), scale_(scale), out_(out) {}

  void run(int64_t n, int64_t h) {
    const int64_t length = in_.offsets[static_cast<size_t>(n) + 1] - in_.offsets[static_cast<size_t>(n)];
    const int64_t rows = case_.keys, cols = case_.values, area = rows * cols,
                  base = (n * case_.heads + h) * area;
    std::vector<std::vector<double>> states(static_cast<size_t>(length) + 1,
                                            std::vector<double>(static_cast<size_t>(area), 0));
    for (int64_t i = 0; i < area; ++i)
      states[0][size(i)] = in_.initial.empty() ? 0 : in_.initial[size(base + i)];
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = token(n, i);
      for (int64_t d = 0; d < cols; ++d) {
        double sum = 0;
        for (int64_t c = 0; c < rows; ++c) {
          double& s = states[size(i) + 1][size(c * cols + d)];
          s = lambda(t, h, c) * states[size(i)][size(c * cols + d)] + key(t, h, c) * in_.v[v_at(t, h, d)];
          sum += in_.q[q_at(t, h, c)] * s;
        }
        out_.o[o_at(t, h, d)] = scale_ * sum;
      }
    }
    std::vector<double> adjoint(size(area), 0);
    for (int64_t i = 0; i < area; ++i) {
      out_.final_state[size(base + i)] = states[size(length)][size(i)];
      adjoint[size(i)] = in_.d_final.empty() ? 0 : in_.d_final[size(base + i)];
    }
    for (int64_t i = length - 1; i >= 0; --i)
      step_back(token(n, i), h, states[size(i)], states[size(i) + 1], adjoint);
    for (int64_t i = 0; i < area; ++i) out_.d_initial[size(base + i)] = adjoint[size(i)];
  }

 private:
  static size_t size(int64_t i) { return static_cast<size_t>(i); }
  int64_t group() const { return case_.heads / case_.key_heads; }
  size_t q_at(int64_t t, int64_t h, int64_t c) const { return size((t * case_.heads + h) * case_.keys + c); }
  size_t k_at(int64_t t, int64_t h, int64_t c) const {
    return size((t * case_.key_heads + h / group()) * case_.keys + c);
  }
  size_t v_at(int64_t t, int64_t h, int64_t d) const {
    return size((t * case_.key_heads + h / group()) * case_.values + d);
  }
  size_t o_at(int64_t t, int64_t h, int64_t d) const {
    return size((t * case_.heads + h) * case_.values + d);
  }
  size_t decay_at(int64_t t, int64_t h, int64_t c) const {
    return case_.kind == DecayKind::kHead        ? size(h)
           : case_.kind == DecayKind::kHeadToken ? size(t * case_.heads + h)
                                                 : q_at(t, h, c);
  }
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  double logit(int64_t t, int64_t h, int64_t c) const { return in_.logits[decay_at(t, h, c)]; }
  double bound(int64_t h, int64_t c) const { return in_.bound[size(h * case_.keys + c)]; }
  double log_decay(int64_t t, int64_t h, int64_t c) const {
    if (case_.gate == RecurrenceGateKind::kLogSigmoid)
      return -std::log1p(std::exp(-logit(t, h, c))) / kGateDivisor;
    return case_.kind == DecayKind::kNone ? 0 : in_.log_decay[decay_at(t, h, c)];
  }
  double lambda(int64_t t, int64_t h, int64_t c) const {
    if (case_.gate != RecurrenceGateKind::kLowerBounded) return std::exp(log_decay(t, h, c));
    return bound(h, c) + (1 - bound(h, c)) * sigmoid(logit(t, h, c));
  }
  double key(int64_t t, int64_t h, int64_t c) const {
    if (!case_.tied) return in_.k[k_at(t, h, c)];
    return case_.gate == RecurrenceGateKind::kLowerBounded ? (1 - bound(h, c)) * sigmoid(-logit(t, h, c))
                                                           : -std::expm1(log_decay(t, h, c));
  }
  // Adds what ∂λ gives log λ, or the gate.
  void add_decay(int64_t t, int64_t h, int64_t c, double d_lambda) {
    double slope = lambda(t, h, c);
    if (case_.gated()) {
      const double x = logit(t, h, c), rest = sigmoid(-x);
      if (case_.gate == RecurrenceGateKind::kLowerBounded)
        out_.d_bound[size(h * case_.keys + c)] += d_lambda * rest;
      slope = case_.gate == RecurrenceGateKind::kLowerBounded ? (1 - bound(h, c)) * sigmoid(x) * rest
                                                              : slope * rest / kGateDivisor;
    }
    out_.d_log_decay[decay_at(t, h, c)] += d_lambda * slope;
  }
  int64_t token(int64_t n, int64_t i) const {
    return case_.reverse ? in_.offsets[size(n) + 1] - 1 - i : in_.offsets[size(n)] + i;
  }

  void step_back(int64_t t, int64_t h, const std::vector<double>& before, const std::vector<double>& now,
                 std::vector<double>& adjoint) {
    for (int64_t c = 0; c < case_.keys; ++c) {
      const double decay = lambda(t, h, c);
      double d_lambda = 0;
      for (int64_t d = 0; d < case_.values; ++d) {
        const size_t i = size(c * case_.values + d);
        const double g = in_.d_o[o_at(t, h, d)];
        adjoint[i] += scale_ * in_.q[q_at(t, h, c)] * g;
        out_.d_q[q_at(t, h, c)] += scale_ * now[i] * g;
        const double d_k = adjoint[i] * in_.v[v_at(t, h, d)];
        if (!case_.tied) out_.d_k[k_at(t, h, c)] += d_k;
        out_.d_v[v_at(t, h, d)] += key(t, h, c) * adjoint[i];
        d_lambda += before[i] * adjoint[i] - (case_.tied ? d_k : 0);
        adjoint[i] *= decay;
      }
      if (case_.kind != DecayKind::kNone) add_decay(t, h, c, d_lambda);
    }
  }

  const RecurrenceCase& case_;
  const RecurrenceInputs& in_;
  double scale_;
  RecurrenceReference& out_;
};

}  // namespace longhaul::gpu_check
