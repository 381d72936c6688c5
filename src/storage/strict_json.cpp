#include "storage/strict_json.h"

#include <limits>
#include <unordered_set>

#include "base/text.h"
#include "storage/safetensors.h"

namespace longhaul::storage {

namespace {

using nlohmann::json;

[[noreturn]] void malformed(const std::string& where, const std::string& what, const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kCheckpoint,
               .what = what,
               .expected = expected,
               .found = found,
               .where = where,
               .hint = "the file is damaged or not ours; " + program_command("checkpoint verify") + " tells which checkpoints are whole"});
}

// A first pass that builds nothing: depth, lengths and repeated keys.
class StrictEvents : public JsonEventTypes {
 public:
  StrictEvents(const std::string& where, const JsonLimits& limits) : where_(where), limits_(limits) {}
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(number_integer_t) { return true; }
  bool number_unsigned(number_unsigned_t) { return true; }
  bool number_float(number_float_t, const string_t&) { return true; }
  bool binary(binary_t&) { return false; }
  bool string(string_t& value) { return check_length(value); }
  bool start_object(std::size_t) { return enter(); }
  bool start_array(std::size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(string_t& name) {
    check_length(name);
    if (!keys_.back().insert(name).second) malformed(where_, "a key occurs twice", "each key once", printable(name));
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    malformed(where_, "not valid JSON", "JSON in UTF-8", fmt::format("an error at byte {}: {}", position, printable(error.what(), 200)));
  }

 private:
  bool check_length(const std::string& text) {
    if (text.size() > limits_.string_bytes) {
      malformed(where_, "a string is too long", fmt::format("at most {} bytes", limits_.string_bytes),
                fmt::format("{} bytes", text.size()));
    }
    return true;
  }
  bool enter() {
    if (keys_.size() >= limits_.depth) {
      malformed(where_, "the JSON is nested too deeply", fmt::format("at most {} levels", limits_.depth), "more");
    }
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  const std::string& where_;
  const JsonLimits& limits_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& where, const JsonLimits& limits) {
  // The JSON library takes a NUL for the end of the text.
  if (text.find('\0') != std::string_view::npos) malformed(where, "not valid JSON", "JSON in UTF-8", "a NUL byte");
  StrictEvents events(where, limits);
  json::sax_parse(text.begin(), text.end(), &events);
  return json::parse(text.begin(), text.end());
}

JsonFields::JsonFields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) refuse("not a JSON object", "an object", object.type_name());
}

const json& JsonFields::take(const char* key) {
  const auto found = object_.find(key);
  if (found == object_.end()) refuse("a field is missing", key, "no such field");
  ++taken_;
  return *found;
}

std::string JsonFields::text(const char* key) {
  const json& value = take(key);
  if (!value.is_string()) refuse(fmt::format("'{}' has the wrong type", key), "a string", value.type_name());
  return value.get<std::string>();
}

int64_t JsonFields::integer(const char* key, int64_t lowest) {
  const json& value = take(key);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits || value.get<int64_t>() < lowest) {
    refuse(fmt::format("'{}' is out of range", key), fmt::format("a whole number from {}", lowest), printable(value.dump()));
  }
  return value.get<int64_t>();
}

std::vector<int64_t> JsonFields::integers(const char* key, size_t most) {
  const json& values = array(key);
  if (values.size() > most) {
    refuse(fmt::format("'{}' is too long", key), fmt::format("at most {} numbers", most), fmt::format("{}", values.size()));
  }
  std::vector<int64_t> result;
  for (const json& value : values) {
    const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!fits) refuse(fmt::format("'{}' is malformed", key), "whole numbers that are not negative", printable(value.dump()));
    result.push_back(value.get<int64_t>());
  }
  return result;
}

const json& JsonFields::object(const char* key) {
  const json& value = take(key);
  if (!value.is_object()) refuse(fmt::format("'{}' has the wrong type", key), "an object", value.type_name());
  return value;
}

const json& JsonFields::array(const char* key) {
  const json& value = take(key);
  if (!value.is_array()) refuse(fmt::format("'{}' has the wrong type", key), "an array", value.type_name());
  return value;
}

void JsonFields::finish() const {
  if (taken_ != object_.size()) {
    refuse("there are fields this version does not know", fmt::format("{} fields", taken_), fmt::format("{}", object_.size()));
  }
}

void JsonFields::refuse(const std::string& what, const std::string& expected, const std::string& found) const {
  malformed(where_, what, expected, found);
}

}  // namespace longhaul::storage
