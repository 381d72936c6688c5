// embedding: rows of a table by token id, with the rows of a second table by position added where a model learns positions; one pass,
// summed in fp32 (fp64 for fp64 tables) and rounded once.
//
// The gradients are added to buffers of their own: tokens are sorted by id (stable), every row that occurs is read and written once, by
// one thread, its tokens in order. So results do not depend on the number of threads.
#pragma once

#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// A table and where its gradient goes: value [rows, hidden] in bf16, fp32 or fp64; sink of the same shape in fp32 (fp64 for fp64).
struct EmbeddingTable {
  Tensor value_vd;
  GradientSink sink;
};

// ids_t int64 [tokens] → [tokens, hidden]. ids and positions may lie on the CPU whatever device the tables are on, which is where they
// are wanted: they are checked there, so ids on a device are copied to the CPU, and the caller waits. An id outside the table is a kData error: the tokenizer does not belong to this model.
Tensor embedding(const Tensor& ids_t, const EmbeddingTable& table);
// The same plus the rows positions_t [tokens] of `position`; a position outside it is a kUsage error.
Tensor embedding(const Tensor& ids_t, const EmbeddingTable& table, const Tensor& positions_t, const EmbeddingTable& position);

// Where several ranks share a table, and this one has the rows from first_row on: zeros for ids of others' rows, so that all ranks' results add up.
Tensor embedding_of_share(const Tensor& ids_t, const EmbeddingTable& share, int64_t first_row);

}  // namespace longhaul::kernels
