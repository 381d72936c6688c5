// ConversationFiles: the files of one entry of data.source for fine-tuning, and their rows: JSON Lines
// (.jsonl, .ndjson, or .json that begins like them), one JSON array of objects (.json), and tables of Parquet
// or Arrow, as the Hugging Face Hub and `datasets` keep them. JSON may be compressed (.gz, .zst, .xz). In a
// folder all such files count, in bytewise order of their names; other files are left alone. Rows are
// streamed.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace longhaul::posttrain {

struct ConversationFile {
  std::filesystem::path path;
  std::string name;  // below the source, with '/'
  int64_t bytes = 0;
  int64_t modified_ns = 0;
};

struct ConversationRow {
  int64_t line = 0;            // of the file; of an array or a table the number of the row; from 1
  nlohmann::ordered_json row;  // discarded: the line is no JSON in UTF-8
};

// kData: there is no such source, or nothing in it that holds rows.
std::vector<ConversationFile> conversation_files(const std::filesystem::path& source);

void read_rows(const ConversationFile& file, const std::function<void(ConversationRow)>& give);

}  // namespace longhaul::posttrain
