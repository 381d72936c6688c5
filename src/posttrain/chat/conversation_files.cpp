#include "posttrain/chat/conversation_files.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "base/process/signals.h"
#include "base/text/path_text.h"
#include "data/corpus/byte_stream.h"
#include "data/corpus/corpus_folder.h"
#include "data/corpus/json_rows.h"
#include "data/corpus/table_file.h"

namespace longhaul::posttrain {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

namespace {

constexpr int64_t kMostLineBytes = 256 << 20;
constexpr size_t kReadOfRows = 1 << 20;

bool holds_rows(std::string_view name) {
  const std::string_view plain = data::without_compression(name);
  return data::is_table(name) ||
         std::ranges::any_of(std::array{".jsonl", ".ndjson", ".json"},
                             [&](const char* ending) { return data::ends_with_in_any_case(plain, ending); });
}

ConversationFile described(const fs::path& path, std::string name) {
  const auto modified =
      std::chrono::duration_cast<std::chrono::nanoseconds>(fs::last_write_time(path).time_since_epoch());
  return {path, std::move(name), static_cast<int64_t>(fs::file_size(path)), modified.count()};
}

[[noreturn]] void refuse_source(const fs::path& source, const std::string& found) {
  throw Error(
      {.code = ExitCode::kData,
       .what = "there are no conversations to learn from",
       .expected =
           "a file of JSON Lines, a JSON array, or a Parquet or Arrow table; or a folder of such files",
       .found = found,
       .where = text_of_path(source),
       .hint = "data.source=conversations.jsonl; docs/guides/fine-tuning.md lists the forms"});
}

// A folder that `datasets` saved holds .json files that describe it.
bool describes_data_set(const std::string& name) {
  const std::string last = fs::path(name).filename().string();
  return last == "dataset_info.json" || last == "dataset_infos.json" || last == "state.json" ||
         last == "dataset_dict.json";
}

void read_line(std::string_view line, int64_t number, const std::function<void(ConversationRow)>& give) {
  if (std::ranges::all_of(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; })) return;
  give({number, ordered_json::parse(line, nullptr, false)});
}

void read_lines(data::ByteStream& stream, const fs::path& path,
                const std::function<void(ConversationRow)>& give) {
  std::vector<char> buffer(kReadOfRows);
  std::string rest;
  int64_t number = 1;
  while (const size_t got = stream.read(buffer)) {
    throw_if_stop_requested("reading conversations");
    std::string_view fresh(buffer.data(), got);
    for (size_t end = fresh.find('\n'); end != std::string_view::npos; end = fresh.find('\n')) {
      rest += fresh.substr(0, end);
      fresh.remove_prefix(end + 1);
      read_line(rest, number++, give);
      rest.clear();
    }
    rest += fresh;
    if (static_cast<int64_t>(rest.size()) <= kMostLineBytes) continue;
    throw Error({.code = ExitCode::kData,
                 .what = "a row of conversations is too long",
                 .expected = fmt::format("lines of at most {} bytes", kMostLineBytes),
                 .found = "a longer one",
                 .where = fmt::format("{}:{}", path.string(), number),
                 .hint = "write one conversation a line"});
  }
  read_line(rest, number, give);
}

}  // namespace

std::vector<ConversationFile> conversation_files(const fs::path& source) {
  std::error_code problem;
  if (!fs::exists(source, problem))
    refuse_source(source, problem ? problem.message() : "no such file or folder");
  if (!fs::is_directory(source)) {
    const std::string name = source.filename().string();
    if (!holds_rows(name)) refuse_source(source, "a file of another kind");
    return {described(source, name)};
  }
  if (fs::exists(source / "dataset_dict.json")) {
    throw Error({.code = ExitCode::kData,
                 .what = "this folder holds several splits of a data set",
                 .expected = "one of them",
                 .found = "dataset_dict.json",
                 .where = text_of_path(source),
                 .hint = "data.source=" + text_of_path(source / "train")});
  }
  std::vector<ConversationFile> files;
  data::walk_corpus_folder(source, [&](const fs::path& path) {
    std::string name = path.lexically_relative(source).generic_string();
    if (holds_rows(name) && !describes_data_set(name)) files.push_back(described(path, std::move(name)));
    return true;
  });
  if (files.empty()) refuse_source(source, "no such file in the folder");
  std::ranges::sort(files, {}, &ConversationFile::name);
  return files;
}

void read_rows(const ConversationFile& file, const std::function<void(ConversationRow)>& give) {
  if (data::is_table(file.name)) {
    data::read_table_rows(file.path, [&](int64_t row, ordered_json&& fields) {
      give({row, std::move(fields)});
    });
    return;
  }
  auto stream = data::open_stream(file.path);
  // A folder's .json files may be of either kind; what is no array is read line by line.
  if (data::json_rows_of(file.path, "messages").kind == data::JsonRows::Kind::kArray)
    stream = data::lines_of_json_array(std::move(stream), file.path);
  read_lines(*stream, file.path, give);
}

}  // namespace longhaul::posttrain
