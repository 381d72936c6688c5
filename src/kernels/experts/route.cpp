#include "kernels/experts/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/experts/cuda_call.h"
#include "kernels/experts/loops.h"
#include "kernels/vector/row_blocks.h"
#include "kernels/vector/tensors.h"
#include "tensor/device.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kTokenGrain = 16;  // tokens
constexpr int64_t kColumnGrain = 64;

// Where the tokens of each sequence lie.
struct Sequences {
  std::vector<int64_t> offsets;

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t begin(int64_t sequence) const { return offsets[static_cast<size_t>(sequence)]; }
  int64_t length(int64_t sequence) const { return begin(sequence + 1) - begin(sequence); }
  // int64 [tokens]: the sequence that each token belongs to.
  Tensor of_tokens() const {
    const Tensor numbers = at::empty({offsets.back()}, at::kLong);
    auto* number = numbers.mutable_data_ptr<int64_t>();
    for (int64_t s = 0; s < count(); ++s) std::fill(number + begin(s), number + begin(s + 1), s);
    return numbers;
  }
  // Σ of the rows of each: [tokens, …] → [sequences, …].
  Tensor sum(const Tensor& rows) const {
    std::vector<Tensor> sums;
    for (int64_t s = 0; s < count(); ++s) sums.push_back(rows.narrow(0, begin(s), length(s)).sum(0));
    return at::stack(sums);
  }
  // Whole numbers, so the order in which a device adds them up does not matter.
  Tensor choices_per_expert(const Tensor& choice, int64_t experts) const {
    const Tensor cell =
        count() == 1 ? choice : choice.add(to_device(of_tokens(), choice.device()).unsqueeze(1), experts);
    const Tensor counts = at::zeros({count() * experts}, choice.options());
    return counts.scatter_add_(0, cell.reshape({-1}), at::ones({choice.numel()}, choice.options()))
        .view({count(), experts});
  }
};

// All but the choice and its weights.
Routing with_statistics(const Tensor& weight, const Tensor& choice, const Tensor& logits,
                        const Tensor& probability, const Sequences& sequences) {
  return {weight, choice, sequences.sum(probability), sequences.choices_per_expert(choice, logits.size(1)),
          logits.logsumexp(1).square().sum()};
}

// hidden · routerᵀ, multiplied in `wide`, in the dtype of the router. For the gradients hidden is widened
// again, because its copy would be two or four times as large as what a layer keeps of it.
Tensor router_logits(const Tensor& hidden, const Tensor& router, ScalarType wide) {
  return differentiable("router_logits", {hidden, router}, [&]() -> Recorded {
    return {.results = {at::mm(hidden.to(wide), router.to(wide).t()).to(router.scalar_type())},
            .saved = {hidden, router},
            .backward = [wide](const BackwardCall& call) {
              const Tensor &x = call.saved[0], &w = call.saved[1], d = call.gradients[0].to(wide);
              std::vector<Tensor> gradients(2);
              if (call.wanted[0]) gradients[0] = d.mm(w.to(wide)).to(x.scalar_type());
              if (call.wanted[1]) gradients[1] = d.t().mm(x.to(wide)).to(w.scalar_type());
              return gradients;
            }};
  })[0];
}

Routing route_gpu(const Tensor& hidden, const Tensor& router, int64_t k, const Sequences& sequences,
                  bool statistics) {
  const Tensor logits = router_logits(hidden, router, at::kFloat);
  // The choice and its weights from logits; the rest is LibTorch's.
  const std::vector<Tensor> chosen = differentiable("route", {logits}, [&]() -> Recorded {
    const auto [weight, choice] = cuda_calls<ExpertsCuda>().route(logits, k);
    return {.results = {weight, choice},
            .saved = {choice, weight},
            .backward =
                [experts = logits.size(1)](const BackwardCall& call) {
                  return std::vector<Tensor>{cuda_calls<ExpertsCuda>().route_backward(
                      call.saved[0], call.saved[1], call.gradients[0].contiguous(), experts)};
                },
            .not_recorded = {1}};
  });
  if (!statistics) return {.weight_tk = chosen[0], .choice_tk = chosen[1]};
  return with_statistics(chosen[0], chosen[1], logits, logits.softmax(1), sequences);
}

