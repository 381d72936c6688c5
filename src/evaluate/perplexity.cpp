#include "evaluate/perplexity.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "evaluate/decoder_answers.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "model/state.h"
#include "tensor/to_tensor.h"

namespace longhaul::evaluate {
namespace {

// Tokens without a label have loss 0 and change nothing.
double sum_of(const Tensor& loss_t) {
  const Tensor wide = loss_t.to(at::kDouble).cpu().contiguous();
  const double* value = wide.const_data_ptr<double>();
  double sum = 0;
  for (int64_t t = 0; t < wide.numel(); ++t) sum += value[t];
  return sum;
}

// Labels that are the likeliest token.
int64_t right_of(const model::Decoder& decoder, const Tensor& hidden_td, const Tensor& labels_t) {
  const int64_t rows = logit_rows_at_once(decoder.config().vocabulary), tokens = labels_t.size(0);
  int64_t right = 0;
  for (int64_t begin = 0; begin < tokens; begin += rows) {
    const int64_t end = std::min(tokens, begin + rows);
    right += decoder.logits(hidden_td.slice(0, begin, end))
                 .argmax(1)
                 .eq(labels_t.slice(0, begin, end))
                 .sum()
                 .item<int64_t>();
  }
  return right;
}

Tensor hidden_of(model::Decoder& decoder, const data::Batch& batch, KeysValues keys_values) {
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  const Tensor ids_t = to_tensor(batch.inputs, decoder.device());
  if (keys_values == KeysValues::kWide) return decoder.hidden(context, ids_t, batch.layout);
  model::DecoderState state = decoder.make_state();
  state.keep_keys_values_in_int8();
  model::DecoderRows rows{state, {}};
  for (int64_t i = 0; i < batch.layout.documents(); ++i) rows.rows.push_back(state.add());
  return decoder.hidden(context, ids_t, batch.layout, &rows);
}

}  // namespace

std::optional<EvaluationResult> evaluate(model::Decoder& decoder, data::EvaluationReader& reader,
                                         const std::function<bool(int64_t tokens)>& progress,
                                         Accuracy accuracy, const EvaluationShare& share,
                                         KeysValues keys_values) {
  const at::NoGradGuard no_gradient;
  EvaluationResult result;
  // the nats of each batch, then how many labels were right; 0 where another rank has it
  std::vector<double> of_batches;
  int64_t right = 0;
  while (const std::optional<data::Batch> batch = reader.next()) {
    const bool own = share.has(static_cast<int64_t>(of_batches.size()));
    of_batches.push_back(0);
    if (own) {
      const Tensor hidden_td = hidden_of(decoder, *batch, keys_values);
      const Tensor labels_t = to_tensor(batch->labels, decoder.device());
      of_batches.back() = sum_of(decoder.loss_each(hidden_td, labels_t));
      if (accuracy == Accuracy::kYes) right += right_of(decoder, hidden_td, labels_t);
    }
    result.tokens += batch->target_tokens;
    result.bytes += batch->target_bytes;
    if (progress && !progress(batch->target_tokens)) return std::nullopt;
  }
  of_batches.push_back(static_cast<double>(right));
  share.complete(of_batches);
  double nats = 0;  // in the reader's order, whoever had the batches
  for (size_t i = 0; i + 1 < of_batches.size(); ++i) nats += of_batches[i];
  result = result_of(nats, result.tokens, result.bytes, of_batches.size() > 1);
  if (accuracy == Accuracy::kYes) result.accuracy = of_batches.back() / static_cast<double>(result.tokens);
  return result;
}

EvaluationResult result_of(double nats, int64_t tokens, int64_t bytes, bool any_text) {
  EvaluationResult result{.tokens = tokens, .bytes = bytes};
  if (result.tokens == 0 && any_text) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "no token of the held-out text was masked, so there is nothing to evaluate",
         .expected = "at least one",
         .found = "none",
         .where = "train.masked_share",
         .hint =
             "raise train.masked_share, or evaluate on more text (data.held_out_percent, data.validation)"});
  }
  if (result.tokens == 0) {
    throw Error({.code = ExitCode::kData,
                 .what = "there is no held-out text to evaluate",
                 .expected = "at least one document",
                 .found = "none",
                 .where = "data.held_out_percent",
                 .hint = "in a run, raise data.held_out_percent; else name a text that is not empty"});
  }
  result.loss = nats / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  // Empty documents alone are targets (their ends) without bytes.
  if (result.bytes > 0) result.bits_per_byte = nats / std::log(2.0) / static_cast<double>(result.bytes);
  return result;
}

}  // namespace longhaul::evaluate
