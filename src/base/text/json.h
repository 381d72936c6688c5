// Strict JSON for files that others may have written. Nesting and string lengths are bounded, a key may occur
// once in an object, and values are read by name and type. Every failure is an Error that names the file and
// the place in it: "tokenizer.json:/pre_tokenizer/pretokenizers/1/type". JsonRules hold the texts of the
// Error for a kind of file; they must outlive the views.
//
//   const nlohmann::json root = parse_json(text, "manifest.json", kRules);
//   JsonFields fields({root, "manifest.json:", kRules});
//   const int64_t step = fields.integer("step", 0);
//   fields.finish();                                   // refuses fields that were not read
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace longhaul {

struct JsonRules {
  ExitCode code = ExitCode::kData;
  std::string_view what;  // "malformed tokenizer definition"
  std::string_view hint;  // what to do; empty: there is no hint
  size_t depth = 32;
  size_t string_bytes = 1 << 20;
};

nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonRules& rules);

// JsonView: a value together with its place in the file.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string where, const JsonRules& rules)
      : value_(&value), where_(std::move(where)), rules_(&rules) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }

  bool has(const std::string& key) const;     // true: it is there and not null
  JsonView at(const std::string& key) const;  // the object must have the key
  JsonView entry(const std::string& key, const nlohmann::json& of_it) const {
    return {of_it, where_ + "/" + key, *rules_};
  }
  JsonView at(size_t index) const;
  size_t array_size() const;  // of an array

  const std::string& string() const;
  bool boolean() const;
  bool boolean_or(const std::string& key, bool otherwise) const {
    return has(key) ? at(key).boolean() : otherwise;
  }
  double number() const;
  int64_t integer(int64_t least = std::numeric_limits<int64_t>::min(),
                  int64_t most = std::numeric_limits<int64_t>::max()) const;

  void require(bool good, std::string_view expected) const;
  [[noreturn]] void fail(std::string expected, std::string found) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
  const JsonRules* rules_;
};

// JsonFields: the fields of an object, each of which must be read exactly once.
class JsonFields {
 public:
  explicit JsonFields(JsonView object);
  std::string text(const char* key) { return take(key).string(); }
  int64_t integer(const char* key, int64_t lowest) { return take(key).integer(lowest); }
  std::vector<int64_t> integers(const char* key, size_t most);  // not negative, at most `most` of them
  const nlohmann::json& object(const char* key);
  const nlohmann::json& array(const char* key);
  void finish() const;

 private:
  JsonView take(const char* key);
  JsonView object_;
  size_t taken_ = 0;
};

}  // namespace longhaul