// −∞ for experts outside the best groups.
Tensor within_groups(const Tensor& judged, int64_t k, const RouterOptions& options) {
  const int64_t tokens = judged.size(0), groups = options.groups, size = judged.size(1) / groups;
  const Tensor by_group = judged.view({tokens, groups, size});
  const Tensor best = std::get<0>(by_group.sort(/*stable=*/true, 2, /*descending=*/true))
                          .narrow(2, 0, k / options.groups_per_token)
                          .sum(2);
  const Tensor chosen =
      std::get<1>(best.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, options.groups_per_token);
  const Tensor outside =
      at::ones({tokens, groups}, judged.options().dtype(at::kBool)).scatter_(1, chosen, false);
  return by_group.masked_fill(outside.unsqueeze(2), -std::numeric_limits<double>::infinity())
      .view({tokens, groups * size});
}

// Without gradients.
Tensor chosen(const Tensor& score, const Tensor& logits, int64_t k, const RouterOptions& options,
              bool on_gpu) {
  Tensor judged = options.bias_e.defined() ? score.add(options.bias_e) : score;
  if (options.groups > 1) judged = within_groups(judged, k, options);
  if (options.judged) judged = options.judged(logits);
  if (on_gpu) return cuda_calls<ExpertsCuda>().route(judged.contiguous(), k).second;
  // topk leaves the order of equals open
  return std::get<1>(judged.sort(/*stable=*/true, 1, /*descending=*/true)).narrow(1, 0, k);
}

// Of experts that were given, not chosen: their probabilities may vanish.
Tensor weights_of_given(const Tensor& picked, const Tensor& logits, const Tensor& choice) {
  const double least = picked.scalar_type() == at::kFloat ? kVanishing : kVanishingWide;
  const Tensor sum = picked.sum(1, /*keepdim=*/true),
               lost = picked.detach().lt(least).all(1, /*keepdim=*/true);
  return at::where(lost, logits.gather(1, choice).softmax(1), picked.div(sum.masked_fill(lost, 1)));
}

Refusal refuse_route_gpu(const Tensor& hidden, int64_t experts, int64_t k) {
  const Refusal refusal = refuse_cuda(hidden, false);
  if (!refusal.empty()) return refusal;
  return hidden.scalar_type() == at::kDouble ? Refusal("it computes in fp32")
                                             : cuda_calls<ExpertsCuda>().refuse_route(experts, k);
}

Routing route_aten(const Tensor& hidden, const Tensor& router, int64_t k, const Sequences& sequences,
                   const RouterOptions& options = {}) {
  // On the CPU summed in fp64: a token's logits do not depend on how many others are beside it, as those of
  // LibTorch's fp32 products do. On a GPU, where fp64 can be 64 times slower, as the plain router there.
  const bool on_gpu = refuse_route_gpu(hidden, router.size(0), k).empty();
  const Tensor logits = router_logits(hidden, router, on_gpu ? at::kFloat : at::kDouble);
  const bool softmax = options.score == RouterOptions::Score::kSoftmax;
  const bool sigmoid = options.score == RouterOptions::Score::kSigmoid;
  // By way of fp64 for the same reason: LibTorch's fp32 exponentials in vectors and behind the last whole one
  // differ in their last bit. A GPU has no vectors.
  const Tensor wide = softmax || on_gpu ? logits : logits.to(at::kDouble);
  const Tensor score = softmax
                           ? logits.softmax(1)
                           : (sigmoid ? wide.sigmoid() : at::softplus(wide).sqrt()).to(logits.scalar_type());
  const Tensor choice = options.choice_tk.defined()
                            ? options.choice_tk
                            : chosen(score.detach(), logits.detach(), k, options, on_gpu);
  const Tensor picked = score.gather(1, choice);
  const auto shares = [&](const Tensor& x) {
    const Tensor sum = x.sum(1, /*keepdim=*/true);
    return x.div(softmax ? sum : sum.add(1e-20));
  };
  const bool given = options.choice_tk.defined();
  const Tensor unscaled =
      !options.normalised ? picked
                          : (softmax && given ? weights_of_given(picked, logits, choice) : shares(picked));
  const Tensor weight = options.scale == 1 ? unscaled : unscaled.mul(options.scale);
  if (!options.statistics) return {.weight_tk = weight, .choice_tk = choice};
  return with_statistics(weight, choice, logits, softmax ? score : shares(score), sequences);
}

