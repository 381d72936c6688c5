// Detects rows in files whose names do not tell: C4, Dolma and most files of the Hugging Face Hub name JSON
// Lines ".json", and instruction data sets are one JSON array of objects. The beginning of a file shows its
// kind; a file that is neither is JSON that was written as a text (a configuration, say), and is read as one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/corpus/byte_stream.h"

namespace longhaul::data {

struct JsonRows {
  enum class Kind { kNone, kLines, kArray } kind = Kind::kNone;
  bool has_field = false;  // the first row has the field for documents, a string or, of parts, a list
  std::string first;       // the beginning of the first row, for errors
};

// Reads only the first row of the file, and at most 4 MiB of it.
JsonRows json_rows_of(const std::filesystem::path& path, const std::string& field, bool of_parts = false);

// Converts a JSON array to JSON Lines: each element in a line of its own. kData where the array does not end,
// or where something follows it; `path` is for errors.
std::unique_ptr<ByteStream> lines_of_json_array(std::unique_ptr<ByteStream> array,
                                                std::filesystem::path path);

}  // namespace longhaul::data
