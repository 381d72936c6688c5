// RunData: everything [data] of a recipe stands for, opened or made: the corpus, the tokenizer (trained once on the training part
// and cached, when the recipe says "train"), and the token shards. The corpus holds the sources that are text; those that are token files of
// others (data/corpus/token_files.h) stand among `sources` all the same, in the recipe's order. What lies in the cache is found by content keys and reused,
// and the log says so.
#pragma once

#include <filesystem>
#include <vector>

#include "data/corpus/corpus.h"
#include "data/order/loader.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"
#include "recipe/sections/data_options.h"

namespace longhaul::data {

struct RunData {
  Corpus corpus;
  Tokenizer tokenizer;
  std::vector<PreparedSource> sources;

  std::vector<const TokenDataset*> train() const;                              // those that hold documents
  bool all_text() const { return corpus.sources().size() == sources.size(); }  // else some is token files, whose text nobody has
  std::vector<const TokenDataset*> held_out() const;                           // what to evaluate on: held out, or of data.validation
};

// data.cache, or the user's cache folder.
std::filesystem::path cache_folder(const recipe::DataOptions& options);

// Trains it, loads it, or takes the bytes, as options.tokenizer says.
Tokenizer open_tokenizer(const recipe::DataOptions& options, const Corpus& corpus, const std::filesystem::path& cache);

RunData open_run_data(const recipe::DataOptions& options, const std::filesystem::path& libtorch_folder, const std::filesystem::path& cache);

// The loader's options as far as the recipe's [data] decides them; sequence and schedule are the caller's.
LoaderOptions loader_options(const recipe::DataOptions& options, int64_t sequence);

}  // namespace longhaul::data
