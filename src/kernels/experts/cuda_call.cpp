#include "kernels/experts/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/experts/cuda.h"

namespace longhaul::kernels {
namespace {

using cuda::bf16;
using cuda::bf16_out;
using cuda::fp32;
using cuda::fp32_out;

// the kernels count in int32
Tensor narrow_numbers(const Tensor& numbers) { return numbers.to(at::kInt).contiguous(); }
const int32_t* int32(const Tensor& numbers) { return numbers.const_data_ptr<int32_t>(); }
Tensor empty_int32(at::IntArrayRef sizes, const Tensor& like) {
  return at::empty(sizes, like.options().dtype(at::kInt).requires_grad(false));
}

Refusal refuse_route(int64_t experts, int64_t k) {
  static_assert(cuda::kMostExperts == 1024 && cuda::kMostChoices == 32);
  if (experts > cuda::kMostExperts) return "it takes at most 1024 experts";
  if (k > cuda::kMostChoices) return "it takes at most 32 experts for a token";
  return "";
}

std::pair<Tensor, Tensor> route(const Tensor& logits, int64_t k) {
  const cuda::OnDevice device(logits);
  const int64_t tokens = logits.size(0);
  const Tensor choice = empty_int32({tokens, k}, logits), weight = cuda::fp32_like(logits, {tokens, k});
  cuda::route_forward(fp32(logits), choice.mutable_data_ptr<int32_t>(), fp32_out(weight), tokens,
                      static_cast<int>(logits.size(1)), static_cast<int>(k), device.stream());
  return {weight, choice.to(at::kLong)};
}

Tensor route_backward(const Tensor& choice, const Tensor& weight, const Tensor& d_weight, int64_t experts) {
  const cuda::OnDevice device(weight);
  const Tensor numbers = narrow_numbers(choice),
               d_logits = cuda::fp32_like(weight, {weight.size(0), experts});
  cuda::route_backward(int32(numbers), fp32(weight), fp32(d_weight), fp32_out(d_logits), weight.size(0),
                       static_cast<int>(experts), static_cast<int>(weight.size(1)), device.stream());
  return d_logits;
}

void assign(const Tensor& choice, int64_t experts, Tensor& source, Tensor& place, Tensor& offsets) {
  const cuda::OnDevice device(choice);
  const Tensor numbers = narrow_numbers(choice);
  const Tensor sources = empty_int32({choice.numel()}, choice), places = empty_int32(choice.sizes(), choice);
  offsets = at::empty({experts + 1}, choice.options());
  cuda::assign_experts(int32(numbers), offsets.mutable_data_ptr<int64_t>(),
                       sources.mutable_data_ptr<int32_t>(), places.mutable_data_ptr<int32_t>(),
                       choice.size(0), static_cast<int>(experts), static_cast<int>(choice.size(1)),
                       device.stream());
  source = sources.to(at::kLong);
  place = places.to(at::kLong);
}

Tensor gather_rows(const Tensor& x, const Tensor& source) {
  const cuda::OnDevice device(x);
  const Tensor numbers = narrow_numbers(source),
               rows = at::empty({source.size(0), x.size(1)}, x.options().requires_grad(false));
  cuda::permute_forward(bf16(x), int32(numbers), bf16_out(rows), source.size(0), x.size(1), device.stream());
  return rows;
}

Tensor combine(const Tensor& y, const Tensor& weight, const Tensor& place) {
  const cuda::OnDevice device(y);
  const Tensor numbers = narrow_numbers(place),
               out = at::empty({place.size(0), y.size(1)}, y.options().requires_grad(false));
  cuda::combine_forward(bf16(y), fp32(weight), int32(numbers), bf16_out(out), place.size(0),
                        static_cast<int>(place.size(1)), y.size(1), device.stream());
  return out;
}

void combine_backward(const Tensor& y, const Tensor& weight, const Tensor& place, const Tensor& d_out,
                      const Tensor& dy, const Tensor& d_weight) {
  const cuda::OnDevice device(y);
  const Tensor numbers = narrow_numbers(place);
  cuda::combine_backward(bf16(y), fp32(weight), int32(numbers), bf16(d_out), bf16_out(dy), fp32_out(d_weight),
                         place.size(0), static_cast<int>(place.size(1)), y.size(1), device.stream());
}

const CudaCalls<ExpertsCuda> registered({.refuse_route = refuse_route,
                                         .route = route,
                                         .route_backward = route_backward,
                                         .assign = assign,
                                         .gather_rows = gather_rows,
                                         .combine = combine,
                                         .combine_backward = combine_backward});

}  // namespace
}  // namespace longhaul::kernels
