// Strict JSON: what a file that others may have written is allowed to be. Nesting and string lengths are bounded, a key may stand once in an
// object, and what is read is asked for by name and type. Every complaint is an Error that names the file and the place in it:
// "tokenizer.json:/pre_tokenizer/pretokenizers/1/type". The rules of a kind of file say what the Error tells of it; they outlive the views.
//
//   const nlohmann::json root = parse_json(text, "manifest.json", kRules);
//   JsonFields fields({root, "manifest.json:", kRules});
//   const int64_t step = fields.integer("step", 0);
//   fields.finish();                                   // refuses what nobody asked for
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
  std::string_view hint;  // what to do; empty: nothing to say
  size_t depth = 32;
  size_t string_bytes = 1 << 20;
};

nlohmann::json parse_json(std::string_view text, const std::string& where, const JsonRules& rules);

// A value that knows where it stands.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string where, const JsonRules& rules)
      : value_(&value), where_(std::move(where)), rules_(&rules) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  bool is_string() const { return value_->is_string(); }

  bool has(const std::string& key) const;     // and it is not null
  JsonView at(const std::string& key) const;  // of an object that has it
  JsonView entry(const std::string& key, const nlohmann::json& of_it) const { return {of_it, where_ + "/" + key, *rules_}; }
  JsonView at(size_t index) const;
  size_t array_size() const;  // of an array

  const std::string& string() const;
  bool boolean() const;
  bool boolean_or(const std::string& key, bool otherwise) const { return has(key) ? at(key).boolean() : otherwise; }
  double number() const;
  int64_t integer(int64_t least = std::numeric_limits<int64_t>::min(), int64_t most = std::numeric_limits<int64_t>::max()) const;

  void require(bool good, std::string_view expected) const;
  [[noreturn]] void fail(std::string expected, std::string found) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
  const JsonRules* rules_;
};

// The fields of an object of which nothing may be left over, each taken once.
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
