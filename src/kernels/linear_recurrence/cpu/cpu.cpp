// The CPU recurrence on tensors: what it takes, its job, and where states and gradients lie.
#include "kernels/linear_recurrence/cpu/cpu.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "kernels/linear_recurrence/cpu/cpu_walk.h"
#include "kernels/stream.h"

namespace longhaul::kernels {
namespace {

template <class T>
T* bits(const Tensor& tensor) {  // bf16 as its bits
  return static_cast<T*>(tensor.data_ptr());
}

template <class T>
HeadView<T> view_of(const Tensor& x) {
  return x.defined() ? HeadView<T>{bits<T>(x), x.stride(0), x.stride(1)} : HeadView<T>{};
}

int64_t bytes_of(std::initializer_list<Tensor> tensors) {
  int64_t sum = 0;
  for (const Tensor& each : tensors) sum += each.defined() ? static_cast<int64_t>(each.nbytes()) : 0;
  return sum;
}

Tensor rows_contiguous(const Tensor& x) {
  return !x.defined() || x.size(-1) <= 1 || x.stride(-1) == 1 ? x : x.contiguous();
}

// log_decay as the loops read it: fp32, or a gate's logits, which stay as they are; and its γ.
struct Decay {
  explicit Decay(const RecurrenceProblem& problem) {
    if (!problem.log_decay.defined()) return;
    given = problem.gated() ? problem.log_decay.detach() : problem.log_decay.detach().to(at::kFloat);
    if (problem.decay == DecayKind::kKeyToken) given = rows_contiguous(given);
    if (!problem.gate().lower_bound_hk.defined()) return;
    lower_bound = problem.gate().lower_bound_hk.detach().contiguous();
    least = lower_bound.min().item<double>();
  }
  bool bf16() const { return given.defined() && given.scalar_type() == at::kBFloat16; }
  Tensor given, lower_bound;
  double least = 0;  // γ
};

RecurrenceJobGate gate_of(const RecurrenceProblem& problem, const Decay& decay) {
  RecurrenceJobGate gate{.kind = problem.gate().kind,
                         .inverse_divisor = static_cast<float>(1 / problem.gate().divisor)};
  if (decay.bf16()) gate.logits = view_of<const uint16_t>(decay.given);
  if (decay.lower_bound.defined()) gate.lower_bound = decay.lower_bound.const_data_ptr<float>();
  gate.small_decays = decay.least < static_cast<double>(kSmallDecay);
  return gate;
}

// The bound of a decay per channel that its blocks may rely on.
template <class Element>
void use_bound(RecurrenceJob<Element>& job, const RecurrenceProblem& problem, const Decay& decay) {
  // How far a product of gates may fall within a diagonal block. Its factors then stay within e^{±40}: one of
  // them times a gradient of 1e-20 is still a normal number (denormal ones count as 0), and two of them,
  // above the diagonal, are finite.
  constexpr double kRange = 80;
  const double own = decay.least > 0 ? std::log(decay.least) : -std::numeric_limits<double>::infinity();
  const double bound = std::max(problem.options.log_decay_bound, own);
  job.channel_block = std::min<int64_t>(job.channel_block, job.plan.block);
  if (job.kind != DecayKind::kKeyToken || bound * static_cast<double>(job.channel_block) < -kRange) return;
  while (job.channel_block < job.plan.block && bound * static_cast<double>(2 * job.channel_block) >= -kRange)
    job.channel_block *= 2;
  job.smallest_decay = static_cast<float>(std::exp(bound));
  job.promised = problem.options.log_decay_bound > own;
}

template <class Element>
RecurrenceJob<Element> job_of(const RecurrenceProblem& problem, const Decay& decay) {
  RecurrenceJob<Element> job{.q = view_of<const Element>(problem.q_thk),
                             .k = view_of<const Element>(problem.k_thk),
                             .v = view_of<const Element>(problem.v_thv)};
  job.kind = problem.decay;
  job.tied = problem.options.tied_keys;
  job.reverse = problem.options.reverse;
  job.heads = problem.heads();
  job.group = problem.group();
  job.keys = problem.q_thk.size(2);
  job.values = problem.v_thv.size(2);
  job.scale = static_cast<float>(problem.options.scale);
  job.offsets = problem.offsets;
  job.gate = gate_of(problem, decay);
  if (job.kind == DecayKind::kHead)
    job.decay = {decay.given.const_data_ptr<float>(), 0, decay.given.stride(0)};
  else if (decay.given.defined() && job.gate.logits.data == nullptr)
    job.decay = view_of<const float>(decay.given);
  job.plan = plan_recurrence(problem.offsets, problem.options.block, problem.options.execution,
                             {job.heads, job.keys, job.values, threads(), recurrence_products_per_second()},
                             problem.options.segment);
  use_bound(job, problem, decay);
  return job;
}

template <class Element>
LinearRecurrenceResult forward(const RecurrenceProblem& problem, Tensor* boundaries) {
  const Decay decay(problem);
  RecurrenceJob<Element> job = job_of<Element>(problem, decay);
  const Tensor initial =
      problem.initial_state_nhkv.defined() ? problem.initial_state_nhkv.contiguous() : Tensor();
  const auto fp32 = problem.q_thk.options().dtype(at::kFloat);
  LinearRecurrenceResult result{at::empty({problem.tokens(), job.heads, job.values}, problem.v_thv.options()),
                                at::empty({problem.documents(), job.heads, job.keys, job.values}, fp32)};
  job.o = view_of<Element>(result.o_thd);
  job.past_caches = past_caches(bytes_of({result.o_thd}));
  Tensor slots;
  if (boundaries != nullptr || job.plan.execution != RecurrenceExecution::kFused)
    slots = at::empty({job.plan.slots, job.heads, job.keys, job.values}, fp32);
  Walk<Element> walk(job, false, initial.defined() ? initial.const_data_ptr<float>() : nullptr,
                     result.final_state_nhkv.mutable_data_ptr<float>(),
                     slots.defined() ? slots.mutable_data_ptr<float>() : nullptr);
  walk.run();
  if (boundaries != nullptr) *boundaries = slots;
  return result;
}

template <class Element>
Tensor continued(const RecurrenceProblem& problem, const RecurrenceStates& states) {
  const Decay decay(problem);
  RecurrenceJob<Element> job = job_of<Element>(problem, decay);
  if (job.plan.execution != RecurrenceExecution::kFused) return {};
  Tensor o = at::empty({problem.tokens(), job.heads, job.values}, problem.v_thv.options());
  job.o = view_of<Element>(o);
  job.past_caches = past_caches(bytes_of({o}));
  job.state_rows = states.rows;
  auto* const state = static_cast<float*>(states.state_shkv.data_ptr());
  Walk<Element>(job, false, state, state, nullptr).run();
  return o;
}

template <class Element>
void fold(const RecurrenceProblem& problem, const Tensor& d_o_thd, const Tensor& state_nhkv,
          const Tensor& decay_nhk) {
  const Decay decay(problem);
  const Tensor d_o = d_o_thd.defined() ? rows_contiguous(d_o_thd) : Tensor();
  RecurrenceJob<Element> job = job_of<Element>(problem, decay);
  job.d_o = view_of<const Element>(d_o);
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  const Tensor slots = at::empty({job.plan.slots, job.heads, job.keys, job.values}, state_nhkv.options());
  Walk<Element> walk(job, d_o.defined(), nullptr, state_nhkv.mutable_data_ptr<float>(),
                     slots.mutable_data_ptr<float>());
  walk.fold(decay_nhk.mutable_data_ptr<float>());
}

// out_i = Σ over segments of sums [segments, count].
void add_segments(const std::vector<double>& sums, size_t count, float* out) {
  std::vector<double> total(count, 0.0);
  for (size_t segment = 0; segment < sums.size(); segment += count) {
    for (size_t i = 0; i < count; ++i) total[i] += sums[segment + i];
  }
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(total[i]);
}

template <class Element>
void backward(const RecurrenceProblem& problem, const Tensor& d_o_thd, const Tensor& d_final_nhkv,
              const Tensor& boundaries, RecurrenceGradients& out) {
  const Decay decay(problem);
  const Tensor d_o = rows_contiguous(d_o_thd);
  RecurrenceJob<Element> job = job_of<Element>(problem, decay);
  job.d_o = view_of<const Element>(d_o);
  job.dq = view_of<Element>(out.q_thk);
  job.dk = view_of<Element>(out.k_thk);
  job.dv = view_of<Element>(out.v_thv);
  job.past_caches = past_caches(bytes_of({out.q_thk, out.k_thk, out.v_thv, out.log_decay}));
  const bool per_head = job.kind == DecayKind::kHead;
  if (out.log_decay.defined() && problem.gated() && decay.bf16())
    job.gate.d_logits = view_of<uint16_t>(out.log_decay);
  else if (out.log_decay.defined())
    job.d_decay = {out.log_decay.mutable_data_ptr<float>(), per_head ? 0 : out.log_decay.stride(0),
                   per_head ? 0 : out.log_decay.stride(1)};
  const Tensor initial =
      problem.initial_state_nhkv.defined() ? problem.initial_state_nhkv.contiguous() : Tensor();
  const Tensor d_final = d_final_nhkv.defined() ? d_final_nhkv.to(at::kFloat).contiguous() : Tensor();
  Tensor slots;
  if (job.plan.execution != RecurrenceExecution::kFused) {
    const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
    slots = at::empty({job.plan.slots, job.heads, job.keys, job.values}, d_o.options().dtype(at::kFloat));
  }
  Walk<Element> walk(job, true, d_final.defined() ? d_final.const_data_ptr<float>() : nullptr,
                     out.initial_state_nhkv.mutable_data_ptr<float>(),
                     slots.defined() ? slots.mutable_data_ptr<float>() : nullptr);
  walk.boundaries = boundaries.defined() ? boundaries.const_data_ptr<float>() : nullptr;
  walk.initial = initial.defined() ? initial.const_data_ptr<float>() : nullptr;
  const auto heads = static_cast<size_t>(job.heads);
  if (per_head && out.log_decay.defined()) walk.head_sums.assign(job.plan.segments.size() * heads, 0.0);
  const size_t bounds = out.lower_bound_hk.defined() ? heads * static_cast<size_t>(job.keys) : 0;
  walk.lower_bound_sums.assign(job.plan.segments.size() * bounds, 0.0);
  walk.run();
  if (per_head && out.log_decay.defined())
    add_segments(walk.head_sums, heads, out.log_decay.mutable_data_ptr<float>());
  if (bounds > 0) add_segments(walk.lower_bound_sums, bounds, out.lower_bound_hk.mutable_data_ptr<float>());
}

}  // namespace

double recurrence_products_per_second() {
  const std::string_view set = block_kernels().name;
  return set == "amx" ? 6e11 : set == "avx512_bf16" ? 1.2e11 : set == "portable" ? 4e9 : 5e10;
}

Refusal refuse_cpu(const RecurrenceProblem& problem) {
  const auto type = problem.q_thk.scalar_type();
  if (type != at::kBFloat16 && type != at::kFloat) return "takes bf16 and fp32";
  const auto logits = problem.gated() ? problem.log_decay.scalar_type() : at::kFloat;
  if (logits != at::kBFloat16 && logits != at::kFloat) return "takes logits of bf16 and fp32";
  if (!problem.q_thk.device().is_cpu()) return "the tensors are not on the CPU";
  for (const int64_t channels : {problem.q_thk.size(2), problem.v_thv.size(2)}) {
    if (channels < 1 || channels > 256) return "takes 1 to 256 channels";
  }
  for (const Tensor* x : {&problem.q_thk, &problem.k_thk, &problem.v_thv}) {
    if (x->defined() && x->size(2) > 1 && x->stride(2) != 1)
      return "channels do not follow each other in memory";
  }
  return "";
}

LinearRecurrenceResult recurrence_forward_cpu(const RecurrenceProblem& problem, Tensor* boundaries) {
  return problem.q_thk.scalar_type() == at::kFloat ? forward<float>(problem, boundaries)
                                                   : forward<uint16_t>(problem, boundaries);
}

Tensor recurrence_continue_cpu(const RecurrenceProblem& problem, const RecurrenceStates& states) {
  return problem.q_thk.scalar_type() == at::kFloat ? continued<float>(problem, states)
                                                   : continued<uint16_t>(problem, states);
}

void recurrence_fold_cpu(const RecurrenceProblem& problem, const Tensor& d_o_thd, const Tensor& state_nhkv,
                         const Tensor& decay_nhk) {
  if (problem.q_thk.scalar_type() == at::kFloat)
    fold<float>(problem, d_o_thd, state_nhkv, decay_nhk);
  else
    fold<uint16_t>(problem, d_o_thd, state_nhkv, decay_nhk);
}

void recurrence_backward_cpu(const RecurrenceProblem& problem, const Tensor& d_o_thd,
                             const Tensor& d_final_nhkv, const Tensor& boundaries, RecurrenceGradients& out) {
  if (problem.q_thk.scalar_type() == at::kFloat)
    backward<float>(problem, d_o_thd, d_final_nhkv, boundaries, out);
  else
    backward<uint16_t>(problem, d_o_thd, d_final_nhkv, boundaries, out);
}

}  // namespace longhaul::kernels
