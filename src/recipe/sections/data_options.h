// DataOptions: [data] of a recipe: which text is trained on, how it becomes tokens, which part is held out, and in which order
// it is read. Plain data; ranges and sentences are declared in data_options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

// A point through which the shares of the sources go: of all tokens of the run, whatever steps and batches they are cut into.
struct DataMixPoint {
  int64_t at_tokens = 0;
  std::vector<double> weights;  // one number per source
  bool operator==(const DataMixPoint&) const = default;
};

struct DataOptions {
  // Files or folders of text or JSONL, plain or compressed with zstd, gzip or xz. "libtorch": the Python sources inside the LibTorch
  // in use (its C++ headers where it has no Python). Paths as base/text/path_text.h reads them.
  std::vector<std::string> source = {"libtorch"};
  std::vector<std::string> validation;  // sources to evaluate on and never to train on
  std::vector<double> weights;          // share of each entry of source in the blend; empty: by size
  std::vector<DataMixPoint> mix;        // instead of weights: shares that move over training, in straight lines from point to point
  std::vector<std::string> include;     // file endings read inside folders (".py"); empty: every text file
  std::string jsonl_field = "text";     // key that holds a document in JSONL files
  bool skip_bad_lines = false;          // JSONL lines without a document are left out; false: the first is an error
  bool keep_binary = false;             // files that are not text are read too

  // Path of a tokenizer.json; "train": byte-level BPE trained on the training part, once, cached; "bytes": one token a byte.
  std::string tokenizer = "train";
  int64_t vocabulary = 8192;  // entries of a tokenizer that is trained here
  // Tokens of it by their text: what stands between documents (empty: <|end_of_document|>, <|endoftext|> or another usual name), and what ends a
  // text beside it when one is written.
  std::string end_of_document;
  std::vector<std::string> stop_tokens;

  int64_t held_out_percent = -1;    // documents whose text's hash mod 100 is below this are held out; -1: see percent_held_out()
  bool remove_copies = true;        // of documents with equal bytes only the first is kept
  bool document_boundaries = true;  // attention and recurrences never cross from one document into the next

  int64_t seed = 0;      // of the order in which samples are read; apart from train.seed
  int64_t prefetch = 4;  // steps whose batches are prepared ahead of the trainer
  std::string cache;     // folder for token shards and trained tokenizers; empty: the user's cache folder

  int64_t percent_held_out() const { return held_out_percent >= 0 ? held_out_percent : validation.empty() ? 1 : 0; }
  bool operator==(const DataOptions&) const = default;
};

void declare(OptionSet& set, DataMixPoint& point);
void declare(OptionSet& set, DataOptions& data);

}  // namespace longhaul::recipe
