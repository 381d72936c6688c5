// The CPU delta rule on tensors: what it takes, its job, and the walks over chunks, in which every document
// and head is by itself.
#include "kernels/delta_rule/cpu.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/delta_rule/cpu_chunk.h"
#include "kernels/stream.h"

namespace longhaul::kernels {
namespace {

constexpr double kGrain = 1e6;  // FLOPs of a thread: less is not worth waking one

Tensor delta_rows(const Tensor& x) {
  return x.size(-1) <= 1 || x.stride(-1) == 1 ? x.detach() : x.detach().contiguous();
}
Tensor fp32(const Tensor& x) { return x.defined() ? x.detach().to(at::kFloat) : Tensor(); }

DeltaRows rows_of(const Tensor& x) {
  const auto size = static_cast<int64_t>(x.element_size());
  return {static_cast<char*>(x.data_ptr()), x.stride(0) * size, x.stride(1) * size,
          x.scalar_type() == at::kBFloat16};
}

template <class T>
HeadView<T> view_of(const Tensor& x) {
  return x.defined() ? HeadView<T>{static_cast<T*>(x.data_ptr()), x.stride(0), x.stride(1)} : HeadView<T>{};
}

int64_t bytes_of(std::initializer_list<Tensor> tensors) {
  int64_t sum = 0;
  for (const Tensor& each : tensors) sum += static_cast<int64_t>(each.nbytes());
  return sum;
}

// A job, and the tensors it points into.
struct DeltaWork {
  explicit DeltaWork(const DeltaRuleProblem& problem)
      : q(delta_rows(problem.in.q_tgk)),
        k(delta_rows(problem.in.k_tgk)),
        v(delta_rows(problem.in.v_thv)),
        beta(fp32(problem.in.beta_th)),
        decay(fp32(problem.in.log_decay)) {
    if (problem.decays_by_channel()) decay = delta_rows(decay);
    job = {.q = rows_of(q), .k = rows_of(k), .v = rows_of(v)};
    job.beta = view_of<const float>(beta);
    job.decay = view_of<const float>(decay);
    job.by_channel = problem.decays_by_channel();
    job.heads = problem.heads();
    job.group = problem.group();
    job.keys = problem.keys();
    job.values = problem.values();
    job.scale = static_cast<float>(problem.in.scale);
    job.offsets = problem.offsets;
    slots.push_back(0);
    for (int64_t n = 0; n < problem.documents(); ++n)
      slots.push_back(slots.back() + std::max<int64_t>(0, segments(n) - 1));
  }
  int64_t segments(int64_t document) const {
    constexpr int64_t kTokens = kDeltaTokens * kDeltaSegmentChunks;
    return (job.length(document) + kTokens - 1) / kTokens;
  }
  // The state that enters segment s > 0 of a document.
  float* slot(const Tensor& kept, int64_t document, int64_t s, int64_t head) const {
    return static_cast<float*>(kept.data_ptr()) +
           ((slots[static_cast<size_t>(document)] + s - 1) * job.heads + head) * job.area();
  }
  // body(chunk, document, unit) for every document and unit, a head or the heads that share one; long
  // documents first.
  template <class Body>
  void share(bool backward, const Body& body) const {
    std::vector<int64_t> order(job.offsets.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return job.length(a) > job.length(b); });
    const int64_t units = backward ? job.heads / job.group : job.heads,
                  items = static_cast<int64_t>(order.size()) * units;
    const double flops = static_cast<double>(job.offsets.back() * job.heads) * (backward ? 30.0 : 12.0) *
                         static_cast<double>(job.area());
    const int64_t workers = std::clamp<int64_t>(static_cast<int64_t>(flops / kGrain), 1, threads());
    parallel_items(items, workers, [&](const auto& each) {
      DeltaChunk chunk(job, backward);
      each([&](int64_t item) { body(chunk, order[static_cast<size_t>(item / units)], item % units); });
    });
  }

  Tensor q, k, v, beta, decay;
  DeltaJob job;
  std::vector<int64_t> slots;  // [documents + 1]: where the kept states of each begin
};

Tensor first_states(const DeltaRuleProblem& problem, const Tensor& given) {
  if (given.defined()) return given.detach().to(at::kFloat).clone(at::MemoryFormat::Contiguous);
  return at::zeros({problem.documents(), problem.heads(), problem.keys(), problem.values()},
                   problem.state_options());
}

Tensor empty_like_input(const Tensor& x) { return at::empty(x.sizes(), x.options().requires_grad(false)); }

// The heads of one unit, backwards through a document. `gradients` [N, H, K, V] are advanced in their places.
void document_backward(DeltaChunk& chunk, const DeltaWork& work, int64_t document, int64_t unit,
                       const Tensor& kept, const Tensor& initial, float* gradients) {
  const DeltaJob& job = work.job;
  for (int64_t s = work.segments(document); s-- > 0;) {
    const int64_t begin = s * kDeltaSegmentChunks * kDeltaTokens;
    const int64_t tokens = std::min(kDeltaSegmentChunks * kDeltaTokens, job.length(document) - begin);
    const int64_t chunks = (tokens + kDeltaTokens - 1) / kDeltaTokens;
    const auto enter = [&](int64_t c, int64_t head, bool all) {
      chunk.enter(document, begin + c * kDeltaTokens, std::min(kDeltaTokens, tokens - c * kDeltaTokens), head,
                  all, all);
    };
    chunk.begin_group();
    for (int64_t head = unit * job.group; head < (unit + 1) * job.group; ++head) {
      const int64_t place = (document * job.heads + head) * job.area();
      if (s > 0)
        std::copy_n(work.slot(kept, document, s, head), job.area(), chunk.state_of(0));
      else if (initial.defined())
        std::copy_n(initial.const_data_ptr<float>() + place, job.area(), chunk.state_of(0));
      else
        std::fill_n(chunk.state_of(0), job.area(), 0.0f);
      for (int64_t c = 0; c < chunks; ++c) {
        enter(c, head, c + 1 == chunks);  // the last one is read backwards at once
        chunk.write(chunk.state_of(c), chunk.residual_of(c));
        if (c + 1 < chunks) chunk.advance(chunk.state_of(c), chunk.state_of(c + 1));
      }
      for (int64_t c = chunks; c-- > 0;) {
        if (c + 1 < chunks) enter(c, head, true);
        chunk.backward(chunk.state_of(c), chunk.residual_of(c), gradients + place, c);
      }
    }
    chunk.end_group(document, begin, tokens, unit);
  }
}

}  // namespace

