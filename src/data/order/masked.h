// Masked tokens (BERT's objective, arXiv 1810.04805, with every masked token replaced: the reconstruction of
// MDLM, arXiv 2406.07524, at one share of masks): some tokens of a batch are replaced by a mask token and are
// the labels at their places; all other places have no label. Whether a token is masked is a pure function of
// the stream and the token's number in the run's order, so it does not depend on ranks, micro-batches or the
// step at which a run was resumed. Separators, and so padding, are never masked, because they are no text.
// Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "data/order/batch.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

struct Masking {
  double share = 0.15;     // mean share of masked tokens
  int64_t mask_token = 0;  // the token that replaces them
  int64_t separator = -1;  // never masked; −1: there is none
  int64_t begin = -1;      // never masked; −1: there is none
  RandomStream stream;
};

// The tokenizer's own mask token if it has one ("<|mask|>", "[MASK]", "<mask>"), else the id after its last
// one. rows_with_mask is the number of rows that a model needs for it.
int64_t mask_token(const Tokenizer& tokenizer);
int64_t rows_with_mask(const Tokenizer& tokenizer);

// The masks of training, and those of evaluations, whose stream is equal in all runs, so that their results
// can be compared.
Masking training_masks(const Tokenizer& tokenizer, double share, int64_t seed);
Masking evaluation_masks(const Tokenizer& tokenizer, double share);

// Token i of `inputs` has number first + i in the run's order; labels [inputs] are written.
void mask_tokens(const Masking& masking, uint64_t first, std::span<int64_t> inputs,
                 std::span<int64_t> labels);
// Converts a batch whose labels were next tokens. target_bytes becomes 0, because nobody needs the bytes of
// these labels.
Batch with_masks(Batch batch, const Masking& masking, uint64_t first);
// For rows of one length: counted from the batch's first_position.
Batch with_masks(Batch batch, const Masking& masking);

}  // namespace longhaul::data
