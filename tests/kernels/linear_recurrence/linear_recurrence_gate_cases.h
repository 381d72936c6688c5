// Cases of linear_recurrence with a gate, and their inputs.
#pragma once

#include "kernels/linear_recurrence/linear_recurrence_cases.h"
#include "support/places.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {

struct GateCase {
  Case shape;
  RecurrenceGate::Kind kind;
  double divisor, spread, shift, least, largest;
  bool tied, spikes;
};

inline void PrintTo(const GateCase& c, std::ostream* out) { *out << c.shape.name; }

inline std::vector<GateCase> load_gate_cases() {
  const auto table = toml::parse_file(source_folder() + "/src/kernels/linear_recurrence/cases.toml");
  std::vector<GateCase> cases;
  for (const auto& node : *table["gate_case"].as_array()) {
    const auto& entry = *node.as_table();
    GateCase c{.shape = case_from(entry, entry["per_head"].value_or(false) ? "head_token" : "key_token")};
    const bool bounded = *entry["gate"].value<std::string>() == "lower_bounded";
    c.kind = bounded ? RecurrenceGate::Kind::kLowerBounded : RecurrenceGate::Kind::kLogSigmoid;
    c.divisor = entry["divisor"].value_or(1.0);
    c.spread = entry["spread"].value_or(1.0);
    c.shift = entry["shift"].value_or(0.0);
    c.tied = entry["tied"].value_or(false);
    c.spikes = entry["spikes"].value_or(false);
    if (bounded)
      c.least = *entry["lower"].as_array()->get(0)->value<double>(),
      c.largest = *entry["lower"].as_array()->get(1)->value<double>();
    cases.push_back(c);
  }
  return cases;
}

// q, k, v, the state that enters, the logits and γ; k undefined where keys are tied, γ where the gate has
// none.
struct GateInputs {
  Tensor q, k, v, initial, x, bound;
  std::vector<Tensor*> all() { return {&q, &k, &v, &initial, &x, &bound}; }
};
constexpr const char* kGateInputs[] = {"q", "k", "v", "initial state", "logits", "lower bound"};

// `type` of q, k, v, `logits` of x.
inline GateInputs gate_inputs(const GateCase& c, at::ScalarType type, at::ScalarType logits) {
  const Inputs in = inputs_of(c.shape, type);
  GateInputs out{in.q, c.tied ? Tensor() : in.k, in.v, in.initial, Tensor(), Tensor()};
  const Tensor normal = random_tensor(in.log_decay.sizes(), 6);
  Tensor x = normal * c.spread + c.shift;
  if (c.spikes) x = at::where(normal.abs().gt(1), normal.sign() * 1e4, x);
  out.x = x.to(logits);
  if (c.kind != RecurrenceGate::Kind::kLowerBounded) return out;
  const Tensor share =
      at::linspace(0, 1, c.shape.heads * c.shape.key, at::kDouble).view({c.shape.heads, c.shape.key});
  out.bound = (c.least + (c.largest - c.least) * share).to(type == at::kDouble ? at::kDouble : at::kFloat);
  return out;
}

inline GateInputs widened(const GateInputs& in) {
  GateInputs out = in;
  for (Tensor* each : out.all()) {
    if (each->defined()) *each = each->to(at::kDouble);
  }
  return out;
}

inline LinearRecurrenceOptions gate_options(const GateCase& c, const GateInputs& in, bool reverse = false) {
  return {.scale = 0.7,
          .reverse = reverse,
          .tied_keys = c.tied,
          .gate = {.kind = c.kind, .divisor = c.divisor, .lower_bound_hk = in.bound}};
}

// [o, final state, gradients of what is defined, by kGateInputs].
template <class F>
std::vector<Tensor> evaluate_gate(const GateInputs& values, const F& f, double upstream = 1) {
  GateInputs in = values;
  for (Tensor* each : in.all()) {
    if (each->defined()) *each = each->detach().clone().requires_grad_(true);
  }
  const LinearRecurrenceResult result = f(in);
  weigh(result).mul(upstream).backward();
  std::vector<Tensor> all{result.o_thd.detach(), result.final_state_nhkv.detach()};
  for (Tensor* each : in.all()) all.push_back(each->defined() ? each->grad() : Tensor());
  return all;
}

inline std::vector<Tensor> run_gate(const GateCase& c, const GateInputs& in,
                                    const LinearRecurrenceOptions& options, double upstream = 1) {
  const auto call = [&](const GateInputs& x) {
    LinearRecurrenceOptions of_leaf = options;
    of_leaf.gate.lower_bound_hk = x.bound;
    return linear_recurrence(x.q, x.k, x.v, x.x, x.initial, to_tensor(c.shape.offsets), of_leaf);
  };
  return evaluate_gate(in, call, upstream);
}
inline std::vector<Tensor> run_gate_by(const char* implementation, const GateCase& c, const GateInputs& in,
                                       const LinearRecurrenceOptions& options, double upstream = 1) {
  const Forced forced(implementation);
  return run_gate(c, in, options, upstream);
}

// decay_tolerance: of the gradients of logits and bound; 0: as the others.
inline void expect_gate_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected,
                              double tolerance, double decay_tolerance = 0) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string name = i < 2 ? (i == 0 ? "o" : "final state") : std::string("d ") + kGateInputs[i - 2];
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << name;
    if (!found[i].defined()) continue;
    EXPECT_LT(rms_error(found[i], expected[i]), i >= 6 && decay_tolerance > 0 ? decay_tolerance : tolerance)
        << name;
  }
}

}  // namespace longhaul::kernels
