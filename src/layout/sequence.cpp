#include "layout/sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace longhaul::layout {

namespace {

[[noreturn]] void refuse(std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "a sequence layout is inconsistent",
               .expected = std::move(expected),
               .found = std::move(found)});
}

// For documents or rows.
void check_offsets(const char* what, std::span<const int64_t> offsets) {
  if (offsets.empty() || offsets.front() != 0) {
    refuse(fmt::format("{} offsets that begin with 0", what),
           offsets.empty() ? "no offsets" : std::to_string(offsets.front()));
  }
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      refuse(fmt::format("ascending {} offsets", what),
             fmt::format("{} after {} at {} {}", offsets[i], offsets[i - 1], what, i - 1));
    }
  }
}

void check_rows(const SequenceLayout& layout) {
  check_offsets("row", layout.row_offsets);
  if (layout.row_offsets.back() != layout.tokens()) {
    refuse(fmt::format("rows of {} tokens together", layout.tokens()),
           std::to_string(layout.row_offsets.back()));
  }
  for (const int64_t offset : layout.row_offsets) {
    if (!std::binary_search(layout.document_offsets.begin(), layout.document_offsets.end(), offset)) {
      refuse("rows that end where documents end",
             fmt::format("a document that reaches over token {}, where a row ends", offset));
    }
  }
}

}  // namespace

Range SequenceLayout::document(int64_t index) const {
  LONGHAUL_ASSERT(index >= 0 && index < documents(), "document {} of {}", index, documents());
  const auto at = static_cast<size_t>(index);
  return {document_offsets[at], document_offsets[at + 1] - document_offsets[at]};
}

int64_t SequenceLayout::document_of(int64_t token) const {
  LONGHAUL_ASSERT(token >= 0 && token < tokens(), "token {} of {}", token, tokens());
  // The first offset beyond the token ends its document, so empty documents before it are stepped over.
  return std::upper_bound(document_offsets.begin(), document_offsets.end(), token) -
         document_offsets.begin() - 1;
}

std::span<const int64_t> SequenceLayout::positions_of_axis(int64_t axis) const {
  LONGHAUL_ASSERT(axis >= 0 && axis < position_axes, "axis {} of {}", axis, position_axes);
  return std::span(positions).subspan(static_cast<size_t>(axis * tokens()), static_cast<size_t>(tokens()));
}

void SequenceLayout::validate() const {
  check_offsets("document", document_offsets);
  if (!row_offsets.empty()) check_rows(*this);
  if (position_axes < 1) refuse("at least one position axis", std::to_string(position_axes));
  if (static_cast<int64_t>(positions.size()) != position_axes * tokens()) {
    refuse(
        fmt::format("{} positions: {} axes of {} tokens", position_axes * tokens(), position_axes, tokens()),
        std::to_string(positions.size()));
  }
  const auto negative =
      std::find_if(positions.begin(), positions.end(), [](int64_t position) { return position < 0; });
  if (negative != positions.end()) {
    refuse("positions of at least 0", fmt::format("{} at index {}", *negative, negative - positions.begin()));
  }
}

SequenceLayout make_packed(std::span<const int64_t> document_lengths) {
  return make_packed(document_lengths, std::vector<int64_t>(document_lengths.size(), 0));
}

SequenceLayout make_packed(std::span<const int64_t> document_lengths,
                           std::span<const int64_t> first_positions) {
  if (first_positions.size() != document_lengths.size()) {
    refuse(fmt::format("a first position for each of {} documents", document_lengths.size()),
           std::to_string(first_positions.size()));
  }
  SequenceLayout layout;
  for (size_t i = 0; i < document_lengths.size(); ++i) {
    const int64_t length = document_lengths[i];
    if (length < 0) refuse("documents of at least 0 tokens", fmt::format("{} at document {}", length, i));
    layout.document_offsets.push_back(layout.tokens() + length);
    for (int64_t j = 0; j < length; ++j) layout.positions.push_back(first_positions[i] + j);
  }
  layout.validate();
  return layout;
}

SequenceLayout make_single(int64_t tokens) { return make_packed(std::span(&tokens, 1)); }

SequenceLayout make_batch(int64_t batch, int64_t sequence) {
  if (batch < 0) refuse("a batch of at least 0 sequences", std::to_string(batch));
  SequenceLayout layout = make_packed(std::vector<int64_t>(static_cast<size_t>(batch), sequence));
  layout.row_offsets = layout.document_offsets;
  return layout;
}

SequenceLayout in_rows(SequenceLayout layout, int64_t sequence) {
  if (sequence < 1) refuse("rows of at least 1 token", std::to_string(sequence));
  layout.row_offsets.clear();
  for (int64_t offset = 0; offset < layout.tokens(); offset += sequence) layout.row_offsets.push_back(offset);
  layout.row_offsets.push_back(layout.tokens());
  layout.validate();
  return layout;
}