// Tokens [begin, end) that one thread sums: no sequence's end lies inside, and a sequence is cut the same way
// wherever it stands.
struct Block {
  int64_t sequence, begin, end;
};

std::vector<Block> blocks_of(const Sequences& sequences) {
  std::vector<Block> result;
  for (int64_t s = 0; s < sequences.count(); ++s) {
    const RowBlocks blocks = row_blocks(sequences.length(s));
    for (int64_t b = 0; b < blocks.count; ++b)
      result.push_back({s, sequences.begin(s) + blocks.begin(b), sequences.begin(s) + blocks.end(b)});
  }
  return result;
}

// [blocks, experts + 1] → [sequences, experts + 1].
Tensor sums_of_sequences(const Tensor& sums, const std::vector<Block>& blocks, int64_t sequences) {
  const Tensor result = at::empty({sequences, sums.size(1)}, sums.options());
  auto first = blocks.begin();
  for (int64_t s = 0; s < sequences; ++s) {
    const auto last =
        std::find_if(first, blocks.end(), [&](const Block& block) { return block.sequence != s; });
    result[s].copy_(sum_of_blocks(sums.narrow(0, first - blocks.begin(), last - first)));
    first = last;
  }
  return result;
}

// Of hidden; the router's is added to `sink`.
Tensor route_gradient(const BackwardCall& call, const GradientSink& sink) {
  const std::vector<Tensor>& saved = call.saved;
  const Tensor &x = saved[0], &router = saved[1], &probability = saved[2];
  const auto contiguous = [](const Tensor& gradient) {
    return gradient.defined() ? gradient.contiguous() : gradient;
  };
  const Tensor d_weight = contiguous(call.gradients[0]), d_sum = contiguous(call.gradients[2]),
               d_square = contiguous(call.gradients[3]);
  const Tensor dx = at::empty_like(x), d_logits = at::empty_like(probability);
  RouteBackward problem{.storage = storage_of(x),
                        .tokens = x.size(0),
                        .hidden = x.size(1),
                        .experts = router.size(0),
                        .k = saved[4].size(1),
                        .x_td = pointer_to(x),
                        .router_ed = pointer_to(router),
                        .probability_te = pointer_to(probability),
                        .log_sum_t = pointer_to(saved[3]),
                        .weight_tk = pointer_to(saved[4]),
                        .choice_tk = saved[5].const_data_ptr<int64_t>(),
                        .sequence_t = saved[6].const_data_ptr<int64_t>(),
                        .d_weight_tk = pointer_to(d_weight),
                        .d_probability_sum_se = pointer_to(d_sum),
                        .d_log_sum_square = pointer_to(d_square),
                        .d_logits_te = writable(d_logits),
                        .dx_td = writable(dx)};
  parallel_for(0, x.size(0), kTokenGrain,
               [&](int64_t begin, int64_t end) { route_backward_rows(problem, begin, end); });
  // The tensors that `problem` points to stay alive as long as the product waits.
  sink.add([problem, saved, d_logits](const Tensor& buffer) mutable {
    problem.d_router_ed = writable(buffer);
    parallel_for(0, saved[0].size(1), kColumnGrain,
                 [&](int64_t begin, int64_t end) { route_backward_columns(problem, begin, end); });
  });
  return dx;
}

