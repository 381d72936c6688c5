// DataOptions: [data] of a recipe: which text is trained on, how it becomes tokens, which part is held out, and in which order
// it is read. Plain data; ranges and sentences are declared in data_options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

struct DataOptions {
  // Files or folders of text or JSONL, plain or compressed with zstd or gzip. "libtorch": the Python sources inside the LibTorch
  // in use (its C++ headers where it has no Python).
  std::vector<std::string> source = {"libtorch"};
  std::vector<double> weights;       // share of each source in the blend; empty: by size
  std::vector<std::string> include;  // file endings read inside folders (".py"); empty: every text file
  std::string jsonl_field = "text";  // key that holds a document in JSONL files

  // Path of a tokenizer.json; "train": byte-level BPE trained on the training part, once, cached; "bytes": one token a byte.
  std::string tokenizer = "train";
  int64_t vocabulary = 8192;  // entries of a tokenizer that is trained here

  int64_t held_out_percent = 1;     // documents whose path (JSONL: path:line) hash mod 100 is below this are held out
  bool remove_copies = true;        // of documents with equal bytes only the first is kept
  bool document_boundaries = true;  // attention and recurrences never cross from one document into the next

  int64_t seed = 0;      // of the order in which samples are read; apart from train.seed
  int64_t prefetch = 4;  // micro-batches prepared ahead of the trainer
  std::string cache;     // folder for token shards and trained tokenizers; empty: the user's cache folder

  bool operator==(const DataOptions&) const = default;
};

void declare(OptionSet& set, DataOptions& data);

}  // namespace longhaul::recipe
