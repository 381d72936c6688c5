// The program's tensors are LibTorch's. This header provides the type, the dtypes by the names that recipes
// and file formats use, and the Precision of a run. Axes are written into names: q_thd is [tokens, heads,
// head_dim].
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <string>
#include <string_view>

namespace longhaul {

using at::ScalarType;
using at::Tensor;

std::string_view name_of(ScalarType type);            // "bf16", "fp32", "fp64", "int64", …
ScalarType scalar_type_named(std::string_view name);  // kUsage for unknown names

// The dtype of each kind of data (design: one type, overrides per role). fp64 keeps everything in fp64:
// proofs use it.
struct Precision {
  ScalarType compute = at::kFloat;        // working weights and activations
  ScalarType main_gradient = at::kFloat;  // Parameter::grad
  ScalarType master = at::kFloat;         // the optimizer's copy of the weights
  ScalarType state = at::kFloat;          // moments
  ScalarType reduce = at::kFloat;         // norms, softmax, router, logits, recurrence state
  // "bf16", "fp32", "fp64"; fp16 is refused: it is imported, never trained
  static Precision named(std::string_view dtype);
};

// Runs `body` and turns LibTorch's exceptions into Error: out of memory (68), a failing GPU (71),
// everything else internal (70) with its message.
void translate_torch_errors(const std::function<void()>& body);

}  // namespace longhaul
