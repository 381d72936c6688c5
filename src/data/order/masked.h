// Masked tokens (BERT's objective, arXiv 1810.04805, with every masked token replaced: the reconstruction of MDLM, arXiv 2406.07524, at one share of
// masks): some tokens of a batch give way to a mask token, and are the labels of the places where they stood; all others have none. Whether a token is
// masked is a pure function of the stream and the token's number in the run's order, so it depends neither on ranks, nor on micro-batches, nor on where a
// run was resumed. Separators, and with them padding, are never masked: they are no text. Plain values: any thread.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "data/order/batch.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

struct Masking {
  double share = 0.15;     // of the tokens, in the mean
  int64_t mask_token = 0;  // that stands in their place
  int64_t separator = -1;  // is never masked; −1: there is none
  int64_t begin = -1;      // likewise
  RandomStream stream;
};

// The tokenizer's own where it has one ("<|mask|>", "[MASK]", "<mask>"), else the id behind its last one: rows a model needs are rows_with_mask.
int64_t mask_token(const Tokenizer& tokenizer);
int64_t rows_with_mask(const Tokenizer& tokenizer);

// Of training, and of evaluations, whose stream is the same in all runs, so that their numbers can be compared.
Masking training_masks(const Tokenizer& tokenizer, double share, int64_t seed);
Masking evaluation_masks(const Tokenizer& tokenizer, double share);

// Token i of `inputs` is number first + i of the run's order; labels [inputs] are written.
void mask_tokens(const Masking& masking, uint64_t first, std::span<int64_t> inputs, std::span<int64_t> labels);
// A batch whose labels were next tokens; what bytes they stood for nobody asks about any more: target_bytes is 0.
Batch with_masks(Batch batch, const Masking& masking, uint64_t first);
Batch with_masks(Batch batch, const Masking& masking);  // of rows of one length: counted by the batch's first_position

}  // namespace longhaul::data
