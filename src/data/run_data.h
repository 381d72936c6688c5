// RunData: everything that [data] of a recipe describes, opened or made: the corpus, the tokenizer (trained
// once on the training part and cached, if the recipe says "train"), and the token shards. The corpus holds
// the text sources; token files of other programs (data/corpus/token_files.h) are also in `sources`, in the
// recipe's order. Data in the cache is found by content keys and reused, which is logged.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/corpus/corpus.h"
#include "data/order/loader.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokens/dataset.h"
#include "recipe/sections/data_options.h"

namespace longhaul::data {

namespace chat {
class ChatFormat;
}

struct RunData {
  Corpus corpus;
  Tokenizer tokenizer;
  std::vector<PreparedSource> sources;
  // with which conversations were written; null: there are none
  std::shared_ptr<const chat::ChatFormat> chat_format{};
  // texts that belong beside the checkpoints of the run, by name
  std::map<std::string, std::string> files{};

  std::vector<const TokenDataset*> train() const;  // those that contain documents
  // false: some sources are token files without text.
  bool all_text() const { return corpus.sources().size() == sources.size(); }
  // To evaluate on: the held-out parts and data.validation.
  std::vector<const TokenDataset*> held_out() const;
};

// data.cache, or the user's cache folder.
std::filesystem::path cache_folder(const recipe::DataOptions& options);

// Trains or loads the tokenizer, or uses bytes, as options.tokenizer says.
Tokenizer open_tokenizer(const recipe::DataOptions& options, const Corpus& corpus,
                         const std::filesystem::path& cache);

RunData open_run_data(const recipe::DataOptions& options, const std::filesystem::path& libtorch_folder,
                      const std::filesystem::path& cache);

// The loader's options that the recipe's [data] determines; sequence and schedule are set by the caller.
LoaderOptions loader_options(const recipe::DataOptions& options, int64_t sequence);

}  // namespace longhaul::data
