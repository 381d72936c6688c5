// The row loops of embeddings: raw pointers and sizes, one thread. Tables, hidden states and their
// gradients are stored as `storage` says; sinks are fp32 (fp64 for fp64).
#pragma once

#include <cstdint>

#include "kernels/vector/storage.h"

namespace longhaul::kernels {

struct EmbeddingForward {
  Storage storage;
  int64_t hidden;
  const int64_t *ids_t, *positions_t;  // positions null: table rows alone
  const void *table_vd, *position_table_pd;
  void* out_td;
};
void embedding_rows(const EmbeddingForward& problem, int64_t begin, int64_t end);

struct EmbeddingBackward {
  Storage storage;
  int64_t tokens, hidden;
  const int64_t *order_t, *ids_t;  // tokens sorted by id, stable
  const void* dy_td;
  void* sink_vd;
};
// sink[id] += Σ dy of the tokens with that id, in order, for the ids whose first token in the order lies in
// [begin, end).
void embedding_add_rows(const EmbeddingBackward& problem, int64_t begin, int64_t end);

}  // namespace longhaul::kernels
