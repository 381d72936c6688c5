// Perplexity of held-out text: the mean loss of every target that an EvaluationReader gives, each once, without gradients and
// auxiliary losses. Bits per byte compares models whatever their tokenizers. Losses are summed in fp64, in the reader's order, so the
// result is the same for every number of threads that leaves the losses the same. Several ranks that each read all take batches in turn, and have
// the same result as one, to the bit. Not thread-safe for one decoder.
#pragma once

#include <functional>
#include <numbers>
#include <optional>

#include "data/order/evaluation.h"
#include "evaluate/share.h"
#include "model/decoder.h"

namespace longhaul::evaluate {

struct EvaluationResult {
  double loss = 0;           // nats per token
  double bits_per_byte = 0;  // Σ nats / ln 2 / bytes of text that the targets stand for; 0 where these are not counted (masked tokens)
  double perplexity = 0;     // exp(loss)
  int64_t tokens = 0;        // targets
  int64_t bytes = 0;
  double bits_per_token() const { return loss / std::numbers::ln2; }
  std::optional<double> accuracy;  // share of targets that are the likeliest token; where it was asked for
};

enum class Accuracy { kNo, kYes };  // takes the head's products once more, a few rows of logits at a time

// Reads until the reader ends. `progress` is called after each batch with the targets it had; when it says false, reading stops and there
// is no result: all ranks must then stop. No target at all is a kData error.
std::optional<EvaluationResult> evaluate(model::Decoder& decoder, data::EvaluationReader& reader,
                                         const std::function<bool(int64_t tokens)>& progress = {}, Accuracy accuracy = Accuracy::kNo,
                                         const EvaluationShare& share = {});

// Of the sum of the losses of all targets. No target at all is a kData error; `any_text`: some was read, and no token of it was masked.
EvaluationResult result_of(double nats, int64_t tokens, int64_t bytes, bool any_text);

}  // namespace longhaul::evaluate
