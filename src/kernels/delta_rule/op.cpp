#include "kernels/delta_rule/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/by_device.h"
#include "kernels/delta_rule/chunked.h"
#include "kernels/delta_rule/cpu.h"
#include "kernels/delta_rule/cuda_call.h"
#include "kernels/delta_rule/problem.h"
#include "kernels/delta_rule/tokens.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/linear_recurrence/problem.h"
#include "kernels/operator_clock.h"
#include "kernels/saved/recomputed.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

enum class DeltaBy : size_t { kCuda, kCpu, kMeta, kAten, kReference };
constexpr std::string_view kDeltaImplementations[] = {"cuda", "cpu", "meta", "aten", "reference"};

Refusal refuse_delta_rule_cuda(const DeltaRuleProblem& problem) {
  const Refusal refusal = refuse_cuda(problem.in.v_thv);
  return refusal.empty() ? cuda_calls<DeltaRuleCuda>().refuse(problem) : refusal;
}

DeltaBy choose_delta_rule(const DeltaRuleProblem& problem) {
  const Tensor& v = problem.in.v_thv;
  return static_cast<DeltaBy>(
      Dispatcher(kDeltaRuleOp, kDeltaImplementations).choose([&](size_t i) -> Refusal {
        switch (static_cast<DeltaBy>(i)) {
          case DeltaBy::kCuda:
            return refuse_delta_rule_cuda(problem);
          case DeltaBy::kCpu:
            return refuse_delta_rule_cpu(problem);
          case DeltaBy::kMeta:
            return v.is_meta() ? Refusal() : kNotMeta;
          case DeltaBy::kReference:
            return v.is_cpu() ? Refusal() : kNotOnCpu;
          default:
            return {};
        }
      }));
}

void check_sizes(const char* argument, const Tensor& x, const std::vector<int64_t>& expected,
                 const Tensor& like, bool same_dtype) {
  if (x.defined() && x.sizes() == at::IntArrayRef(expected) && x.device() == like.device() &&
      at::isFloatingType(x.scalar_type()) && (!same_dtype || x.scalar_type() == like.scalar_type())) {
    return;
  }
  const std::string type = same_dtype ? std::string(name_of(like.scalar_type())) : "floating point";
  refuse_argument(kDeltaRuleOp, argument,
                  fmt::format("[{}] {} on the device of v", fmt::join(expected, ", "), type), shape_text(x));
}

void check_delta_decay(const DeltaRuleProblem& problem) {
  const Tensor& log_decay = problem.in.log_decay;
  if (!log_decay.is_cpu() || log_decay.numel() == 0) return;
  if (const double largest = log_decay.detach().max().item<double>(); largest > 1e-3)
    refuse_argument(kDeltaRuleOp, "log_decay", "0 or less", fmt::format("{}", largest));
}

// The operations of the forward pass, token by token: the state is read for the key, takes what its value
// lacks, and is read by the query.
double delta_rule_flops(const DeltaRuleProblem& problem) {
  return 6.0 * static_cast<double>(problem.tokens() * problem.heads() * problem.in.k_tgk.size(2) *
                                   problem.in.v_thv.size(2));
}

LinearRecurrenceResult forward_by(DeltaBy by, const DeltaRuleProblem& problem, Tensor* kept) {
  count_flops(delta_rule_flops(problem));
  if (by == DeltaBy::kReference) return delta_rule_forward_reference(problem);
  if (by == DeltaBy::kCuda) {
    if (kept != nullptr) *kept = at::empty({0}, problem.state_options());  // it makes everything again
    return cuda_calls<DeltaRuleCuda>().forward(problem);
  }
  return by == DeltaBy::kCpu ? delta_rule_forward_cpu(problem, kept)
                             : delta_rule_forward_chunked(problem, delta_room(problem), kept);
}

