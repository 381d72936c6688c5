#include "plan/memory/memory_gpu.h"

#include <algorithm>
#include <cmath>

#include "plan/memory/memory_delta_rule.h"
#include "plan/memory/memory_workspace.h"

namespace longhaul::plan {

bool by_gpu_kernels(const MemoryRequest& request) {
  return request.on_gpu && request.dtype == recipe::Dtype::kBf16;
}

double gpu_loss_workspace(const MemoryRequest& request) {
  constexpr double kBytes = 1.5 * (1 << 30), kLeast = 512, kOfLogit = 4 + 2;
  const double vocabulary = number(request.model.vocabulary), tokens = std::max(1.0, request.tokens()),
               most = std::max(kLeast, std::floor(kBytes / (kOfLogit * vocabulary))),
               rows = std::ceil(tokens / std::ceil(tokens / most));
  return rows * rounded_up(vocabulary, 8) * kOfLogit;
}

double gpu_attention_workspace(const MemoryRequest& request, const recipe::AttentionSizes& sizes) {
  if (sizes.heads == 0 || sizes.head_dim != sizes.value_dim || sizes.head_dim % 8 != 0) return 0;
  constexpr double kMultiprocessors = 160, kMost = 2.0 * (1 << 30), kPadding = 128;
  const double heads = number(sizes.heads), width = number(sizes.head_dim), tokens = request.tokens(),
               documents = documents_of(request).count,
               groups = std::ceil(kMultiprocessors / (documents * heads));
  if (groups * tokens * heads * width * 4 > kMost) return 0;  // our kernels, which add nothing up
  const double rows = tokens + kPadding * documents;
  const double shared = sizes.kv_heads < sizes.heads ? 2 * tokens * heads * width * 2 : 0;
  return groups * rows * heads * rounded_up(width, width <= 128 ? 32 : 64) * 4 + rows * heads * 4 + shared;
}

}  // namespace longhaul::plan
