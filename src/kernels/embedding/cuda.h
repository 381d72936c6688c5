// Embedding on a GPU: rows of a table by token id, with the rows of a second one by position added where
// there is one, and the gradient of a table.
//
// The gradient is added up id by id, rows in token order, so it does not vary: the host, which has the ids
// anyway, sorts them (plan_embedding). ids int64, table and gradients of rows bf16 [·, hidden], the table's
// gradient fp32.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

struct EmbeddingPlan {
  std::vector<int32_t> tokens;  // positions, sorted by id, then by position
  std::vector<int32_t> starts;  // [distinct + 1]
  std::vector<int64_t> ids;     // [distinct], ascending
};
inline EmbeddingPlan plan_embedding(std::span<const int64_t> ids) {
  EmbeddingPlan plan;
  plan.tokens.resize(ids.size());
  std::iota(plan.tokens.begin(), plan.tokens.end(), 0);
  std::stable_sort(plan.tokens.begin(), plan.tokens.end(), [&](int32_t a, int32_t b) {
    return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < plan.tokens.size(); ++i) {
    const int64_t id = ids[static_cast<size_t>(plan.tokens[i])];
    if (!plan.ids.empty() && plan.ids.back() == id) continue;
    plan.ids.push_back(id);
    plan.starts.push_back(static_cast<int32_t>(i));
  }
  plan.starts.push_back(static_cast<int32_t>(plan.tokens.size()));
  return plan;
}

// positions and position_table: both or neither.
void embedding_forward(const int64_t* ids, const Bf16* table, const int64_t* positions,
                       const Bf16* position_table, Bf16* out, int64_t tokens, int64_t hidden, Stream stream);
// Pointers to a plan on the device; the gradient is added to sink [vocabulary, hidden].
void embedding_gradient(const int32_t* tokens, const int32_t* starts, const int64_t* ids, int64_t distinct,
                        const Bf16* d_out, float* sink, int64_t hidden, Stream stream);

}  // namespace longhaul::kernels::cuda
