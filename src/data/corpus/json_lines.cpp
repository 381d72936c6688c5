#include "data/corpus/json_lines.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"

namespace longhaul::data {
namespace {

constexpr size_t kJsonChunkBytes = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string expected_row(const JsonLinesOptions& options) {
  if (options.loss_on == recipe::LossOn::kCompletion)
    return "a JSON object with the strings \"prompt\" and \"completion\"";
  if (options.loss_on == recipe::LossOn::kParts)
    return fmt::format(
        "a JSON object with a list \"{}\" of {{\"text\": \"…\", \"loss\": true, false or a weight}}, or with "
        "a string",
        options.field);
  return fmt::format("a JSON object with a string \"{}\"", options.field);
}

struct DocumentPart {
  std::string_view text;
  float weight = 1;
};
struct DocumentParts {
  std::vector<DocumentPart> parts;
  std::string bad;  // why the row is none; empty: it is good
};

// {"text": …, "loss": …}; what else it has does not matter.
std::string part_of(const simdjson::dom::element& element, DocumentPart& part) {
  simdjson::dom::object object;
  if (element.get(object) != simdjson::SUCCESS) return "a part that is no object";
  if (object["text"].get(part.text) != simdjson::SUCCESS) return "a part without a string \"text\"";
  simdjson::dom::element loss;
  if (object["loss"].get(loss) != simdjson::SUCCESS) return "";
  bool counts = true;
  double weight = 1;
  if (loss.get(counts) == simdjson::SUCCESS) {
    part.weight = counts ? 1 : 0;
  } else if (loss.get(weight) == simdjson::SUCCESS && weight >= 0 &&
             std::isfinite(static_cast<float>(weight))) {
    part.weight = static_cast<float>(weight);
  } else {
    return "a part whose \"loss\" is neither true, false nor a number of 0 or more";
  }
  return "";
}

// The texts live as long as what the parser read last.
DocumentParts parts_of_row(simdjson::dom::parser& parser, const std::string& line,
                           const JsonLinesOptions& options) {
  simdjson::dom::object row;
  if (const auto error = parser.parse(line.data(), line.size(), false).get(row))
    return {{}, simdjson::error_message(error)};
  if (options.loss_on == recipe::LossOn::kCompletion) {
    DocumentPart prompt{.weight = 0}, completion;
    if (row["prompt"].get(prompt.text) != simdjson::SUCCESS) return {{}, "no string \"prompt\""};
    if (row["completion"].get(completion.text) != simdjson::SUCCESS) return {{}, "no string \"completion\""};
    return {{prompt, completion}, ""};
  }
  DocumentPart whole;
  if (row[options.field].get(whole.text) == simdjson::SUCCESS) return {{whole}, ""};
  simdjson::dom::array list;
  if (row[options.field].get(list) != simdjson::SUCCESS)
    return {{}, fmt::format("no list \"{}\"", options.field)};
  DocumentParts result;
  for (const simdjson::dom::element element : list) {
    result.bad = part_of(element, result.parts.emplace_back());
    if (!result.bad.empty()) break;
  }
  return result;
}

class LineReader {
 public:
  LineReader(const JsonLinesOptions& options, DocumentSink& sink) : options_(options), sink_(sink) {}

  void piece(std::string_view bytes) {
    if (number_ <= options_.after_line || given_up_) return;
    const bool parts = options_.loss_on != recipe::LossOn::kAll;
    if (!scanner_ &&
        line_.size() + bytes.size() <= (parts ? options_.parts_limit_bytes : options_.simdjson_limit_bytes)) {
      line_ += bytes;
      return;
    }
    if (parts) {
      given_up_ = true;
      return bad(fmt::format("a line of more than {} bytes", options_.parts_limit_bytes));
    }
    if (!scanner_) {
      open_scanner();
      scan(line_);
      line_.clear();
      line_.shrink_to_fit();
    }
    if (!given_up_) scan(bytes);
  }

  void end_of_line() {
    if (number_ > options_.after_line && !given_up_) {
      if (!scanner_) {
        short_line();
      } else if (!scanner_->finish()) {
        bad(scanner_->reason());
      } else if (values_ > 1) {
        bad(fmt::format("\"{}\" twice in a line of more than {} bytes", options_.field,
                        options_.simdjson_limit_bytes));
      } else if (wanted_) {
        sink_.end();
      }
    }
    scanner_.reset();
    given_up_ = false;
    line_.clear();
    ++number_;
  }

 private:
  DocumentInfo document() const {
    return {options_.file, number_, fmt::format("{}:{}", options_.name, number_)};
  }

  void open_scanner() {
    values_ = 0;
    wanted_ = false;
    scanner_ = std::make_unique<JsonTextScanner>(
        options_.field,
        [this] {
          if (++values_ == 1) wanted_ = sink_.begin(document());
        },
        [this](std::string_view text) {
          if (wanted_ && values_ == 1) sink_.text(text);
        });
  }

