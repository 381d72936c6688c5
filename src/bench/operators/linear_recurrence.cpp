// linear_recurrence at the sizes of the training benchmarks: decay per head, per channel (exact) and per
// channel with a known bound (fast path), and the latter two as gates made from logits inside (log_sigmoid;
// lower-bounded with tied keys); one document and packed ones, one thread and all. The peer is the chunked
// form as one writes it in LibTorch operators (batched products in bf16, autograd), with the block length
// that is best for it; docs/sources/linear-attention.md §2.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "base/threads/parallel.h"
#include "bench/register.h"
#include "kernels/gemm/block.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/linear_recurrence/work.h"
#include "tensor/random_fill.h"
#include "tensor/to_tensor.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kHeads = 8, kWidth = 64;
constexpr double kScale = 0.125;

enum class Gate { kHead, kChannel, kBoundedChannel, kLogSigmoid, kLowerBounded };
bool from_logits(Gate gate) { return gate == Gate::kLogSigmoid || gate == Gate::kLowerBounded; }

struct Setting {
  const char* name;
  int64_t tokens, documents;
  Gate gate;
};

struct RecurrenceInputs {
  Tensor q, k, v, log_decay;  // k undefined where it is tied; of a gate the logits
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all{q, v};
    if (k.defined()) all.push_back(k);
    if (log_decay.requires_grad()) all.push_back(log_decay);
    return all;
  }
  void clear() const {
    for (const Tensor& each : leaves()) each.mutable_grad() = Tensor();
  }
};

Tensor filled(const char* name, const layout::Shape& shape) {
  return normal(shape, {0, fmt::format("bench/linear_recurrence/{}", name)}, 0.5);
}

// q, k, v as models have them: slices of one tensor. Gates per channel lie in (−1, 0).
RecurrenceInputs inputs_of(int64_t tokens, Gate gate) {
  const Tensor qkv = filled("qkv", {tokens, 3 * kHeads, kWidth}).to(at::kBFloat16);
  RecurrenceInputs inputs{qkv.narrow(1, 0, kHeads), qkv.narrow(1, kHeads, kHeads),
                          qkv.narrow(1, 2 * kHeads, kHeads),
                          gate == Gate::kHead ? -at::exp2(-at::linspace(1, 8, kHeads, at::kFloat))
                                              : -filled("gate", {tokens, kHeads, kWidth}).sigmoid()};
  for (Tensor& each : {std::ref(inputs.q), std::ref(inputs.k), std::ref(inputs.v)}) each.requires_grad_();
  if (from_logits(gate)) inputs.log_decay = filled("gate", {tokens, kHeads, kWidth}).to(at::kBFloat16);
  if (gate == Gate::kLowerBounded) inputs.k = Tensor();
  if (gate != Gate::kHead) inputs.log_decay.requires_grad_();
  return inputs;
}

const double kLeastDecay = std::exp(-1.0);  // γ of the lower-bounded gate

kernels::LinearRecurrenceOptions options_of(Gate gate, ScalarType type = at::kFloat) {
  kernels::LinearRecurrenceOptions options{.scale = kScale, .tied_keys = gate == Gate::kLowerBounded};
  if (gate == Gate::kBoundedChannel) options.log_decay_bound = -1;
  if (gate == Gate::kLogSigmoid) options.gate.kind = kernels::RecurrenceGate::Kind::kLogSigmoid;
  if (gate == Gate::kLowerBounded)
    options.gate = {.kind = kernels::RecurrenceGate::Kind::kLowerBounded,
                    .lower_bound_hk = at::full({kHeads, kWidth}, kLeastDecay, type)};
  return options;
}

// A caller without the gate makes log_decay and keys of the logits first, and then calls with both.
Tensor call_with_gate_made(const RecurrenceInputs& inputs, Gate gate, const Tensor& offsets) {
  const Tensor x = inputs.log_decay.to(at::kFloat);
  kernels::LinearRecurrenceOptions options{.scale = kScale};
  Tensor g = at::log_sigmoid(x), k = inputs.k;
  if (gate == Gate::kLowerBounded) {
    g = x.sigmoid().mul(1 - kLeastDecay).add(kLeastDecay).log();
    k = x.neg().sigmoid().mul(1 - kLeastDecay).to(at::kBFloat16);
    options.log_decay_bound = -1;
  }
  return kernels::linear_recurrence(inputs.q, k, inputs.v, g, Tensor(), offsets, options).o_thd;
}

