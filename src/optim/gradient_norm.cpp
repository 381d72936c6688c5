#include "optim/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/adamw/cuda_call.h"
#include "kernels/adamw/loops.h"

namespace longhaul::optim {
namespace {

constexpr int64_t kBlock = 32768;  // elements; part of the result's definition

struct Block {
  const Tensor* gradient = nullptr;
  int64_t begin = 0, length = 0;
  size_t tensor = 0;  // index of the logical tensor it belongs to
};

double squares(const Block& block) {
  const kernels::ElementLoops& loops = kernels::element_loops();
  switch (block.gradient->scalar_type()) {
    case at::kFloat:
      return loops.squares_fp32(block.gradient->const_data_ptr<float>() + block.begin, block.length);
    case at::kDouble:
      return loops.squares_fp64(block.gradient->const_data_ptr<double>() + block.begin, block.length);
    default:
      LONGHAUL_ASSERT(false, "a main gradient in {}", name_of(block.gradient->scalar_type()));
  }
}

// Of every logical tensor that trains, in order.
std::vector<double> squared_norms(const std::vector<Block>& blocks, size_t tensors) {
  std::vector<double> block_sums(blocks.size());
  parallel_for(0, static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      block_sums[static_cast<size_t>(i)] = squares(blocks[static_cast<size_t>(i)]);
  });
  std::vector<double> sums(tensors);
  for (size_t i = 0; i < blocks.size(); ++i) sums[blocks[i].tensor] += block_sums[i];
  return sums;
}

// The norm of all gradients, where they lie on one GPU in fp32.
std::optional<double> norm_on_gpu(const model::ParameterSet& parameters) {
  std::vector<kernels::cuda::AdamwTensor> tensors;
  Tensor any;
  for (const auto& parameter : parameters.all()) {
    if (!parameter->trainable()) continue;
    const Tensor& gradient = parameter->own_grad;
    if (gradient.scalar_type() != at::kFloat || !kernels::refuse_cuda(gradient, /*bf16_only=*/false).empty())
      return std::nullopt;
    any = gradient;
    for (size_t part = 0; part < parameter->parts.size(); ++part) {
      if (!parameter->parts[part].spec.trainable || !parameter->parts[part].first_copy) continue;
      const layout::Range run = parameter->own_run_of(part);
      if (run.length > 0)
        tensors.push_back({.gradient = gradient.data_ptr<float>() + run.begin, .count = run.length});
    }
  }
  if (tensors.empty()) return std::nullopt;
  return kernels::cuda_calls<kernels::AdamwCuda>().gradient_norm(tensors, any).item<float>();
}

// From the squared norm of this rank's gradients.
void finish(GradientNorm& result, double squares, double scale, const WorldSum& sum_up) {
  Tensor partials = at::full({1}, squares, at::kDouble);
  if (sum_up) sum_up(partials);
  result.norm = std::sqrt(partials.item<double>()) * std::abs(scale);
  result.finite = std::isfinite(result.norm);
}

}  // namespace

GradientNorm gradient_norm(const model::ParameterSet& parameters, double scale, const WorldSum& sum_up) {
  GradientNorm result;
  // What is not finite is looked for tensor by tensor below.
  if (const auto norm = norm_on_gpu(parameters); norm && std::isfinite(*norm)) {
    finish(result, *norm * *norm, scale, sum_up);
    return result;
  }
  std::vector<const std::string*> names;
  std::vector<double> sums;
  std::vector<Block> blocks;
  std::vector<std::pair<size_t, Tensor>> elsewhere;  // squared norms of tensors that are not on the CPU
  for (const auto& parameter : parameters.all()) {
    if (!parameter->trainable()) continue;
    for (size_t part = 0; part < parameter->parts.size(); ++part) {
      const layout::ParameterSpec& spec = parameter->parts[part].spec;
      if (!spec.trainable || !parameter->parts[part].first_copy) continue;
      const Tensor& gradient = parameter->own_grad;
      const layout::Range run = parameter->own_run_of(part);
      if (!gradient.device().is_cpu()) {
        elsewhere.emplace_back(names.size(), at::linalg_vector_norm(gradient.narrow(0, run.begin, run.length),
                                                                    2, std::nullopt, false, at::kDouble)
                                                 .square());
      } else {
        for (int64_t at = 0; at < run.length; at += kBlock) {
          blocks.push_back({&gradient, run.begin + at, std::min(kBlock, run.length - at), names.size()});
        }
      }
      names.push_back(&spec.tensor.name);
    }
  }
  sums = squared_norms(blocks, names.size());
  if (!elsewhere.empty()) {  // one copy from the device for all of them
    std::vector<Tensor> scalars;
    for (const auto& [index, sum] : elsewhere) scalars.push_back(sum);
    const Tensor fetched = at::stack(scalars).cpu();
    for (size_t i = 0; i < elsewhere.size(); ++i)
      sums[elsewhere[i].first] = fetched.const_data_ptr<double>()[i];
  }

  double total = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (result.first_nonfinite.empty() && !std::isfinite(sums[i])) result.first_nonfinite = *names[i];
    total += sums[i];
  }
  finish(result, total, scale, sum_up);
  return result;
}

double clip_factor(double norm, double clip_norm) {
  return clip_norm == 0 ? 1.0 : std::min(1.0, clip_norm / (norm + 1e-6));
}

}  // namespace longhaul::optim