// → {weight, choice, probability sums, log-sum square}; given: the choice, or undefined
Recorded record_route(const Tensor& x, const Tensor& router, int64_t k, const GradientSink& sink,
                      const Sequences& sequences, const Tensor& given) {
  const int64_t tokens = x.size(0), experts = router.size(0);
  const Tensor probability = at::empty({tokens, experts}, router.options().requires_grad(false)),
               log_sum = at::empty({tokens}, probability.options());
  const Tensor weight = at::empty({tokens, k}, probability.options()),
               choice = given.defined() ? given.clone(at::MemoryFormat::Contiguous)
                                        : at::empty({tokens, k}, at::kLong);
  const std::vector<Block> blocks = blocks_of(sequences);
  const Tensor sums = at::empty({static_cast<int64_t>(blocks.size()), experts + 1}, probability.options());
  const RouteForward problem{.storage = storage_of(x),
                             .hidden = x.size(1),
                             .experts = experts,
                             .k = k,
                             .x_td = pointer_to(x),
                             .router_ed = pointer_to(router),
                             .probability_te = writable(probability),
                             .log_sum_t = writable(log_sum),
                             .weight_tk = writable(weight),
                             .choice_tk = choice.mutable_data_ptr<int64_t>(),
                             .given = given.defined()};
  parallel_for(0, sums.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const Block& block = blocks[static_cast<size_t>(b)];
      route_rows(problem, block.begin, block.end, writable_row(sums, b));
    }
  });
  const Tensor totals = sums_of_sequences(sums, blocks, sequences.count());
  return {.results = {weight, choice, totals.narrow(1, 0, experts).clone(), totals.select(1, experts).sum()},
          .saved = {x, router, probability, log_sum, weight, choice, sequences.of_tokens()},
          .backward =
              [sink](const BackwardCall& call) {
                return std::vector<Tensor>{route_gradient(call, sink), Tensor()};
              },
          .sinks = {sink},
          .zeros_for_missing = false,
          .not_recorded = {1}};
}

// Whoever reads with these numbers does not look whether they are inside.
void check_given(const Tensor& choice, const Tensor& hidden, int64_t k, int64_t experts) {
  if (choice.sizes() != at::IntArrayRef({hidden.size(0), k}) || choice.scalar_type() != at::kLong ||
      choice.device() != hidden.device())
    refuse_argument("route", "choice",
                    fmt::format("[{}, {}] int64 on the device of hidden", hidden.size(0), k),
                    shape_text(choice));
  if (choice.is_meta() || choice.numel() == 0) return;
  const Tensor sorted = std::get<0>(choice.sort(1));
  const int64_t least = sorted.min().item<int64_t>(), most = sorted.max().item<int64_t>();
  if (least < 0 || most >= experts) {
    refuse_argument("route", "choice", fmt::format("experts 0 to {}", experts - 1),
                    fmt::format("{}", least < 0 ? least : most));
  }
  if (sorted.narrow(1, 1, k - 1).eq(sorted.narrow(1, 0, k - 1)).any().item<bool>())
    refuse_argument("route", "choice", fmt::format("{} different experts a token", k), "one of them twice");
}

}  // namespace