// The largest ‖x − reference‖ / ‖reference‖ of output and gradients, the reference in fp64 on the same
// numbers.
double error_of(Gate gate) {
  constexpr int64_t kCheckedTokens = 300;
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    RecurrenceInputs inputs = inputs_of(kCheckedTokens, gate);
    std::vector<Tensor*> leaves{&inputs.q, &inputs.v, &inputs.log_decay};
    if (inputs.k.defined()) leaves.push_back(&inputs.k);
    for (Tensor* each : leaves)
      *each = (reference ? each->detach().to(at::kDouble) : each->detach()).requires_grad_();
    const auto call = reference ? &kernels::linear_recurrence_reference : &kernels::linear_recurrence;
    const auto options = options_of(gate, reference ? at::kDouble : at::kFloat);
    const Tensor o_thd =
        call(inputs.q, inputs.k, inputs.v, inputs.log_decay, Tensor(), Tensor(), options).o_thd;
    o_thd.backward(filled("gradient", {kCheckedTokens, kHeads, kWidth}).to(o_thd.scalar_type()));
    results[reference] = {o_thd.detach()};
    for (const Tensor* each : leaves) results[reference].push_back(each->grad());
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    const Tensor expected = results[1][i];
    worst =
        std::max(worst, ((results[0][i].to(at::kDouble) - expected).norm() / expected.norm()).item<double>());
  }
  return worst;
}

// ---- the peer: blocks of `block` tokens, batched over heads and blocks

Tensor in_blocks(const Tensor& x_thd, int64_t block) {
  return x_thd.view({-1, block, kHeads, kWidth}).permute({2, 0, 1, 3});
}  // [H, n, B, D]

// The states that enter the blocks: S ← decay ∘ S + add, one after the other.
Tensor entering(const Tensor& add_hnkv, const Tensor& decay_hnk) {
  Tensor state = at::zeros_like(add_hnkv.select(1, 0));
  std::vector<Tensor> states;
  for (int64_t n = 0; n < add_hnkv.size(1); ++n) {
    states.push_back(state);
    state = state * decay_hnk.select(1, n).unsqueeze(2) + add_hnkv.select(1, n);
  }
  return at::stack(states, 1);
}

Tensor peer_forward(const RecurrenceInputs& inputs, Gate gate, int64_t block) {
  const Tensor q = in_blocks(inputs.q, block), k = in_blocks(inputs.k, block), v = in_blocks(inputs.v, block);
  const auto half = [](const Tensor& x) { return x.to(at::kBFloat16); };
  Tensor b, causal = at::ones({block, block}, at::kFloat).tril();
  Tensor scores;
  if (gate == Gate::kHead) {
    const Tensor steps = at::arange(1, block + 1, at::kFloat);
    const Tensor distance = steps.unsqueeze(1) - steps.unsqueeze(0);
    b = (inputs.log_decay.view({kHeads, 1}) * steps).view({kHeads, 1, block, 1});
    const Tensor mask = (inputs.log_decay.view({kHeads, 1, 1}) * distance.clamp_min(0)).exp() * causal;
    scores = at::matmul(q, k.transpose(2, 3)) * half(mask).unsqueeze(1);
  } else {
    b = in_blocks(inputs.log_decay, block).cumsum(2);  // the caller keeps e^{−b} finite
    scores = at::matmul(half(q * b.exp()), half(k * (-b).exp()).transpose(2, 3)) * half(causal);
  }
  const Tensor last = b.narrow(2, block - 1, 1);
  const Tensor add = at::matmul(half(k * (last - b).exp()).transpose(2, 3), v).to(at::kFloat);
  const Tensor decay = last.exp().squeeze(2).expand({kHeads, add.size(1), kWidth});
  const Tensor o = at::matmul(scores, v) + at::matmul(half(q * b.exp()), half(entering(add, decay)));
  return o.mul(kScale).permute({1, 2, 0, 3}).reshape({-1, kHeads, kWidth});
}

Peer peer_of(const RecurrenceInputs& inputs, Gate gate, const Tensor& gradient) {
  Peer best{.name = "LibTorch operators"};
  double fastest = std::numeric_limits<double>::infinity();
  for (const int64_t block :
       gate == Gate::kHead ? std::vector<int64_t>{64, 128, 256} : std::vector<int64_t>{32, 64}) {
    Tensor o_thd;
    const auto clear = [&] { inputs.clear(); };
    const auto forward = [&] { o_thd = peer_forward(inputs, gate, block); };
    const Timing forward_time = time_of(forward, 0.5, clear);
    const Timing backward_time = time_of([&] { o_thd.backward(gradient); }, 0.5,
                                         [&] {
                                           clear();
                                           forward();
                                         });
    if (forward_time.median + backward_time.median >= fastest) continue;
    fastest = forward_time.median + backward_time.median;
    best.name = fmt::format("LibTorch operators, blocks of {}", block);
    best.passes = {{"forward", forward_time, 0, 0}, {"backward", backward_time, 0, 0}};
  }
  return best;
}