Refusal refuse_delta_rule_cpu(const DeltaRuleProblem& problem) {
  const Tensor& v = problem.in.v_thv;
  if (!v.is_cpu()) return kNotOnCpu;
  if (v.scalar_type() != at::kBFloat16 && v.scalar_type() != at::kFloat) return "takes bf16 and fp32";
  for (const int64_t channels : {problem.keys(), problem.values()}) {
    if (channels < 1 || channels > kDeltaWidestHead) return "takes 1 to 1024 channels";
  }
  if (problem.decays_by_channel() && problem.keys() > kDeltaWidestDecay)
    return "takes 1 to 256 decays a head";
  return {};
}

LinearRecurrenceResult delta_rule_forward_cpu(const DeltaRuleProblem& problem, Tensor* kept) {
  DeltaWork work(problem);
  DeltaJob& job = work.job;
  const Tensor states = first_states(problem, problem.in.initial_state_nhkv);
  const Tensor o =
      at::empty({problem.tokens(), job.heads, job.values}, problem.in.v_thv.options().requires_grad(false));
  job.o = rows_of(o);
  job.past_caches = past_caches(bytes_of({o}));
  const Tensor slots = kept != nullptr ? at::empty({work.slots.back(), job.heads, job.keys, job.values},
                                                   problem.state_options())
                                       : Tensor();
  work.share(false, [&](DeltaChunk& chunk, int64_t document, int64_t head) {
    float* const state = static_cast<float*>(states.data_ptr()) + (document * job.heads + head) * job.area();
    for (int64_t c = 0; c * kDeltaTokens < job.length(document); ++c) {
      if (slots.defined() && c > 0 && c % kDeltaSegmentChunks == 0)
        std::copy_n(state, job.area(), work.slot(slots, document, c / kDeltaSegmentChunks, head));
      chunk.enter(document, c * kDeltaTokens, std::min(kDeltaTokens, job.length(document) - c * kDeltaTokens),
                  head, true);
      chunk.write(state, chunk.residual());
      chunk.read();
      chunk.advance(state, state);
    }
  });
  if (kept != nullptr) *kept = slots;
  return {o, states};
}

DeltaRuleGradients delta_rule_backward_cpu(const DeltaRuleProblem& problem, const Tensor& kept,
                                           const Tensor& d_o_thd, const Tensor& d_final) {
  DeltaWork work(problem);
  DeltaJob& job = work.job;
  const DeltaRuleInputs& in = problem.in;
  const Tensor d_o = delta_rows(d_o_thd), initial = in.initial_state_nhkv.defined()
                                                        ? in.initial_state_nhkv.detach().contiguous()
                                                        : Tensor();
  DeltaRuleGradients out{empty_like_input(in.q_tgk),
                         empty_like_input(in.k_tgk),
                         empty_like_input(in.v_thv),
                         at::empty(in.beta_th.sizes(), at::kFloat),
                         Tensor(),
                         first_states(problem, d_final)};
  if (problem.decays()) out.log_decay = at::empty(in.log_decay.sizes(), at::kFloat);
  job.d_o = rows_of(d_o);
  job.dq = rows_of(out.q_tgk);
  job.dk = rows_of(out.k_tgk);
  job.dv = rows_of(out.v_thv);
  job.d_beta = view_of<float>(out.beta_th);
  job.d_decay = view_of<float>(out.log_decay);
  job.past_caches = past_caches(bytes_of({out.q_tgk, out.k_tgk, out.v_thv}));
  auto* const gradients = static_cast<float*>(out.initial_state_nhkv.data_ptr());
  work.share(true, [&](DeltaChunk& chunk, int64_t document, int64_t unit) {
    document_backward(chunk, work, document, unit, kept, initial, gradients);
  });
  out.beta_th = out.beta_th.to(in.beta_th.scalar_type());
  if (problem.decays()) out.log_decay = out.log_decay.to(in.log_decay.scalar_type());
  return out;
}

}  // namespace longhaul::kernels
