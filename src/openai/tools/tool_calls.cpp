#include "openai/tools/tool_calls.h"

#include <algorithm>
#include <optional>

#include "base/text/text.h"

namespace longhaul::openai {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBlank = " \t\r\n", kPythonTag = "<|python_tag|>", kArguments = "[ARGS]";

// A call of {"name": …, "arguments" or "parameters": {…}}.
std::optional<ToolCall> call_of(const ordered_json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  for (const char* name : {"arguments", "parameters"}) {
    if (!json.contains(name)) continue;
    if (json[name].is_object()) return ToolCall{json["name"].get<std::string>(), json[name].dump()};
    // Some models write the arguments as a text that holds JSON.
    if (!json[name].is_string()) return std::nullopt;
    const auto& text = json[name].get_ref<const std::string&>();
    if (!ordered_json::parse(text, nullptr, false).is_object()) return std::nullopt;
    return ToolCall{json["name"].get<std::string>(), text};
  }
  return std::nullopt;
}

ordered_json json_of(std::string_view text) { return ordered_json::parse(text, nullptr, false); }

// Of one object or a list of them; none where a part of it is no call.
std::vector<ToolCall> calls_of(const ordered_json& json) {
  std::vector<ToolCall> calls;
  for (const ordered_json& each : json.is_array() ? json : ordered_json::array({json})) {
    const std::optional<ToolCall> call = call_of(each);
    if (!call) return {};
    calls.push_back(*call);
  }
  return calls;
}

// name[ARGS]{…}, as newer Mistral models write it.
std::vector<ToolCall> named_calls(std::string_view text) {
  const size_t cut = text.find(kArguments);
  if (cut == std::string_view::npos) return {};
  const std::string_view name = trimmed(text.substr(0, cut)), rest = text.substr(cut + kArguments.size());
  if (name.empty() || !json_of(rest).is_object()) return {};
  return {{std::string(name), std::string(trimmed(rest))}};
}

// How much at the end of the text may be the beginning of the mark.
size_t may_begin(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
    if (text.ends_with(mark.substr(0, length))) return length;
  }
  return 0;
}

// With the white space before the last `kept` bytes: it belongs to a call if one follows.
size_t with_blanks(std::string_view text, size_t kept) {
  while (kept < text.size() && kBlank.find(text[text.size() - kept - 1]) != std::string_view::npos) ++kept;
  return kept;
}

}  // namespace

void ToolCallReader::say_all_but(Part& into, size_t kept) {
  say(into, held_.substr(0, held_.size() - kept));
  held_.erase(0, held_.size() - kept);
}

void ToolCallReader::say(Part& into, std::string text) {
  // White space around calls belongs to their form.
  if (trimmed(text).empty() && (!begun_ || told_ > 0)) return;
  begun_ = true;
  into.text += text;
}

// true: a whole call or what stands for one was taken, and another may follow.
bool ToolCallReader::take_tagged(Part& into, bool is_end) {
  const size_t begin = held_.find(kCallBegins);
  if (begin == std::string::npos) {
    say_all_but(into, is_end ? 0 : with_blanks(held_, may_begin(held_, kCallBegins)));
    return false;
  }
  const size_t inside = begin + kCallBegins.size(), end = held_.find(kCallEnds, inside);
  if (end == std::string::npos && !is_end) return false;
  // A text that ends within a call may hold a whole one: the end token stood in for the closing tag.
  const size_t stop = end == std::string::npos ? held_.size() : end;
  const std::vector<ToolCall> calls =
      calls_of(json_of(std::string_view(held_).substr(inside, stop - inside)));
  const size_t after = end == std::string::npos ? held_.size() : end + kCallEnds.size();
  if (calls.empty()) {
    say(into, held_.substr(0, after));
  } else {
    const std::string_view before = std::string_view(held_).substr(0, begin);
    say(into, std::string(before.substr(0, before.find_last_not_of(kBlank) + 1)));
    into.calls.insert(into.calls.end(), calls.begin(), calls.end());
    told_ += calls.size();
  }
  held_.erase(0, after);
  return true;
}

// The forms whose call is all of the text that is left.
void ToolCallReader::take_rest(Part& into) {
  std::string_view text = trimmed(held_);
  const size_t mark = form_ == ToolForm::kListed ? text.find(kListBegins) : 0;
  std::vector<ToolCall> calls;
  if (form_ == ToolForm::kListed && mark != std::string_view::npos) {
    const std::string_view list = text.substr(mark + kListBegins.size());
    calls = calls_of(json_of(list));
    if (calls.empty()) calls = named_calls(list);
  } else if (form_ == ToolForm::kBare) {
    if (text.starts_with(kPythonTag)) text.remove_prefix(kPythonTag.size());
    calls = calls_of(json_of(text));
  }
  if (calls.empty()) {
    say(into, held_);
  } else {
    if (form_ == ToolForm::kListed) say(into, std::string(trimmed(text.substr(0, mark))));
    told_ += calls.size();
    into.calls = std::move(calls);
  }
  held_.clear();
}

void ToolCallReader::take(Part& into, bool is_end) {
  switch (form_) {
    case ToolForm::kNone:
      into.text += held_;
      held_.clear();
      return;
    case ToolForm::kTagged:
      while (take_tagged(into, is_end)) {
      }
      return;
    case ToolForm::kListed:
    case ToolForm::kBare:
      if (is_end) return take_rest(into);
      break;
  }
  // Text goes out as it comes where it cannot be a call.
  size_t kept = 0;
  if (form_ == ToolForm::kListed) {
    const size_t mark = held_.find(kListBegins);
    kept = mark == std::string::npos ? may_begin(held_, kListBegins) : held_.size() - mark;
  } else if (!begun_) {
    const std::string_view text = trimmed(held_);
    const bool may_be = text.empty() || text.front() == '{' || text.front() == '[' ||
                        text.starts_with(kPythonTag) || kPythonTag.starts_with(text);
    kept = may_be ? held_.size() : 0;
  }
  say_all_but(into, with_blanks(held_, kept));
}

ToolCallReader::Part ToolCallReader::add(const std::string& text) {
  held_ += text;
  Part part;
  take(part, false);
  return part;
}

ToolCallReader::Part ToolCallReader::end() {
  Part part;
  take(part, true);
  return part;
}

}  // namespace longhaul::openai