int64_t decay_bytes(Gate gate) {
  // the latter's logits are read instead of keys
  if (gate == Gate::kHead || gate == Gate::kLowerBounded) return 0;
  return gate == Gate::kLogSigmoid ? 2 * kWidth : 4 * kWidth;
}

std::vector<Pass> passes_of(const Setting& setting, const Timing& forward, const Timing& backward) {
  // The CPU form's blocks, of whose scores it computes strips up to the diagonal.
  const double strip = static_cast<double>(std::max<int64_t>(16, kernels::block_kernels().depth));
  const kernels::RecurrenceShape shape{.block = 64,
                                       .keys = kWidth,
                                       .values = kWidth,
                                       .computed = 0.5 + strip / 128,
                                       .decay_bytes = decay_bytes(setting.gate)};
  const auto token_heads = static_cast<double>(setting.tokens * kHeads);
  const kernels::RecurrenceWork there = kernels::forward_work(shape), back = kernels::backward_work(shape);
  return {{"forward", forward, token_heads * there.flops, token_heads * there.bytes},
          {"backward", backward, token_heads * back.flops, token_heads * back.bytes}};
}

}  // namespace

void bench_linear_recurrence(const Request& request, Results& into) {
  constexpr Setting kSettings[] = {{"head", 16384, 1, Gate::kHead},
                                   {"channel", 16384, 1, Gate::kChannel},
                                   {"channel bounded", 16384, 1, Gate::kBoundedChannel},
                                   {"channel gate", 16384, 1, Gate::kLogSigmoid},
                                   {"channel gate bounded tied", 16384, 1, Gate::kLowerBounded},
                                   {"head", 32768, 1, Gate::kHead},
                                   {"head", 32768, 32, Gate::kHead}};
  const int all = threads();
  for (const Setting& setting : kSettings) {
    if (setting.tokens != 16384 && !request.peer) continue;  // the long comparisons come with the peer's
    const RecurrenceInputs inputs = inputs_of(setting.tokens, setting.gate);
    const Tensor gradient = filled("gradient", {setting.tokens, kHeads, kWidth}).to(at::kBFloat16);
    std::vector<int64_t> ends;
    for (int64_t n = 0; n <= setting.documents; ++n) ends.push_back(setting.tokens / setting.documents * n);
    const Tensor offsets = to_tensor(ends);
    const auto options = options_of(setting.gate);
    Tensor o_thd;
    const auto clear = [&] { inputs.clear(); };
    const auto forward = [&] {
      o_thd = kernels::linear_recurrence(inputs.q, inputs.k, inputs.v, inputs.log_decay, Tensor(), offsets,
                                         options)
                  .o_thd;
    };
    const auto backward = [&] { o_thd.backward(gradient); };
    const auto prepare = [&] {
      clear();
      forward();
    };
    const Timing forward_time = time_of(forward, 0.3, clear), backward_time = time_of(backward, 0.3, prepare);
    Result result{.name = fmt::format("linear_recurrence {}", setting.name),
                  .shape = fmt::format("{} x T {} H {} D {}", setting.documents,
                                       setting.tokens / setting.documents, kHeads, kWidth),
                  .dtype = "bf16",
                  .implementation = kernels::Dispatcher::last("linear_recurrence").chosen,
                  .passes = passes_of(setting, forward_time, backward_time),
                  .error = error_of(setting.gate),
                  .tolerance = 5e-3};  // outputs, and operands of products, rounded to 8 bits
    if (all > 1 && setting.tokens == 16384 && setting.gate == Gate::kHead) {
      set_threads(1);
      result.figures.emplace_back("milliseconds_forward_one_thread", time_of(forward, 0.3, clear).median);
      result.figures.emplace_back("milliseconds_backward_one_thread", time_of(backward, 0.3, prepare).median);
      set_threads(all);
    }
    if (from_logits(setting.gate)) {
      const auto apart = [&] { o_thd = call_with_gate_made(inputs, setting.gate, offsets); };
      const auto prepare_apart = [&] {
        clear();
        apart();
      };
      result.figures.emplace_back("milliseconds_forward_gate_made_before", time_of(apart, 0.3, clear).median);
      result.figures.emplace_back("milliseconds_backward_gate_made_before",
                                  time_of(backward, 0.3, prepare_apart).median);
    }
    if (request.peer && setting.tokens == 16384 && !from_logits(setting.gate))
      result.peer = peer_of(inputs, setting.gate, gradient);
    into.push_back(result);
  }
}

}  // namespace longhaul::bench
