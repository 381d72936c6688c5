#include "data/tokenizer/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/text/utf8.h"
#include "data/corpus/corpus_texts.h"
#include "data/tokenizer/stream_encoder.h"

namespace longhaul::data {

namespace {

constexpr size_t kTextBytes = 1 << 20;

}  // namespace

TrainReport train_tokenizer_on_paths(const std::vector<std::string>& paths, const std::string& jsonl_field,
                                     const std::filesystem::path& out, const TrainOptions& options) {
  const Stopwatch watch;
  TrainReport report;
  const Corpus corpus = Corpus::open({.sources = paths,
                                      .source = {.jsonl_field = jsonl_field},
                                      .held_out_percent = 0,
                                      .remove_copies = false});
  for (const Source& source : corpus.sources()) report.files += static_cast<int64_t>(source.files().size());
  CorpusTexts texts(corpus, Split::kTrain);  // reads ahead, with bounded memory whatever the files' size
  const Tokenizer tokenizer = train_bpe(
      [&](std::string& text) {
        if (!texts.next(text)) return false;
        report.bytes += static_cast<int64_t>(text.size());
        return true;
      },
      options);
  tokenizer.save(out);
  report.vocabulary = tokenizer.vocabulary();
  report.seconds = watch.seconds();
  return report;
}

void write_encoded_files(const Tokenizer& tokenizer, const std::vector<std::filesystem::path>& files,
                         bool json, bool add_special, const Write& write) {
  std::vector<char> buffer(kTextBytes);
  std::vector<int32_t> ids;
  for (const std::filesystem::path& path : files) {
    const File file = File::open(path, File::Mode::kRead);
    StreamEncoder encoder(tokenizer, add_special);
    if (json) {
      const std::string name =
          nlohmann::json(path.string()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      write(fmt::format("{{\"file\":{},\"ids\":[", name));
    }
    std::string_view separator = "";
    const auto flush = [&] {
      std::string text;
      for (const int32_t id : ids) {
        text += separator;
        fmt::format_to(std::back_inserter(text), "{}", id);
        separator = json ? "," : " ";
      }
      write(text);
      ids.clear();
    };
    for (int64_t offset = 0;;) {
      const size_t read = file.read_some(offset, std::as_writable_bytes(std::span(buffer)));
      if (read == 0) break;
      offset += static_cast<int64_t>(read);
      encoder.feed({buffer.data(), read}, ids);
      flush();
    }
    encoder.finish(ids);
    flush();
    write(json ? "]}\n" : "\n");
  }
}

std::vector<int32_t> read_ids(std::string_view text, const std::string& where) {
  const auto refuse = [&](std::string found) {
    throw Error({.code = ExitCode::kData,
                 .what = "cannot read token ids",
                 .expected = "a JSON array, an object with \"ids\", or numbers",
                 .found = std::move(found),
                 .where = where});
  };
  std::vector<int32_t> ids;
  text = without_byte_order_mark(text);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return ids;
  if (text[first] == '[' || text[first] == '{') {
    const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
    if (parsed.is_discarded()) refuse("text that is not JSON");
    if (parsed.is_object() && !parsed.contains("ids")) refuse("an object without \"ids\"");
    const nlohmann::json& given = parsed.is_object() ? parsed["ids"] : parsed;
    if (!given.is_array()) refuse(given.type_name());
    const bool rows = !given.empty() &&
                      std::ranges::all_of(given, [](const nlohmann::json& row) { return row.is_array(); });
    if (rows && given.size() > 1)
      refuse(fmt::format("{} lists in a list: a batch of several texts", given.size()));
    const nlohmann::json& list = rows ? given.front() : given;
    for (const nlohmann::json& id : list) {
      if (!id.is_number_integer() || id < 0 || id > (1 << 24)) refuse(id.dump());
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }
  for (size_t at = first; at < text.size();) {
    int32_t id = 0;
    const auto [stop, problem] = std::from_chars(text.data() + at, text.data() + text.size(), id);
    const size_t end = static_cast<size_t>(stop - text.data());
    if (problem != std::errc{} ||
        (end < text.size() && std::string_view(" \t\r\n,").find(text[end]) == std::string_view::npos)) {
      refuse(fmt::format("\"{}\" at byte {}", text.substr(at, 20), at));
    }
    ids.push_back(id);
    at = text.find_first_not_of(" \t\r\n,", end);
  }
  return ids;
}

Tokenizer open_tokenizer(const std::string& name) {
  return name == "bytes" ? Tokenizer::bytes() : Tokenizer::load(name);
}

}  // namespace longhaul::data
