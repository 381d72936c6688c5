#include "base/text/json.h"

#include "base/text/text.h"

namespace longhaul {
namespace {

using nlohmann::json;

[[noreturn]] void malformed_json(const JsonRules& rules, const std::string& where, std::string expected,
                                 std::string found) {
  throw Error({.code = rules.code,
               .what = std::string(rules.what),
               .expected = std::move(expected),
               .found = std::move(found),
               .where = where,
               .hint = std::string(rules.hint)});
}

// Checks every part as soon as it is read, before the part that contains it continues.
class JsonWatch {
 public:
  JsonWatch(const std::string& where, const JsonRules& rules) : where_(where), rules_(rules) {}

  bool see(json::parse_event_t event, const json& part) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (keys_.size() >= rules_.depth)
          refuse(fmt::format("JSON nested in at most {} levels", rules_.depth), "more");
        keys_.push_back(0);
        break;
      case json::parse_event_t::object_end:
        // The library keeps one value of each key.
        if (part.size() != keys_.back())
          refuse("each key once", fmt::format("a key twice in an object of {} keys", part.size()));
        keys_.pop_back();
        break;
      case json::parse_event_t::array_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        ++keys_.back();
        check_length(part);
        break;
      case json::parse_event_t::value:
        if (part.is_string()) check_length(part);
    }
    return true;
  }

 private:
  [[noreturn]] void refuse(std::string expected, std::string found) const {
    malformed_json(rules_, where_, std::move(expected), std::move(found));
  }
  void check_length(const json& part) const {
    const size_t bytes = part.get_ref<const std::string&>().size();
    if (bytes > rules_.string_bytes)
      refuse(fmt::format("strings of at most {} bytes", rules_.string_bytes),
             fmt::format("one too long: {} bytes", bytes));
  }

  const std::string& where_;
  const JsonRules& rules_;
  std::vector<size_t> keys_;  // keys read so far, for each open object and array
};

}  // namespace

json parse_json(std::string_view text, const std::string& where, const JsonRules& rules) {
  // The JSON library takes a NUL for the end of the text.
  if (text.find('\0') != std::string_view::npos) malformed_json(rules, where, "JSON in UTF-8", "a NUL byte");
  JsonWatch watch(where, rules);
  try {
    return json::parse(text.begin(), text.end(),
                       [&](int, json::parse_event_t event, json& part) { return watch.see(event, part); });
  } catch (const json::exception& problem) {
    malformed_json(rules, where, "JSON in UTF-8", brief(problem.what(), 200));
  }
}

bool JsonView::has(const std::string& key) const {
  const auto found = value_->is_object() ? value_->find(key) : value_->end();
  return found != value_->end() && !found->is_null();
}

JsonView JsonView::at(const std::string& key) const {
  require(value_->is_object(), "an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("the field \"{}\"", key), "no such field");
  return entry(key, *found);
}

JsonView JsonView::at(size_t index) const {
  return {(*value_)[index], fmt::format("{}/{}", where_, index), *rules_};
}

size_t JsonView::array_size() const {
  require(value_->is_array(), "an array");
  return value_->size();
}

const std::string& JsonView::string() const {
  require(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  require(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

double JsonView::number() const {
  require(value_->is_number(), "a number");
  return value_->get<double>();
}

int64_t JsonView::integer(int64_t least, int64_t most) const {
  constexpr auto kLargest = std::numeric_limits<int64_t>::max(),
                 kSmallest = std::numeric_limits<int64_t>::min();
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || value_->get<uint64_t>() <= static_cast<uint64_t>(kLargest));
  require(fits && value_->get<int64_t>() >= least && value_->get<int64_t>() <= most,
          fmt::format("a whole number{}{}", least == kSmallest ? "" : fmt::format(" from {}", least),
                      most == kLargest ? "" : fmt::format(" to {}", most)));
  return value_->get<int64_t>();
}

void JsonView::require(bool good, std::string_view expected) const {
  if (good) return;
  const std::string text = value_->dump(-1, ' ', false, json::error_handler_t::replace);
  fail(std::string(expected), fmt::format("{} {}", value_->type_name(), brief(text, 60)));
}

void JsonView::fail(std::string expected, std::string found) const {
  malformed_json(*rules_, where_, std::move(expected), std::move(found));
}

JsonFields::JsonFields(JsonView object) : object_(std::move(object)) {
  object_.require(object_.value().is_object(), "an object");
}

JsonView JsonFields::take(const char* key) {
  JsonView field = object_.at(key);
  ++taken_;
  return field;
}

std::vector<int64_t> JsonFields::integers(const char* key, size_t most) {
  const JsonView list = take(key);
  const size_t count = list.array_size();
  if (count > most) list.fail(fmt::format("at most {} numbers", most), fmt::format("{}", count));
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < count; ++i) numbers.push_back(list.at(i).integer(0));
  return numbers;
}

const json& JsonFields::object(const char* key) {
  const JsonView field = take(key);
  field.require(field.value().is_object(), "an object");
  return field.value();
}

const json& JsonFields::array(const char* key) {
  const JsonView field = take(key);
  field.require(field.value().is_array(), "an array");
  return field.value();
}

void JsonFields::finish() const {
  if (taken_ == object_.value().size()) return;
  object_.fail(fmt::format("{} fields: this version knows no others", taken_),
               fmt::format("{}", object_.value().size()));
}

}  // namespace longhaul
