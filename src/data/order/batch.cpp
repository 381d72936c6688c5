#include "data/order/batch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace longhaul::data {

double Batch::target_weight() const {
  if (weights.empty()) return static_cast<double>(target_tokens);
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i)
    sum += labels[i] == layout::kIgnoreLabel ? 0 : static_cast<double>(weights[i]);
  return sum;
}

BatchBuilder::Span BatchBuilder::add(int64_t length) {
  const size_t begin = batch_.inputs.size();
  const auto count = static_cast<size_t>(length);
  batch_.inputs.resize(begin + count);
  batch_.labels.resize(begin + count, layout::kIgnoreLabel);
  if (with_weights_) batch_.weights.resize(begin + count, 1.0f);
  if (join_ && !lengths_.empty()) {
    lengths_.back() += length;
  } else {
    lengths_.push_back(length);
  }
  join_ = false;
  return {std::span(batch_.inputs).subspan(begin, count), std::span(batch_.labels).subspan(begin, count),
          with_weights_ ? std::span(batch_.weights).subspan(begin, count) : std::span<float>()};
}

void BatchBuilder::join() { join_ = true; }

Batch BatchBuilder::finish() {
  batch_.layout = layout::make_packed(lengths_);
  if (batch_.sequence > 0) batch_.layout = layout::in_rows(std::move(batch_.layout), batch_.sequence);
  batch_.target_tokens = static_cast<int64_t>(batch_.labels.size()) -
                         std::count(batch_.labels.begin(), batch_.labels.end(), layout::kIgnoreLabel);
  lengths_.clear();
  return std::exchange(batch_, {});
}

std::vector<Batch> micro_batches(const Batch& batch, int64_t rows) {
  LONGHAUL_ASSERT(rows > 0 && batch.sequence > 0, "rows {} sequence {}", rows, batch.sequence);
  std::vector<Batch> parts;
  // Bytes are known for the whole batch only; their share goes by targets, and the shares add up.
  const auto share = [&](int64_t count) {
    return batch.target_tokens == 0 ? 0 : batch.target_bytes * count / batch.target_tokens;
  };
  int64_t document = 0, targets = 0;  // of the parts so far
  for (int64_t first = 0; first < batch.rows; first += rows) {
    Batch part;
    part.rows = std::min(rows, batch.rows - first);
    part.first_position = batch.first_position + first;
    part.sequence = batch.sequence;
    const int64_t begin = first * batch.sequence, end = begin + part.rows * batch.sequence;
    part.inputs.assign(batch.inputs.begin() + begin, batch.inputs.begin() + end);
    part.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
    if (!batch.weights.empty())
      part.weights.assign(batch.weights.begin() + begin, batch.weights.begin() + end);
    std::vector<int64_t> lengths;
    for (; document < batch.layout.documents() &&
           batch.layout.document_offsets[static_cast<size_t>(document)] < end;
         ++document) {
      const auto d = static_cast<size_t>(document);
      lengths.push_back(batch.layout.document_offsets[d + 1] - batch.layout.document_offsets[d]);
    }
    part.layout = layout::in_rows(layout::make_packed(lengths), batch.sequence);
    LONGHAUL_ASSERT(part.layout.tokens() == end - begin, "{} tokens in rows of {}", part.layout.tokens(),
                    end - begin);
    part.target_tokens =
        end - begin - std::count(part.labels.begin(), part.labels.end(), layout::kIgnoreLabel);
    part.target_bytes = share(targets + part.target_tokens) - share(targets);
    targets += part.target_tokens;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace longhaul::data
