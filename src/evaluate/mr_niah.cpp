#include "evaluate/mr_niah.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/text/text.h"
#include "evaluate/question_lines.h"

namespace longhaul::evaluate {
namespace {

namespace fs = std::filesystem;

// Conversations of a million tokens are some megabytes; a message is at most that.
constexpr JsonRules kConversationRules{.what = "unusable conversation",
                                       .hint = "docs/guides/evaluate.md has the format",
                                       .string_bytes = size_t{1} << 28};

constexpr std::array<std::string_view, 4> kPauses = {",", "，", ".", "。"};

// The length of a full stop or comma at a place of the text; 0: there is none.
size_t pause_at(std::string_view text, size_t at) {
  for (const std::string_view pause : kPauses) {
    if (text.substr(at).starts_with(pause)) return pause.size();
  }
  return 0;
}

std::string_view without_full_stop(std::string_view line) {
  for (const std::string_view stop : {".", "。"}) {
    if (line.ends_with(stop)) return line.substr(0, line.size() - stop.size());
  }
  return line;
}

// The text behind "12. ", or nothing where a line has no number.
std::string_view entry_of(std::string_view line) {
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  return digits > 0 && line.substr(digits).starts_with(". ") ? line.substr(digits + 2) : std::string_view();
}

bool has_chinese(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const Decoded next = decode_utf8(at, end);
    if (next.code >= 0x4E00 && next.code <= 0x9FFF) return true;
    at += next.length;
  }
  return false;
}

MrNiahItem item_of(const JsonView& line, size_t& at) {
  MrNiahItem item;
  item.label = line.at("label").string();
  line.at("label").require(!components_of(item.label).empty(), "a text with words");
  const JsonView messages = line.at("messages");
  const size_t count = messages.array_size();
  messages.require(count % 2 == 1, "turns of user and assistant, and a last question");
  at = count;
  for (size_t i = 0; i < count; ++i) {
    const JsonView message = messages.at(i);
    const std::string role = i % 2 == 0 ? "user" : "assistant";
    message.at("role").require(message.at("role").string() == role, role);
    item.messages.push_back({role, message.at("content").string()});
    if (i % 2 == 1 && at == count && item.messages.back().content == item.label) at = i;
  }
  line.at("label").require(at < count, "the text of one of the assistant's messages");
  item.length_class = line.at("length_class").integer(1, int64_t{1} << 40);
  return item;
}

void read_file(const fs::path& file, int64_t limit, std::vector<MrNiahItem>& items) {
  std::map<std::string, std::vector<std::pair<size_t, size_t>>> of_label;  // message, number of the item
  for (const QuestionLine& line : question_lines(file, limit)) {
    const nlohmann::json object = parse_json(line.text, line.where, kConversationRules);
    size_t message = 0;
    items.push_back(item_of(JsonView(object, line.where + ":", kConversationRules), message));
    items.back().where = line.where;
    of_label[items.back().label].emplace_back(message, items.size() - 1);
  }
  for (auto& [label, places] : of_label) {
    std::ranges::sort(places);
    int64_t place = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      if (i == 0 || places[i].first != places[i - 1].first) ++place;
      items[places[i].second].place = place;
    }
  }
}

}  // namespace

std::vector<MrNiahItem> read_mr_niah(const fs::path& path, int64_t limit) {
  std::vector<MrNiahItem> items;
  for (const fs::path& file : question_files(path, {".jsonl"})) read_file(file, limit, items);
  return items;
}

std::vector<std::string> components_of(std::string_view label) {
  const std::vector<std::string_view> lines = split(label, '\n');
  std::vector<std::string> parts;
  const auto add = [&](std::string_view part) {
    if (const std::string_view own = trimmed(part); !own.empty()) parts.emplace_back(own);
  };
  if (std::ranges::all_of(lines, [](std::string_view line) { return !entry_of(line).empty(); })) {
    for (const std::string_view line : lines) add(entry_of(line));
    return parts;
  }
  if (lines.size() > 1 && std::ranges::all_of(lines, [](std::string_view line) {
        return without_full_stop(line).size() < line.size();
      })) {
    for (const std::string_view line : lines) add(without_full_stop(line));
    return parts;
  }
  for (const std::string_view line : lines) {
    size_t begin = 0;
    for (size_t at = 0; at < line.size();) {
      const size_t pause = pause_at(line, at);
      if (pause > 0) {
        add(line.substr(begin, at - begin));
        begin = at + pause;
      }
      at += std::max<size_t>(1, pause);
    }
    add(line.substr(begin));
  }
  return parts;
}

double mr_niah_score(std::string_view said, std::string_view label) {
  const auto says = [&](std::string_view text, std::string_view words) {
    return text.find(words) != std::string_view::npos;
  };
  if (has_chinese(label)) {
    if (says(said, "抱歉") || says(said, "没有之前的对话")) return 0;
  } else {
    std::string small(said);
    for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (says(small, "sorry") || says(small, "no previous conversation")) return 0;
  }
  const std::vector<std::string> parts = components_of(label);
  const auto found = std::ranges::count_if(parts, [&](const std::string& part) { return says(said, part); });
  return static_cast<double>(found) / static_cast<double>(parts.size());
}

AskedText asked_of(const MrNiahItem& item, int64_t answer_tokens) {
  return {.turns = item.messages,
          .answer_tokens = answer_tokens,
          .score = [label = item.label](const std::string& said) { return mr_niah_score(said, label); },
          .where = item.where};
}

}  // namespace longhaul::evaluate