DeltaRuleGradients backward_by(DeltaBy by, const DeltaRuleProblem& problem, const Tensor& kept,
                               const Tensor& d_o, const Tensor& d_final) {
  count_flops(2 * delta_rule_flops(problem));
  if (by == DeltaBy::kReference) return delta_rule_backward_reference(problem, d_o, d_final);
  if (by == DeltaBy::kCuda) return cuda_calls<DeltaRuleCuda>().backward(problem, d_o, d_final);
  return by == DeltaBy::kCpu ? delta_rule_backward_cpu(problem, kept, d_o, d_final)
                             : delta_rule_backward_chunked(problem, delta_room(problem), kept, d_o, d_final);
}

LinearRecurrenceResult run_delta_rule(const DeltaRuleProblem& problem, DeltaBy by) {
  const DeltaRuleInputs& in = problem.in;
  const std::vector<Tensor> inputs{in.q_tgk,   in.k_tgk,     in.v_thv,
                                   in.beta_th, in.log_decay, in.initial_state_nhkv};
  const bool keep = at::GradMode::is_enabled() && std::ranges::any_of(inputs, [](const Tensor& each) {
                      return each.defined() && each.requires_grad();
                    });
  const auto backward = [offsets = problem.offsets, scale = in.scale, by](const BackwardCall& call) {
    const std::vector<Tensor>& s = call.saved;
    const DeltaRuleProblem saved =
        delta_rule_problem({s[0], s[1], s[2], s[3], s[4], s[5], to_tensor(offsets), scale});
    const Tensor d_o =
        call.gradients[0].defined() ? call.gradients[0] : at::zeros(s[2].sizes(), s[2].options());
    const DeltaRuleGradients made = backward_by(by, saved, s[6], d_o, call.gradients[1]);
    return std::vector<Tensor>{made.q_tgk,     made.k_tgk,
                               made.v_thv,     made.beta_th,
                               made.log_decay, s[5].defined() ? made.initial_state_nhkv : Tensor()};
  };
  const std::vector<Tensor> outputs = differentiable(kDeltaRuleOp, inputs, [&]() -> Recorded {
    Tensor final_state;
    const std::vector<Tensor> made = recurrence_once(in.initial_state_nhkv, [&] {
      Tensor kept;
      const LinearRecurrenceResult result = forward_by(by, problem, keep ? &kept : nullptr);
      final_state = result.final_state_nhkv;
      return std::vector<Tensor>{result.o_thd, kept};
    });
    if (!final_state.defined())
      final_state = unread_state({problem.documents(), problem.heads(), problem.keys(), problem.values()},
                                 problem.state_options());
    std::vector<Tensor> saved = inputs;
    saved.push_back(made[1]);
    return {
        .results = {made[0], final_state}, .saved = saved, .backward = backward, .zeros_for_missing = false};
  });
  return {outputs[0], outputs[1]};
}

// Of document n alone.
DeltaRuleInputs document_of(const DeltaRuleProblem& problem, size_t n, const Tensor& state_hkv) {
  const int64_t begin = problem.offsets[n], length = problem.offsets[n + 1] - begin;
  const auto rows = [&](const Tensor& x) { return x.defined() ? x.narrow(0, begin, length) : x; };
  return {.q_tgk = rows(problem.in.q_tgk),
          .k_tgk = rows(problem.in.k_tgk),
          .v_thv = rows(problem.in.v_thv),
          .beta_th = rows(problem.in.beta_th),
          .log_decay = rows(problem.in.log_decay),
          .initial_state_nhkv = state_hkv.unsqueeze(0),
          .scale = problem.in.scale};
}

// By our kernels, all sequences at once: none sees another.
Tensor continued_on_a_gpu(DeltaRuleInputs in, const RecurrenceStates& states) {
  const Tensor rows = to_tensor(states.rows, in.v_thv.device());
  in.initial_state_nhkv = states.state_shkv.index_select(0, rows);
  const LinearRecurrenceResult result = forward_by(DeltaBy::kCuda, delta_rule_problem(in), nullptr);
  states.state_shkv.index_copy_(0, rows, result.final_state_nhkv);
  return result.o_thd;
}

}  // namespace

