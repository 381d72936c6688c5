// Rows in files whose names do not say so: C4, Dolma and most files of the Hugging Face Hub call JSON Lines ".json", and data sets of
// instructions are one JSON array of objects. How such a file begins says which of them it is; what is neither is JSON that was
// written as a text (a configuration, say), and is read as one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/corpus/byte_stream.h"

namespace longhaul::data {

struct JsonRows {
  enum class Kind { kNone, kLines, kArray } kind = Kind::kNone;
  bool has_field = false;  // the first row has the string that is the document
  std::string first;       // how the first row begins, for errors
};

// Reads no more of the file than its first row, and that to 4 MiB at most.
JsonRows json_rows_of(const std::filesystem::path& path, const std::string& field);

// A JSON array as JSON Lines: each element in a line of its own. kData where the array does not end, or something stands behind it;
// `path` is for errors.
std::unique_ptr<ByteStream> lines_of_json_array(std::unique_ptr<ByteStream> array, std::filesystem::path path);

}  // namespace longhaul::data
