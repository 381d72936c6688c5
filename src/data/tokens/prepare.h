// prepare: text → token shards on the disk, once per (corpus, tokenizer), found again by their key.
//
// Documents are read in order, encoded in parallel in batches of about 16 MiB, and written in order, so the result does not
// depend on the number of threads; documents of more than 4 MiB go through the tokenizer in pieces, so memory stays bounded.
// Whenever enough tokens have come together, the open shards of both sides are committed with a state file beside them; an
// interrupted preparation goes on from there and leaves exactly the files of an uninterrupted one. dataset.json comes last.
// A second process that prepares the same data at the same time gets an error that names the first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "data/corpus/corpus.h"
#include "data/tokens/dataset.h"
#include "data/tokens/encoder.h"

namespace longhaul::data {

struct PrepareOptions {
  int64_t shard_tokens = 64 << 20;        // committed when the open shards hold this many
  int64_t batch_bytes = 16 << 20;         // of text encoded at once
  int64_t long_document_bytes = 4 << 20;  // beyond: in pieces
  std::function<void()> after_commit;     // called after each state file (tests stop there)
};

PreparedSource prepare(const Corpus& corpus, size_t source, const Encoder& encoder, const std::filesystem::path& cache,
                       const PrepareOptions& options = {});

// All sources of the corpus; says what was reused. Nothing to train on is an error (kData).
std::vector<PreparedSource> prepare_all(const Corpus& corpus, const Encoder& encoder, const std::filesystem::path& cache,
                                        const PrepareOptions& options = {});

}  // namespace longhaul::data