DeltaRuleProblem delta_rule_problem(const DeltaRuleInputs& in) {
  const Tensor &q = in.q_tgk, &v = in.v_thv;
  if (!v.defined() || v.dim() != 3 || !at::isFloatingType(v.scalar_type()))
    refuse_argument(kDeltaRuleOp, "v", "[tokens, heads, value channels], floating point", shape_text(v));
  const int64_t tokens = v.size(0), heads = v.size(1);
  if (!q.defined() || q.dim() != 3 || q.size(1) == 0 || heads % q.size(1) != 0)
    refuse_argument(kDeltaRuleOp, "q", fmt::format("[{}, a divisor of {}, key channels]", tokens, heads),
                    shape_text(q));
  check_sizes("q", q, {tokens, q.size(1), q.size(2)}, v, true);
  check_sizes("k", in.k_tgk, {tokens, q.size(1), q.size(2)}, v, true);
  check_sizes("beta", in.beta_th, {tokens, heads}, v, false);
  if (in.log_decay.defined()) {
    const bool by_channel = in.log_decay.dim() == 3;
    check_sizes("log_decay", in.log_decay,
                by_channel ? std::vector{tokens, heads, q.size(2)} : std::vector{tokens, heads}, v, false);
  }
  DeltaRuleProblem problem{in, document_offsets(in.offsets, tokens, kDeltaRuleOp)};
  if (const Tensor& initial = in.initial_state_nhkv; initial.defined()) {
    check_state(kDeltaRuleOp, "initial_state", initial,
                {problem.documents(), heads, problem.keys(), problem.values()}, problem.state_options());
  }
  return problem;
}

LinearRecurrenceResult delta_rule(const DeltaRuleInputs& in) {
  const DeltaRuleProblem problem = delta_rule_problem(in);
  const DeltaBy by = choose_delta_rule(problem);
  if (by == DeltaBy::kMeta) {
    const auto results = meta_results(
        {in.q_tgk, in.k_tgk, in.v_thv, in.beta_th, in.log_decay, in.initial_state_nhkv},
        {{in.v_thv.sizes().vec(), in.v_thv.scalar_type()},
         {{problem.documents(), problem.heads(), problem.keys(), problem.values()}, problem.state_type()}});
    return {results[0], results[1]};
  }
  if (problem.decays()) check_delta_decay(problem);
  return run_delta_rule(problem, by);
}

Tensor delta_rule_continued(const DeltaRuleInputs& in, const RecurrenceStates& states) {
  const at::NoGradGuard no_gradient;
  const DeltaRuleProblem problem = delta_rule_problem(in);
  check_states(kDeltaRuleOp, states, problem.documents(), {problem.heads(), problem.keys(), problem.values()},
               problem.state_options());
  if (problem.decays()) check_delta_decay(problem);
  // Token by token costs a pass over the state a token, a chunk a few products of matrices.
  constexpr int64_t kChunked = 64;
  const DeltaBy by = choose_delta_rule(problem);
  if (by == DeltaBy::kCuda) return continued_on_a_gpu(in, states);
  const Tensor o = at::empty(in.v_thv.sizes(), in.v_thv.options());
  for (size_t n = 0; n < states.rows.size(); ++n) {
    const int64_t begin = problem.offsets[n], length = problem.offsets[n + 1] - begin;
    if (length == 0 || (length < kChunked && o.is_cpu())) continue;
    const Tensor state = states.state_shkv.select(0, states.rows[n]);
    const LinearRecurrenceResult result =
        forward_by(by, delta_rule_problem(document_of(problem, n, state)), nullptr);
    o.narrow(0, begin, length).copy_(result.o_thd);
    state.copy_(result.final_state_nhkv.squeeze(0));
  }
  if (o.is_cpu()) delta_rule_tokens(problem, states, kChunked, o);
  return o;
}

LinearRecurrenceResult delta_rule_reference(const DeltaRuleInputs& in) {
  const DeltaRuleProblem problem = delta_rule_problem(in);
  if (problem.decays()) check_delta_decay(problem);
  return run_delta_rule(problem, DeltaBy::kReference);
}

}  // namespace longhaul::kernels
