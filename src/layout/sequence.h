// SequenceLayout: which tokens of which documents a row of activations [tokens, hidden] holds. A batch is
// packed: documents are concatenated, each with its own positions. Labels are shifted and positions counted
// on the whole row, before a context-parallel split moves tokens to ranks; the split is one permutation of
// everything of shape [tokens]. Zig-zag: the row is cut into 2·ranks chunks and rank r owns chunks r and
// 2·ranks-1-r, so that causal attention costs every rank the same; the cut is global over the packed row,
// never per document (docs/sources/long-context-parallelism.md A5-A7). Striped (Striped Attention, arXiv
// 2311.09431): rank r owns the tokens r, r + ranks, r + 2·ranks, …, chunks of one token each. Plain data,
// pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/split.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::layout {

inline constexpr int64_t kIgnoreLabel = -1;  // no loss at this token

struct SequenceLayout {
  // [documents + 1], first 0, ascending, last = tokens; a document may be empty.
  std::vector<int64_t> document_offsets = {0};
  int64_t position_axes = 1;       // 1 text, 2 images, 3 video
  std::vector<int64_t> positions;  // [position_axes, tokens], row-major
  // Rows: the sequences of a batch (train.sequence tokens), whatever documents are packed into them. The
  // format is that of document_offsets, and a row ends where a document ends. Empty: one row of all tokens. A
  // micro-batch never cuts a row, so values defined per row (the balance of experts) do not depend on how a
  // batch is cut.
  std::vector<int64_t> row_offsets = {};

  int64_t tokens() const { return document_offsets.back(); }
  int64_t documents() const { return static_cast<int64_t>(document_offsets.size()) - 1; }
  Range document(int64_t index) const;
  int64_t document_of(int64_t token) const;
  std::span<const int64_t> positions_of_axis(int64_t axis) const;
  void validate() const;  // kUsage error that says which rule is violated
  bool operator==(const SequenceLayout&) const = default;
};

SequenceLayout make_packed(std::span<const int64_t> document_lengths);  // positions 0, 1, … in every document
// The same for documents that began in an earlier row: document i starts at position first_positions[i].
SequenceLayout make_packed(std::span<const int64_t> document_lengths,
                           std::span<const int64_t> first_positions);
SequenceLayout make_single(int64_t tokens);
SequenceLayout make_batch(int64_t batch, int64_t sequence);  // each sequence is a document and a row
// The same documents in rows of `sequence` tokens each; a document that crosses the end of a row is a kUsage
// error.
SequenceLayout in_rows(SequenceLayout layout, int64_t sequence);

// The label of each token: the next token of its document, kIgnoreLabel at the document's last one. For a
// document that continues after the row, next_tokens gives its next token ([documents], kIgnoreLabel where it
// ends here).
std::vector<int64_t> shifted_labels(const SequenceLayout& layout, std::span<const int64_t> tokens,
                                    std::span<const int64_t> next_tokens = {});

// For each token the value in `row` of the token `places` further in its document; kIgnoreLabel where there
// is none.
std::vector<int64_t> ahead_in_documents(const SequenceLayout& layout, std::span<const int64_t> row,
                                        int64_t places);

using recipe::ContextSplit;

// The chunks of the row that a rank owns, in its local order: one (contiguous), two (zig-zag), or one for
// each token (striped). Chunks may be empty.
std::vector<Range> context_chunks(int64_t tokens, int64_t ranks, int64_t rank, ContextSplit split);
// Row index of each local token.
std::vector<int64_t> local_tokens(int64_t tokens, int64_t ranks, int64_t rank, ContextSplit split);
// All ranks' local tokens, rank by rank: element i of the split order is element permutation[i] of the row.
std::vector<int64_t> split_permutation(int64_t tokens, int64_t ranks, ContextSplit split);
std::vector<int64_t> inverse_permutation(std::span<const int64_t> permutation);

// Segment: a run of consecutive tokens of one document on a rank.
struct Segment {
  int64_t document = 0;
  int64_t document_start = 0;  // index of its first token in the document
  int64_t length = 0;          // > 0
  int64_t local_start = 0;     // index of its first token on the rank
  int64_t chunk = 0;           // index among the rank's chunks; two chunks never share a segment
  bool operator==(const Segment&) const = default;
};

// LocalSequence: the part of the row on one rank.
struct LocalSequence {
  std::vector<Range> chunks;
  std::vector<Segment> segments;   // in local order; they tile the rank's tokens
  std::vector<int64_t> positions;  // [position_axes, local tokens]
  int64_t tokens = 0;
};
LocalSequence local_view(const SequenceLayout& layout, int64_t ranks, int64_t rank, ContextSplit split);

}  // namespace longhaul::layout
