// DataOptions: [data] of a recipe: the text to train on, how it becomes tokens, which part is held out, and
// in which order it is read. Plain data; ranges and sentences are declared in data_options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

// DataMixPoint: a point of the piecewise linear shares of the sources, counted in tokens of the run, whatever
// the steps and batches are.
struct DataMixPoint {
  int64_t at_tokens = 0;
  std::vector<double> weights;  // one number per source
  bool operator==(const DataMixPoint&) const = default;
};

// Which tokens count in the loss: of JSON rows, whose documents then have parts that say so
// (docs/guides/data-order.md).
enum class LossOn { kAll, kParts, kCompletion };
std::vector<std::string_view> names_of(LossOn);

struct DataOptions {
  // Files or folders of text or JSONL, plain or compressed with zstd, gzip or xz. "libtorch": the Python
  // sources in the LibTorch that is used (its C++ headers where it has no Python). Paths are read by
  // base/text/path_text.h.
  std::vector<std::string> source = {"libtorch"};
  std::vector<std::string> validation;  // sources to evaluate on and never to train on
  std::vector<double> weights;          // share of each entry of source in the blend; empty: by size
  // Instead of weights: shares that change during training, linearly from point to point.
  std::vector<DataMixPoint> mix;
  std::vector<std::string> include;  // file endings read inside folders (".py"); empty: every text file
  std::string jsonl_field = "text";  // key that holds a document in JSONL files
  LossOn loss_on = LossOn::kAll;
  bool skip_bad_lines = false;  // skip JSONL lines without a document; false: the first one is an error
  bool keep_binary = false;     // read files that are not text too

  // Path of a tokenizer.json; "train": byte-level BPE, trained once on the training part and cached; "bytes":
  // one token per byte.
  std::string tokenizer = "train";
  int64_t vocabulary = 8192;  // entries of a tokenizer that is trained here
  // Tokens given by their text: the token between documents (empty: <|end_of_document|>, <|endoftext|> or
  // another usual name), and the tokens that end a generated text in addition to it.
  std::string end_of_document;
  std::vector<std::string> stop_tokens;

  // Documents are held out if the hash of their text mod 100 is below this; -1: see percent_held_out().
  int64_t held_out_percent = -1;
  bool remove_copies = true;        // of documents with equal bytes only the first is kept
  bool document_boundaries = true;  // attention and recurrences never cross from one document into the next

  int64_t seed = 0;      // for the order in which samples are read; independent of train.seed
  int64_t prefetch = 4;  // steps whose batches are prepared ahead of the trainer
  std::string cache;     // folder for token shards and trained tokenizers; empty: the user's cache folder

  int64_t percent_held_out() const {
    return held_out_percent >= 0 ? held_out_percent : validation.empty() ? 1 : 0;
  }
  bool operator==(const DataOptions&) const = default;
};

void declare(OptionSet& set, DataMixPoint& point);
void declare(OptionSet& set, DataOptions& data);

}  // namespace longhaul::recipe
