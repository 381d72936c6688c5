// embedding: rows of a table by token id, plus, if a model learns positions, the rows of a second table by
// position; one pass, summed in fp32 (fp64 for fp64 tables) and rounded once.
//
// The gradients are added to buffers of their own: tokens are sorted by id (stable), and every row that
// occurs is read and written once, by one thread, with its tokens in order. So results do not depend on the
// number of threads.
#pragma once

#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

// A table and the buffer of its gradient: value [rows, hidden] in bf16, fp32 or fp64; sink of the same
// shape in fp32 (fp64 for fp64).
struct EmbeddingTable {
  Tensor value_vd;
  GradientSink sink;
};

// ids_t int64 [tokens] → [tokens, hidden]. ids and positions should be on the CPU, whatever the device of
// the tables, because they are checked there; ids on another device are copied to the CPU while the caller
// waits. An id outside the table is a kData error: the tokenizer does not belong to this model.
Tensor embedding(const Tensor& ids_t, const EmbeddingTable& table);
// The same plus the rows positions_t [tokens] of `position`; a position outside it is a kUsage error.
Tensor embedding(const Tensor& ids_t, const EmbeddingTable& table, const Tensor& positions_t,
                 const EmbeddingTable& position);

// For a table of `vocabulary` rows that several ranks share, of which this rank has the rows from first_row
// on: returns zeros for ids of other ranks' rows, so that the sum over ranks is the embedding. An id outside
// the whole table is the same kData error on every rank.
Tensor embedding_of_share(const Tensor& ids_t, const EmbeddingTable& share, int64_t first_row,
                          int64_t vocabulary);

}  // namespace longhaul::kernels