std::vector<int64_t> shifted_labels(const SequenceLayout& layout, std::span<const int64_t> tokens,
                                    std::span<const int64_t> next_tokens) {
  if (static_cast<int64_t>(tokens.size()) != layout.tokens()) {
    refuse(fmt::format("{} token ids", layout.tokens()), std::to_string(tokens.size()));
  }
  if (!next_tokens.empty() && static_cast<int64_t>(next_tokens.size()) != layout.documents()) {
    refuse(fmt::format("a next token for each of {} documents", layout.documents()),
           std::to_string(next_tokens.size()));
  }
  std::vector<int64_t> labels(tokens.size(), kIgnoreLabel);
  for (int64_t i = 0; i < layout.documents(); ++i) {
    const Range document = layout.document(i);
    if (document.length == 0) continue;
    const auto begin = static_cast<size_t>(document.begin);
    const auto last = static_cast<size_t>(document.end()) - 1;
    std::copy(tokens.begin() + static_cast<ptrdiff_t>(begin) + 1,
              tokens.begin() + static_cast<ptrdiff_t>(last) + 1,
              labels.begin() + static_cast<ptrdiff_t>(begin));
    if (!next_tokens.empty()) labels[last] = next_tokens[static_cast<size_t>(i)];
  }
  return labels;
}

std::vector<int64_t> ahead_in_documents(const SequenceLayout& layout, std::span<const int64_t> row,
                                        int64_t places) {
  LONGHAUL_ASSERT(static_cast<int64_t>(row.size()) == layout.tokens() && places >= 0,
                  "{} numbers of {} tokens", row.size(), layout.tokens());
  std::vector<int64_t> ahead(row.size(), kIgnoreLabel);
  for (int64_t d = 0; d < layout.documents(); ++d) {
    const Range document = layout.document(d);
    for (int64_t t = document.begin; t + places < document.end(); ++t)
      ahead[static_cast<size_t>(t)] = row[static_cast<size_t>(t + places)];
  }
  return ahead;
}

std::vector<Range> context_chunks(int64_t tokens, int64_t ranks, int64_t rank, ContextSplit split) {
  LONGHAUL_ASSERT(ranks >= 1 && rank >= 0 && rank < ranks, "rank {} of {}", rank, ranks);
  if (split == ContextSplit::kContiguous) return {even_part(tokens, ranks, rank)};
  if (split == ContextSplit::kStriped) {
    std::vector<Range> chunks;
    for (int64_t token = rank; token < tokens; token += ranks) chunks.push_back({token, 1});
    return chunks;
  }
  return {even_part(tokens, 2 * ranks, rank), even_part(tokens, 2 * ranks, 2 * ranks - 1 - rank)};
}

std::vector<int64_t> local_tokens(int64_t tokens, int64_t ranks, int64_t rank, ContextSplit split) {
  std::vector<int64_t> local;
  for (const Range& chunk : context_chunks(tokens, ranks, rank, split)) {
    for (int64_t token = chunk.begin; token < chunk.end(); ++token) local.push_back(token);
  }
  return local;
}

std::vector<int64_t> split_permutation(int64_t tokens, int64_t ranks, ContextSplit split) {
  std::vector<int64_t> permutation;
  permutation.reserve(static_cast<size_t>(tokens));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const std::vector<int64_t> local = local_tokens(tokens, ranks, rank, split);
    permutation.insert(permutation.end(), local.begin(), local.end());
  }
  return permutation;
}

std::vector<int64_t> inverse_permutation(std::span<const int64_t> permutation) {
  std::vector<int64_t> inverse(permutation.size(), -1);
  for (size_t i = 0; i < permutation.size(); ++i) {
    const int64_t element = permutation[i];
    const bool fresh = element >= 0 && element < static_cast<int64_t>(permutation.size()) &&
                       inverse[static_cast<size_t>(element)] < 0;
    LONGHAUL_ASSERT(fresh, "element {} of {}", element, permutation.size());
    inverse[static_cast<size_t>(element)] = static_cast<int64_t>(i);
  }
  return inverse;
}

LocalSequence local_view(const SequenceLayout& layout, int64_t ranks, int64_t rank, ContextSplit split) {
  LocalSequence view;
  view.chunks = context_chunks(layout.tokens(), ranks, rank, split);
  for (size_t c = 0; c < view.chunks.size(); ++c) {
    int64_t token = view.chunks[c].begin;
    while (token < view.chunks[c].end()) {
      const int64_t index = layout.document_of(token);
      const Range document = layout.document(index);
      const int64_t length = std::min(document.end(), view.chunks[c].end()) - token;
      view.segments.push_back({.document = index,
                               .document_start = token - document.begin,
                               .length = length,
                               .local_start = view.tokens,
                               .chunk = static_cast<int64_t>(c)});
      view.tokens += length;
      token += length;
    }
  }
  view.positions.reserve(static_cast<size_t>(layout.position_axes * view.tokens));
  for (int64_t axis = 0; axis < layout.position_axes; ++axis) {
    const std::span<const int64_t> row = layout.positions_of_axis(axis);
    for (const Range& chunk : view.chunks) {
      view.positions.insert(view.positions.end(), row.begin() + chunk.begin, row.begin() + chunk.end());
    }
  }
  return view;
}

}  // namespace longhaul::layout
