#include "data/order/masked.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace longhaul::data {
namespace {

std::optional<int64_t> own_mask_token(const Tokenizer& tokenizer) {
  for (const std::string_view text : {"<|mask|>", "[MASK]", "<mask>"}) {
    const auto id = tokenizer.id_of(text);
    if (id && tokenizer.is_special(*id)) return *id;
  }
  return std::nullopt;
}

Masking masks(const Tokenizer& tokenizer, double share, const RandomStream& stream) {
  const auto separator = tokenizer.end_of_document();
  const std::vector<int32_t> beginning = tokenizer.beginning();
  return {.share = share,
          .mask_token = mask_token(tokenizer),
          .separator = separator ? int64_t{*separator} : int64_t{-1},
          .begin = beginning.empty() ? int64_t{-1} : int64_t{beginning.front()},
          .stream = stream};
}

}  // namespace

int64_t mask_token(const Tokenizer& tokenizer) {
  return own_mask_token(tokenizer).value_or(tokenizer.vocabulary());
}
int64_t rows_with_mask(const Tokenizer& tokenizer) {
  return std::max(tokenizer.vocabulary(), mask_token(tokenizer) + 1);
}

Masking training_masks(const Tokenizer& tokenizer, double share, int64_t seed) {
  return masks(tokenizer, share, RandomStream(static_cast<uint64_t>(seed), "data/masked"));
}

Masking evaluation_masks(const Tokenizer& tokenizer, double share) {
  return masks(tokenizer, share, RandomStream(0, "data/masked/evaluation"));
}

void mask_tokens(const Masking& masking, uint64_t first, std::span<int64_t> inputs,
                 std::span<int64_t> labels) {
  LONGHAUL_ASSERT(inputs.size() == labels.size(), "{} inputs, {} labels", inputs.size(), labels.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool text = inputs[i] != masking.separator && inputs[i] != masking.begin;
    const bool masked = text && masking.stream.uniform(first + i) < masking.share;
    labels[i] = masked ? inputs[i] : layout::kIgnoreLabel;
    if (masked) inputs[i] = masking.mask_token;
  }
}

Batch with_masks(Batch batch, const Masking& masking, uint64_t first) {
  mask_tokens(masking, first, batch.inputs, batch.labels);
  batch.target_tokens =
      static_cast<int64_t>(batch.labels.size()) - std::ranges::count(batch.labels, layout::kIgnoreLabel);
  batch.target_bytes = 0;
  return batch;
}

Batch with_masks(Batch batch, const Masking& masking) {
  LONGHAUL_ASSERT(batch.sequence > 0, "{} rows of different lengths", batch.rows);
  const auto first = static_cast<uint64_t>(batch.first_position * batch.sequence);
  return with_masks(std::move(batch), masking, first);
}

}  // namespace longhaul::data
