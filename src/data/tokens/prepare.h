// prepare: text → token shards on the disk, once per (corpus, tokenizer); later runs find them by that key.
//
// Documents are read in order, encoded in parallel in batches of about 16 MiB, and written in order, so that
// the result does not depend on the number of threads; documents of more than 4 MiB go through the tokenizer
// in pieces, so that memory stays bounded. When enough tokens have been collected, the open shards of both
// sides are committed together with a state file. An interrupted preparation continues from there and makes
// exactly the files of an uninterrupted one. dataset.json is written last. A second process that prepares the
// same data at the same time gets an error that names the first.
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
  int64_t shard_tokens = 64 << 20;        // a commit is made when the open shards hold this many
  int64_t batch_bytes = 16 << 20;         // bytes of text encoded at once
  int64_t long_document_bytes = 4 << 20;  // longer documents are encoded in pieces
  std::function<void()> after_commit;     // called after each state file (tests stop there)
};

PreparedSource prepare(const Corpus& corpus, size_t source, const Encoder& encoder,
                       const std::filesystem::path& cache, const PrepareOptions& options = {});

// Prepares all sources of the corpus and logs what was reused. It is an error (kData) if there is nothing to
// train on.
std::vector<PreparedSource> prepare_all(const Corpus& corpus, const Encoder& encoder,
                                        const std::filesystem::path& cache,
                                        const PrepareOptions& options = {});

}  // namespace longhaul::data
