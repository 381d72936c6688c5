#include "data/order/evaluation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "data/order/packing.h"

namespace longhaul::data {

EvaluationReader::EvaluationReader(std::vector<const TokenDataset*> datasets, EvaluationOptions options)
    : datasets_(std::move(datasets)), options_(options) {
  if (options_.context < 1 || options_.overlap < 0 || options_.overlap >= options_.context) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "evaluation windows cannot be cut",
                 .expected = "a context of at least 1 and an overlap below it",
                 .found = fmt::format("context {}, overlap {}", options_.context, options_.overlap)});
  }
  if (options_.masking && options_.overlap > 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "windows that overlap would mask a token in each of them",
                 .expected = "an overlap of 0 where masked tokens are predicted",
                 .found = std::to_string(options_.overlap)});
  }
  weighted_ = any_weighted(datasets_);
  for (const TokenDataset* dataset : datasets_) documents_ += dataset->documents();
}

int64_t EvaluationReader::tokens() const {
  int64_t tokens = 0;
  for (const TokenDataset* dataset : datasets_) tokens += dataset->labels();
  if (options_.limit_tokens > 0) tokens = std::min(tokens, options_.limit_tokens);
  return options_.masking ? std::llround(static_cast<double>(tokens) * options_.masking->share) : tokens;
}

std::optional<EvaluationReader::Window> EvaluationReader::next_window() {
  if (waiting_) return std::exchange(waiting_, std::nullopt);
  if (ordinal_ >= documents_ || (options_.limit_tokens > 0 && targets_ >= options_.limit_tokens))
    return std::nullopt;
  // The order of a limited pass is equal in every evaluation of every run, so that their results can be
  // compared.
  static const RandomStream order(0, "data/evaluation");
  int64_t document = options_.limit_tokens == 0
                         ? ordinal_
                         : static_cast<int64_t>(permutation_at(order, static_cast<uint64_t>(documents_),
                                                               static_cast<uint64_t>(ordinal_)));
  size_t d = 0;
  while (document >= datasets_[d]->documents()) document -= datasets_[d++]->documents();
  const int64_t labels = datasets_[d]->labels(document);
  const int64_t context_only = std::min(options_.overlap, done_);
  const int64_t start = done_ - context_only;
  const Window window{datasets_[d], document, start, std::min(options_.context, labels - start),
                      context_only};
  done_ = start + window.length;
  targets_ += window.length - context_only;
  if (done_ == labels) {
    ++ordinal_;
    done_ = 0;
  }
  return window;
}

std::optional<Batch> EvaluationReader::next() {
  BatchBuilder builder(weighted_);
  int64_t bytes = 0, rows = 0;
  while (const std::optional<Window> window = next_window()) {
    if (rows > 0 && builder.tokens() + window->length > options_.tokens_per_batch) {
      waiting_ = window;
      break;
    }
    const auto span = builder.add(window->length);
    read_span(*window->dataset, {window->document, window->start, window->length}, span.inputs, span.labels);
    const auto own = static_cast<size_t>(window->context_only);
    std::fill_n(span.labels.begin(), own, layout::kIgnoreLabel);
    const DocumentSpan judged{window->document, window->start + window->context_only,
                              window->length - window->context_only};
    bytes += weighted_
                 ? weigh_span(*window->dataset, judged, span.labels.subspan(own), span.weights.subspan(own))
                 : span_bytes(*window->dataset, judged);
    ++rows;
  }
  if (rows == 0) return std::nullopt;
  builder.batch().first_position = windows_;
  builder.batch().rows = rows;
  builder.batch().target_bytes = bytes;
  windows_ += rows;
  Batch batch = builder.finish();
  batch.weights.clear();
  const uint64_t first = inputs_;
  inputs_ += batch.inputs.size();
  return options_.masking ? with_masks(std::move(batch), *options_.masking, first) : batch;
}

}  // namespace longhaul::data
