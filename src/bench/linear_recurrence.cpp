// linear_recurrence at the sizes of the training benchmarks: decay per head, per channel (exact) and per channel with a known bound (fast path),
// one document and packed ones, one thread and all. The peer is the chunked form as one writes it in LibTorch operators (batched products in bf16, autograd), with the block length
// that is best for it; linear-attention.md §2.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/parallel.h"
#include "base/random.h"
#include "bench/register.h"
#include "kernels/block/block.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/linear_recurrence/work.h"
#include "tensor/random_fill.h"
#include "tensor/to_tensor.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kHeads = 8, kWidth = 64;
constexpr double kScale = 0.125;

enum class Gate { kHead, kChannel, kBoundedChannel };

struct Setting {
  const char* name;
  int64_t tokens, documents;
  Gate gate;
};

struct Inputs {
  Tensor q, k, v, log_decay;
  std::vector<Tensor> leaves() const { return {q, k, v}; }
};

Tensor filled(const char* name, const layout::Shape& shape) {
  Tensor tensor = at::empty(shape, at::kFloat);
  fill_normal(tensor, RandomStream(0, fmt::format("bench/linear_recurrence/{}", name)), 0.5, shape, layout::Rectangle::whole(shape));
  return tensor;
}

// q, k, v as models have them: slices of one tensor. Gates per channel lie in (−1, 0).
Inputs inputs_of(int64_t tokens, Gate gate) {
  const Tensor qkv = filled("qkv", {tokens, 3 * kHeads, kWidth}).to(at::kBFloat16);
  Inputs inputs{
      qkv.narrow(1, 0, kHeads), qkv.narrow(1, kHeads, kHeads), qkv.narrow(1, 2 * kHeads, kHeads),
      gate == Gate::kHead ? -at::exp2(-at::linspace(1, 8, kHeads, at::kFloat)) : -filled("gate", {tokens, kHeads, kWidth}).sigmoid()};
  for (Tensor& each : {std::ref(inputs.q), std::ref(inputs.k), std::ref(inputs.v)}) each.requires_grad_();
  if (gate != Gate::kHead) inputs.log_decay.requires_grad_();
  return inputs;
}

kernels::LinearRecurrenceOptions options_of(Gate gate) {
  kernels::LinearRecurrenceOptions options{.scale = kScale};
  if (gate == Gate::kBoundedChannel) options.log_decay_bound = -1;
  return options;
}

// The largest ‖x − reference‖ / ‖reference‖ of output and gradients, the reference in fp64 on the same numbers.
double error_of(Gate gate) {
  constexpr int64_t kTokens = 300;
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    const Inputs inputs = inputs_of(kTokens, gate);
    std::vector<Tensor> leaves;
    for (const Tensor& each : {inputs.q, inputs.k, inputs.v, inputs.log_decay}) {
      leaves.push_back((reference ? each.detach().to(at::kDouble) : each.detach()).requires_grad_());
    }
    const auto call = reference ? &kernels::linear_recurrence_reference : &kernels::linear_recurrence;
    const Tensor o_thd = call(leaves[0], leaves[1], leaves[2], leaves[3], Tensor(), Tensor(), options_of(gate)).o_thd;
    o_thd.backward(filled("gradient", {kTokens, kHeads, kWidth}).to(o_thd.scalar_type()));
    results[reference] = {o_thd.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad(), leaves[3].grad()};
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    const Tensor expected = results[1][i];
    worst = std::max(worst, ((results[0][i].to(at::kDouble) - expected).norm() / expected.norm()).item<double>());
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

Tensor peer_forward(const Inputs& inputs, Gate gate, int64_t block) {
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

Peer peer_of(const Inputs& inputs, Gate gate, const Tensor& gradient) {
  Peer best{.name = "LibTorch operators"};
  double fastest = std::numeric_limits<double>::infinity();
  for (const int64_t block : gate == Gate::kHead ? std::vector<int64_t>{64, 128, 256} : std::vector<int64_t>{32, 64}) {
    Tensor o_thd;
    const auto clear = [&] {
      for (const Tensor& each : inputs.leaves()) each.mutable_grad() = Tensor();
      if (inputs.log_decay.requires_grad()) inputs.log_decay.mutable_grad() = Tensor();
    };
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

std::vector<Pass> passes_of(const Setting& setting, const Timing& forward, const Timing& backward) {
  // The CPU form's blocks, of whose scores it computes strips up to the diagonal.
  const double strip = static_cast<double>(std::max<int64_t>(16, kernels::block_kernels().depth));
  const kernels::RecurrenceShape shape{.block = 64,
                                       .keys = kWidth,
                                       .values = kWidth,
                                       .computed = 0.5 + strip / 128,
                                       .decay_bytes = setting.gate == Gate::kHead ? 0 : 4 * kWidth};
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
                                   {"head", 32768, 1, Gate::kHead},
                                   {"head", 32768, 32, Gate::kHead}};
  const int all = threads();
  for (const Setting& setting : kSettings) {
    if (setting.tokens != 16384 && !request.peer) continue;  // the long comparisons come with the peer's
    const Inputs inputs = inputs_of(setting.tokens, setting.gate);
    const Tensor gradient = filled("gradient", {setting.tokens, kHeads, kWidth}).to(at::kBFloat16);
    std::vector<int64_t> ends;
    for (int64_t n = 0; n <= setting.documents; ++n) ends.push_back(setting.tokens / setting.documents * n);
    const Tensor offsets = to_tensor(ends);
    const auto options = options_of(setting.gate);
    Tensor o_thd;
    const auto clear = [&] {
      for (const Tensor& each : inputs.leaves()) each.mutable_grad() = Tensor();
      if (inputs.log_decay.requires_grad()) inputs.log_decay.mutable_grad() = Tensor();
    };
    const auto forward = [&] {
      o_thd = kernels::linear_recurrence(inputs.q, inputs.k, inputs.v, inputs.log_decay, Tensor(), offsets, options).o_thd;
    };
    const auto backward = [&] { o_thd.backward(gradient); };
    const auto prepare = [&] {
      clear();
      forward();
    };
    const Timing forward_time = time_of(forward, 0.3, clear), backward_time = time_of(backward, 0.3, prepare);
    Result result{.name = fmt::format("linear_recurrence {}", setting.name),
                  .shape = fmt::format("{} x T {} H {} D {}", setting.documents, setting.tokens / setting.documents, kHeads, kWidth),
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
    if (request.peer && setting.tokens == 16384) result.peer = peer_of(inputs, setting.gate, gradient);
    into.push_back(result);
  }
}

}  // namespace longhaul::bench
