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
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/dataset.h"

namespace longhaul::data {

// What preparation needs of a tokenizer. `encode` appends and may be called from several threads; `piecewise` makes an encoder
// of one long document that is fed in pieces (the last call has last = true) and gives the ids of encode of the whole.
struct Encoder {
  using Piecewise = std::function<void(std::string_view piece, bool last, std::vector<int32_t>& ids)>;
  std::function<void(std::string_view text, std::vector<int32_t>& ids)> encode;
  std::function<Piecewise()> piecewise;
  int64_t vocabulary = 0;
  int32_t separator = 0;  // id of the end-of-document token
  std::string sha256;     // of the tokenizer's file
};

Encoder byte_encoder();  // data.tokenizer = "bytes": one token a byte, 256 separates documents

struct PrepareOptions {
  int64_t shard_tokens = 64 << 20;           // committed when the open shards hold this many
  int64_t batch_bytes = 16 << 20;            // of text encoded at once
  int64_t long_document_bytes = 4 << 20;     // beyond: in pieces
  std::function<void()> after_commit;        // called after each state file (tests stop there)
};

PreparedSource prepare(const Corpus& corpus, size_t source, const Encoder& encoder, const std::filesystem::path& cache,
                       const PrepareOptions& options = {});

// All sources of the corpus; says what was reused. Nothing to train on is an error (kData).
std::vector<PreparedSource> prepare_all(const Corpus& corpus, const Encoder& encoder, const std::filesystem::path& cache,
                                        const PrepareOptions& options = {});

}  // namespace longhaul::data
