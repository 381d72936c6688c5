#include "kernels/experts/op.h"

#include <fmt/format.h>

#include <cstring>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/experts/cuda_call.h"
#include "kernels/experts/loops.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kGrain = 16;  // tokens

// out[t] = Σ_k weight · y[place_tk]; weight: undefined for ones.
Tensor gather_sum(const Tensor& y, const Tensor& weight, const Tensor& place) {
  const Tensor out = at::empty({place.size(0), y.size(1)}, y.options());
  const Combine problem{.storage = storage_of(y),
                        .hidden = y.size(1),
                        .k = place.size(1),
                        .place_tk = place.const_data_ptr<int64_t>(),
                        .weight_tk = pointer_to(weight),
                        .y_rd = pointer_to(y),
                        .out_td = writable(out)};
  parallel_for(0, place.size(0), kGrain,
               [&](int64_t begin, int64_t end) { combine_rows(problem, begin, end); });
  return out;
}

Tensor gather_rows_of(const Tensor& x, const Tensor& source) {
  const Tensor out = at::empty({source.size(0), x.size(1)}, x.options());
  const int64_t* token = source.const_data_ptr<int64_t>();
  const auto* from = static_cast<const char*>(pointer_to(x));
  auto* to = static_cast<char*>(writable(out));
  const int64_t bytes = x.size(1) * x.element_size();
  parallel_for(0, source.size(0), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(to + r * bytes, from + token[r] * bytes, static_cast<size_t>(bytes));
  });
  return out;
}

struct CombineGradients {
  Tensor y_rd, weight_tk;
};

CombineGradients combine_gradients(const Tensor& y, const Tensor& weight, const Tensor& place,
                                   const Tensor& d_out, bool on_gpu) {
  const CombineGradients out{at::empty_like(y), at::empty_like(weight)};
  if (on_gpu) {
    cuda_calls<ExpertsCuda>().combine_backward(y, weight, place, d_out, out.y_rd, out.weight_tk);
    return out;
  }
  const Combine problem{.storage = storage_of(y),
                        .hidden = y.size(1),
                        .k = place.size(1),
                        .place_tk = place.const_data_ptr<int64_t>(),
                        .weight_tk = pointer_to(weight),
                        .y_rd = pointer_to(y),
                        .d_out_td = pointer_to(d_out),
                        .dy_rd = writable(out.y_rd),
                        .d_weight_tk = writable(out.weight_tk)};
  parallel_for(0, place.size(0), kGrain,
               [&](int64_t begin, int64_t end) { combine_backward_rows(problem, begin, end); });
  return out;
}

void check_rows(const char* op, const char* argument, const Tensor& x, int64_t rows) {
  if (x.dim() != 2 || (rows >= 0 && x.size(0) != rows) || !at::isFloatingType(x.scalar_type()) ||
      x.scalar_type() == at::kHalf) {
    refuse_argument(
        op, argument,
        fmt::format("[{}, hidden] in bf16, fp32 or fp64", rows >= 0 ? std::to_string(rows) : "tokens"),
        shape_text(x));
  }
}

}  // namespace

static ExpertAssignment assign_meta(const Tensor& choice, int64_t experts) {
  const int64_t rows = choice.numel();
  ExpertAssignment assignment{
      at::empty({rows}, choice.options()), at::empty(choice.sizes(), choice.options()), {}};
  for (int64_t e = 0; e < experts; ++e)
    assignment.rows_per_expert.push_back(rows / experts + (e < rows % experts ? 1 : 0));
  return assignment;
}

static ExpertAssignment assign_gpu(const Tensor& choice, int64_t experts) {
  ExpertAssignment assignment;
  Tensor offsets;
  cuda_calls<ExpertsCuda>().assign(choice, experts, assignment.source_r, assignment.place_tk, offsets);
  offsets = offsets.cpu();
  const int64_t* offset = offsets.const_data_ptr<int64_t>();
  for (int64_t e = 0; e < experts; ++e) assignment.rows_per_expert.push_back(offset[e + 1] - offset[e]);
  if (offset[experts] != choice.numel()) {
    refuse_argument("assign_experts", "choice", "0 to " + std::to_string(experts - 1),
                    fmt::format("{} numbers outside", choice.numel() - offset[experts]));
  }
  return assignment;
}

static ExpertAssignment assign_aten(const Tensor& choice, int64_t experts) {
  const int64_t rows = choice.numel(), k = choice.size(1);
  const Tensor flat = choice.reshape({rows}),
               order = std::get<1>(flat.sort(/*stable=*/true, 0, /*descending=*/false));
  const Tensor place = at::empty_like(order).scatter_(0, order, at::arange(rows, order.options()));
  ExpertAssignment assignment{order.div(k, "floor"), place.view(choice.sizes()), {}};
  // Numbers that name no expert are counted too, below the first and above the last.
  const Tensor counts = at::bincount(flat.clamp(-1, experts) + 1, {}, experts + 2).cpu();
  const int64_t* count = counts.const_data_ptr<int64_t>();
  if (count[0] + count[experts + 1] > 0) {
    refuse_argument("assign_experts", "choice", "0 to " + std::to_string(experts - 1),
                    fmt::format("{} numbers outside", count[0] + count[experts + 1]));
  }
  assignment.rows_per_expert.assign(count + 1, count + 1 + experts);
  return assignment;
}