Routing route(const Tensor& hidden, const Tensor& router, int64_t k, const GradientSink& sink,
              const Tensor& sequence_offsets, const RouterOptions& options) {
  if (hidden.dim() != 2 || !at::isFloatingType(hidden.scalar_type()) || hidden.scalar_type() == at::kHalf)
    refuse_argument("route", "hidden", "[tokens, hidden] in bf16, fp32 or fp64", shape_text(hidden));
  if (router.dim() != 2 || router.size(1) != hidden.size(1) || router.scalar_type() != wide_type(hidden) ||
      !router.is_contiguous() || router.device() != hidden.device()) {
    refuse_argument("route", "router",
                    fmt::format("[experts, {}] {}", hidden.size(1), name_of(wide_type(hidden))),
                    shape_text(router));
  }
  if (k < 1 || k > router.size(0))
    refuse_argument("route", "k", fmt::format("1 to {} experts", router.size(0)), std::to_string(k));
  const Tensor& to = sink.buffer();
  if (to.defined() &&
      (to.sizes() != router.sizes() || to.scalar_type() != router.scalar_type() || !to.is_contiguous())) {
    refuse_argument("route", "router_sink", shape_text(router), shape_text(to));
  }
  const int64_t experts = router.size(0);
  if (options.groups < 1 || experts % options.groups != 0 || options.groups_per_token < 1 ||
      options.groups_per_token > options.groups || k % options.groups_per_token != 0 ||
      k / options.groups_per_token > experts / options.groups) {
    refuse_argument(
        "route", "groups",
        fmt::format("groups of equal size, of which a token's {} experts come in equal parts", k),
        fmt::format("{} of {} groups of {} experts", options.groups_per_token, options.groups, experts));
  }
  const Tensor& bias = options.bias_e;
  if (bias.defined() &&
      (bias.sizes() != at::IntArrayRef({experts}) || bias.scalar_type() != router.scalar_type() ||
       bias.device() != router.device() || bias.requires_grad())) {
    refuse_argument("route", "bias",
                    fmt::format("[{}] {}, without a gradient", experts, name_of(router.scalar_type())),
                    shape_text(bias));
  }
  if (options.judged && (bias.defined() || options.groups > 1))
    refuse_argument("route", "judged", "neither a bias nor groups beside it",
                    bias.defined() ? "a bias" : "groups");
  const Tensor& given = options.choice_tk;
  if (given.defined()) check_given(given, hidden, k, experts);
  const Sequences sequences{document_offsets(sequence_offsets, hidden.size(0), "route")};
  const Refusal not_plain =
      options.plain() ? Refusal()
                      : "it scores and chooses by softmax, normalised, without bias, scale and groups";
  const Refusal no_choice = given.defined() ? Refusal("the choice is given") : not_plain;
  const ByDevice choice = choose_by_device(
      "route", hidden, no_choice.empty() ? refuse_route_gpu(hidden, experts, k) : no_choice, not_plain);
  if (choice == ByDevice::kMeta) {
    const ScalarType wide = router.scalar_type();
    const std::vector<Tensor> results = meta_results(
        {hidden}, {{{hidden.size(0), k}, wide}, {{sequences.count(), experts}, wide}, {{}, wide}}, {sink});
    const auto numbers = hidden.options().dtype(at::kLong).requires_grad(false);
    if (options.judged && !given.defined())
      options.judged(at::empty({hidden.size(0), experts}, numbers.dtype(wide)));
    return {results[0], at::empty({hidden.size(0), k}, numbers), results[1],
            at::empty({sequences.count(), experts}, numbers), results[2]};
  }
  if (choice == ByDevice::kAten || choice == ByDevice::kCuda) {
    const Tensor leaf = with_gradient_to(router, sink);
    return choice == ByDevice::kCuda ? route_gpu(hidden, leaf, k, sequences, options.statistics)
                                     : route_aten(hidden, leaf, k, sequences, options);
  }
  const std::vector<Tensor> results = differentiable("route", {hidden, router}, [&] {
    return record_route(hidden.contiguous(), router, k, sink, sequences, options.choice_tk);
  });
  if (!options.statistics) return {.weight_tk = results[0], .choice_tk = results[1]};
  return {results[0], results[1], results[2], sequences.choices_per_expert(results[1], experts), results[3]};
}

Routing route_reference(const Tensor& hidden, const Tensor& router, int64_t k,
                        const Tensor& sequence_offsets) {
  return route_aten(hidden, router, k,
                    {document_offsets(sequence_offsets, hidden.size(0), "route_reference")});
}

}  // namespace longhaul::kernels
