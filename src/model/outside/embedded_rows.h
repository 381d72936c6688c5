// EmbeddedRows: rows from outside that take the place of the embedding's at some tokens: patches of a
// picture, frames of a sound, the vector of a user. They stand for rows of the embedding's table and nothing
// more: learned positions are added to them and Toeplitz positions mix them, as the model has these, and the
// norms of the layers read them as they read any token. Gradients flow back to them, and the table gets none
// from these tokens, whose ids are not read.
//
// Rows that tokens of this rank do not need are left out, and their gradient here is zero. So modules whose
// tensors all ranks hold alike (model::Beside) may make all rows on every rank: the sum of a tensor's
// gradients over context and tensor ranks, which the step takes anyway, is the gradient of the whole. A rank
// may also make and name the rows of its own tokens alone.
#pragma once

#include <vector>

#include "kernels/embedding/op.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::model {

struct EmbeddedRows {
  std::vector<int64_t> tokens;  // of the whole packed row (SequenceLayout), in any order, each once
  Tensor rows_nd;               // [tokens, hidden] in the precision and on the device of the hidden states

  bool any() const { return !tokens.empty() || rows_nd.defined(); }
  // The rows that stand `places` further in their documents, for a module that reads the embedding of later
  // tokens (Decoder::with_predictions).
  EmbeddedRows ahead(const layout::SequenceLayout& layout, int64_t places) const;
};

// Such rows on one rank. The constructor throws kUsage for tokens that lie outside the row or are named
// twice, and for rows that do not fit `like`, which describes hidden states [any, hidden].
class RowPlaces {
 public:
  RowPlaces(const EmbeddedRows& from, const layout::SequenceView& view, int64_t hidden,
            at::TensorOptions like);

  // ids_t int64 [tokens of this context rank], with id 0 at the tokens that have rows from outside
  Tensor without(const Tensor& ids_t) const;
  // hidden_td [own tokens, hidden] with the rows in their places; `positions`: the table of learned
  // positions, whose rows are added to those from outside too, or null.
  Tensor placed(const Tensor& hidden_td, const kernels::EmbeddingTable* positions) const;

 private:
  const layout::SequenceView& view_;
  Tensor rows_nd_;
  std::vector<int64_t> here_;         // which tokens of this context rank have one
  std::vector<int64_t> own_, which_;  // this rank's own tokens that have one, and which
};

}  // namespace longhaul::model