ExpertAssignment assign_experts(const Tensor& choice_tk, int64_t experts) {
  if (choice_tk.dim() != 2 || choice_tk.scalar_type() != at::kLong) {
    refuse_argument("assign_experts", "choice", "[tokens, k] int64", shape_text(choice_tk));
  }
  const ByDevice implementation =
      choose_by_device("assign_experts", choice_tk, refuse_cuda(choice_tk, false));
  if (implementation == ByDevice::kMeta) return assign_meta(choice_tk, experts);
  if (implementation == ByDevice::kCuda) return assign_gpu(choice_tk, experts);
  if (implementation == ByDevice::kAten) return assign_aten(choice_tk, experts);
  const Tensor choice = choice_tk.contiguous();
  const int64_t tokens = choice.size(0), k = choice.size(1);
  const int64_t* expert = choice.const_data_ptr<int64_t>();
  ExpertAssignment assignment{at::empty({tokens * k}, at::kLong), at::empty({tokens, k}, at::kLong),
                              std::vector<int64_t>(static_cast<size_t>(experts), 0)};
  for (int64_t i = 0; i < tokens * k; ++i) {
    if (expert[i] < 0 || expert[i] >= experts) {
      refuse_argument("assign_experts", "choice", "0 to " + std::to_string(experts - 1),
                      std::to_string(expert[i]));
    }
    ++assignment.rows_per_expert[static_cast<size_t>(expert[i])];
  }
  std::vector<int64_t> next(static_cast<size_t>(experts), 0);
  for (size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + assignment.rows_per_expert[e - 1];
  int64_t *source = assignment.source_r.mutable_data_ptr<int64_t>(),
          *place = assignment.place_tk.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens * k; ++i) {
    const int64_t row = next[static_cast<size_t>(expert[i])]++;
    source[row] = i / k;
    place[i] = row;
  }
  return assignment;
}

Tensor permute_to_experts(const Tensor& x, const ExpertAssignment& assignment) {
  check_rows("permute_to_experts", "x", x, assignment.place_tk.size(0));
  const ByDevice choice = choose_by_device("permute_to_experts", x, refuse_cuda(x));
  if (choice == ByDevice::kMeta)
    return meta_results({x}, {{{assignment.source_r.size(0), x.size(1)}, x.scalar_type()}})[0];
  if (choice == ByDevice::kAten) {
    // Each row is written once, and its choices are summed by token: gradients add up in an order that does
    // not vary.
    const int64_t k = assignment.place_tk.size(1);
    const Tensor copies =
        x.unsqueeze(1).expand({x.size(0), k, x.size(1)}).reshape({x.size(0) * k, x.size(1)});
    return at::zeros_like(copies).index_copy(0, assignment.place_tk.reshape({-1}), copies);
  }
  return differentiable("permute_to_experts", {x}, [&, on_gpu = choice == ByDevice::kCuda]() -> Recorded {
    const auto gather = on_gpu ? cuda_calls<ExpertsCuda>().gather_rows : gather_rows_of;
    const Tensor rows = gather(x.contiguous(), assignment.source_r);
    return {.results = {rows},
            .saved = {assignment.place_tk},
            .backward =
                [sum = on_gpu ? cuda_calls<ExpertsCuda>().combine : gather_sum](const BackwardCall& call) {
                  return std::vector<Tensor>{sum(call.gradients[0].contiguous(), Tensor(), call.saved[0])};
                },
            .cheap = {{rows, {x, assignment.source_r}, [gather](const std::vector<Tensor>& from) {
                         return gather(from[0].contiguous(), from[1]);
                       }}}};
  })[0];
}

Tensor combine_experts(const Tensor& y, const Tensor& weight, const ExpertAssignment& assignment) {
  check_rows("combine_experts", "y", y, assignment.source_r.size(0));
  if (weight.sizes() != assignment.place_tk.sizes() || weight.scalar_type() != wide_type(y)) {
    refuse_argument("combine_experts", "weight",
                    fmt::format("[{}, {}] {}", assignment.place_tk.size(0), assignment.place_tk.size(1),
                                name_of(wide_type(y))),
                    shape_text(weight));
  }
  const ByDevice choice = choose_by_device("combine_experts", y, refuse_cuda(y));
  if (choice == ByDevice::kMeta)
    return meta_results({y, weight}, {{{weight.size(0), y.size(1)}, y.scalar_type()}})[0];
  if (choice == ByDevice::kAten) {
    const Tensor rows = y.index_select(0, assignment.place_tk.reshape({-1}))
                            .view({weight.size(0), weight.size(1), y.size(1)});
    return rows.to(weight.scalar_type()).mul(weight.unsqueeze(2)).sum(1).to(y.scalar_type());
  }
  return differentiable(
      "combine_experts", {y, weight}, [&, on_gpu = choice == ByDevice::kCuda]() -> Recorded {
        const Tensor rows = y.contiguous(), factors = weight.contiguous();
        const auto sum = on_gpu ? cuda_calls<ExpertsCuda>().combine : gather_sum;
        return {.results = {sum(rows, factors, assignment.place_tk)},
                .saved = {rows, factors, assignment.place_tk},
                .backward = [on_gpu](const BackwardCall& call) {
                  const auto out = combine_gradients(call.saved[0], call.saved[1], call.saved[2],
                                                     call.gradients[0].contiguous(), on_gpu);
                  return std::vector<Tensor>{out.y_rd, out.weight_tk};
                }};
      })[0];
}

}  // namespace longhaul::kernels