  void scan(std::string_view bytes) {
    if (scanner_->feed(bytes)) return;
    bad(scanner_->reason());
    given_up_ = true;
  }

  void bad(const std::string& reason) const {
    const std::string where = fmt::format("{}:{}", options_.path, number_);
    if (options_.skip_bad_lines) return sink_.bad_line(document(), where, reason);
    throw Error({.code = ExitCode::kData,
                 .what = "bad line in a JSON Lines file",
                 .expected = expected_row(options_),
                 .found = reason,
                 .where = where,
                 .hint = "mend the line, name the right key (data.jsonl_field in a recipe, --jsonl-field "
                         "elsewhere), or leave such lines out "
                         "with data.skip_bad_lines=true"});
  }

  void deliver(std::string_view text) {
    if (!sink_.begin(document())) return;
    if (!text.empty()) sink_.text(text);
    sink_.end();
  }

  void short_line() {
    if (number_ == 1 && line_.starts_with(kByteOrderMark)) line_.erase(0, kByteOrderMark.size());
    if (line_.find_first_not_of(" \t\r") == std::string::npos) return;
    line_.reserve(line_.size() + simdjson::SIMDJSON_PADDING);
    if (options_.loss_on != recipe::LossOn::kAll) return line_of_parts();
    simdjson::dom::object object;
    if (parser_.parse(line_.data(), line_.size(), false).get(object) == simdjson::SUCCESS) {
      std::string_view text;
      bool found = false;
      for (const auto [key, value] : object) {
        if (key == options_.field) found = value.get(text) == simdjson::SUCCESS;
      }
      if (found) return deliver(text);
    }
    // The scanner decides: it keeps bad UTF-8 and it can say what is wrong.
    std::string decoded;
    JsonTextScanner scanner(
        options_.field, [&] { decoded.clear(); },
        [&](std::string_view piece_of_text) { decoded += piece_of_text; });
    if (scanner.feed(line_) && scanner.finish()) {
      deliver(decoded);
    } else {
      bad(scanner.reason());
    }
  }

  void line_of_parts() {
    const DocumentParts document_parts = parts_of_row(parser_, line_, options_);
    if (!document_parts.bad.empty()) return bad(document_parts.bad);
    if (!sink_.begin(document())) return;
    for (const DocumentPart& part : document_parts.parts) {
      if (part.text.empty()) continue;
      sink_.weight(part.weight);
      sink_.text(part.text);
    }
    sink_.end();
  }

  const JsonLinesOptions& options_;
  DocumentSink& sink_;
  simdjson::dom::parser parser_;
  std::unique_ptr<JsonTextScanner> scanner_;  // of a line beyond the limit
  std::string line_;
  int values_ = 0;         // of the field, in the line being scanned
  bool wanted_ = false;    // … and the sink wants it
  bool given_up_ = false;  // the rest of the line is passed over
  int64_t number_ = 1;
};

// JSON is UTF-8. In UTF-16 every other byte of ASCII text is 0, whether it begins with a byte order mark or
// not.
void refuse_other_encodings(std::string_view head, const std::string& path) {
  using namespace std::string_view_literals;
  std::string found;
  if (head.starts_with("\xff\xfe\0\0"sv) || head.starts_with("\0\0\xfe\xff"sv)) found = "UTF-32";
  if (found.empty() && (head.starts_with("\xff\xfe"sv) || head.starts_with("\xfe\xff"sv))) found = "UTF-16";
  if (found.empty() && (head.starts_with("{\0"sv) || head.starts_with("\0{"sv)))
    found = "UTF-16, without a byte order mark";
  if (found.empty()) return;
  throw Error({.code = ExitCode::kData,
               .what = "a JSON Lines file has another encoding than JSON's",
               .expected = "UTF-8",
               .found = found,
               .where = path,
               .hint = "iconv -f UTF-16 -t UTF-8 FILE > NEW makes one that can be read"});
}

}  // namespace

void read_json_lines(ByteStream& stream, const JsonLinesOptions& options, DocumentSink& sink,
                     const std::function<void()>& advance) {
  LineReader reader(options, sink);
  std::vector<char> buffer(kJsonChunkBytes);
  bool inside_line = false;
  bool first = true;
  while (const size_t got = stream.read(buffer)) {
    std::string_view rest(buffer.data(), got);
    if (std::exchange(first, false)) refuse_other_encodings(rest, options.path);
    while (!rest.empty()) {
      const size_t newline = rest.find('\n');
      reader.piece(rest.substr(0, newline));
      inside_line = newline == std::string_view::npos;
      if (inside_line) break;
      reader.end_of_line();
      rest.remove_prefix(newline + 1);
    }
    advance();
  }
  if (inside_line) reader.end_of_line();  // no final newline
}

}  // namespace longhaul::data
