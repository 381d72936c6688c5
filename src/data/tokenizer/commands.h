// The commands `longhaul tokenizer train|encode|decode`; the command line itself only reads arguments and
// prints. Results are passed to `write` in pieces, so that a file's ids are never in memory as text. Errors:
// 65, with file and place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

using Write = std::function<void(std::string_view)>;

struct TrainReport {
  int64_t files = 0;
  int64_t bytes = 0;       // bytes of text
  int64_t vocabulary = 0;  // as trained; fewer than requested when the text has no more pairs
  double seconds = 0;
};
// Trains on every document below the paths (folders, files, .jsonl, compressed or not; see source.h) and
// writes `out`.
TrainReport train_tokenizer_on_paths(const std::vector<std::string>& paths, const std::string& jsonl_field,
                                     const std::filesystem::path& out, const TrainOptions& options);

// One line per file: {"file": …, "ids": […]}; without json the ids separated by spaces. Files may have any
// size; memory is bounded.
void write_encoded_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                         bool json, bool add_special, const Write& write);

// Parses ids: a JSON array, or an array that contains one as a batch of one text, a line of
// write_encoded_files, or numbers separated by spaces or line ends.
std::vector<int32_t> read_ids(std::string_view text, const std::string& where);

// "bytes", or the path of a tokenizer.json.
Tokenizer open_tokenizer(const std::string& name);

}  // namespace longhaul::data
