// Perplexity of held-out text: the mean loss of every target that an EvaluationReader gives, each counted
// once, without gradients and auxiliary losses. Bits per byte allows comparing models with different
// tokenizers. Losses are summed in fp64, in the reader's order, so the result does not depend on the number
// of threads as long as the losses do not. When several ranks each read all batches, they compute them in
// turn, and get the same result as one rank, to the bit. Not thread-safe for one decoder.
#pragma once

#include <functional>
#include <numbers>
#include <optional>

#include "data/order/evaluation.h"
#include "evaluate/share.h"
#include "model/decoder.h"

namespace longhaul::evaluate {

struct EvaluationResult {
  double loss = 0;  // nats per token
  // Σ nats / ln 2 / bytes of the text that the targets represent; 0 where bytes are not counted (masked
  // tokens).
  double bits_per_byte = 0;
  double perplexity = 0;  // exp(loss)
  int64_t tokens = 0;     // targets
  int64_t bytes = 0;
  double bits_per_token() const { return loss / std::numbers::ln2; }
  std::optional<double> accuracy;  // share of targets that are the likeliest token; only if requested
};

// KYes computes the head's products a second time, a few rows of logits at a time.
enum class Accuracy { kNo, kYes };

// kInt8: every window is read as a server reads a prompt, with keys and values from a decoding state that
// keeps them in eight bits, so that the result says what these cost.
enum class KeysValues { kWide, kInt8 };

// Reads until the reader ends. `progress` is called after each batch with the number of its targets; when
// it returns false, reading stops and there is no result: it must then return false on all ranks. If there
// are no targets, that is a kData error.
std::optional<EvaluationResult> evaluate(model::Decoder& decoder, data::EvaluationReader& reader,
                                         const std::function<bool(int64_t tokens)>& progress = {},
                                         Accuracy accuracy = Accuracy::kNo, const EvaluationShare& share = {},
                                         KeysValues keys_values = KeysValues::kWide);

// The result for the sum of the losses of all targets. If there are no targets, that is a kData error;
// `any_text`: some text was read, and no token of it was masked.
EvaluationResult result_of(double nats, int64_t tokens, int64_t bytes, bool any_text);

}  // namespace longhaul::evaluate
