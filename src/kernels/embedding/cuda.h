// Embedding on a GPU: rows of a table by token id, with the rows of a second one by position added where
// there is one, and the gradient of a table. ids int64, table and gradients of rows bf16 [·, hidden], the
// table's gradient fp32.
//
// The gradient needs the tokens in the order of their ids, equal ids in the order of the tokens. That order
// is cut into windows, so an id that occurs often is spread over many blocks. What a window holds of an id
// that goes on in another one is added up there and kept; a second launch adds these sums, in an order that
// depends on the ids alone.
#pragma once

#include "kernels/cuda/numbers.h"

namespace longhaul::kernels::cuda {

constexpr int kEmbeddingWindow = 32;  // tokens

struct EmbeddingGradient {
  int64_t tokens = 0, hidden = 0;
  const int32_t* ids = nullptr;    // [tokens], ascending
  const int64_t* order = nullptr;  // [tokens]: the token that has ids[i]
  const Bf16* d_out = nullptr;     // [tokens, hidden]
  float* sink = nullptr;           // [vocabulary, hidden], added to
  void* workspace = nullptr;       // embedding_workspace_bytes
};
LONGHAUL_HD int64_t embedding_workspace_bytes(int64_t tokens, int64_t hidden) {
  return divide_up(tokens, kEmbeddingWindow) * 2 * hidden * 4;
}

// positions and position_table: both or neither.
void embedding_forward(const int64_t* ids, const Bf16* table, const int64_t* positions,
                       const Bf16* position_table, Bf16* out, int64_t tokens, int64_t hidden, Stream stream);
void embedding_gradient(const EmbeddingGradient& problem, Stream stream);

}  // namespace longhaul::kernels::cuda
