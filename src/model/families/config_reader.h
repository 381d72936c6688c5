// ConfigReader: config.json of a public model, field by field. Whoever reads a field says what it may be;
// finish() refuses whatever nobody has asked for and is not known to leave the mathematics alone, so nothing
// that changes what a model computes is passed over. Errors are kData and name file, field, what was expected
// and what was found.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::model {

class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& config, std::string where);

  bool has(const std::string& key);                            // and it is not null
  bool says(const std::string& key) const;                     // or null
  int64_t integer(const std::string& key, int64_t least = 1);  // must be there
  int64_t integer_or(const std::string& key, int64_t otherwise, int64_t least = 1);
  double number_or(const std::string& key, double otherwise);
  bool flag_or(const std::string& key, bool otherwise);
  std::string text_or(const std::string& key, const std::string& otherwise);
  std::vector<std::string> texts(const std::string& key);
  std::vector<int64_t> integers(const std::string& key);
  const nlohmann::json* object(const std::string& key);  // null: not there
  const nlohmann::json* any(const std::string& key) { return find(key); }

  // A field with one supported value: missing (or null) is that value.
  void must_be(const std::string& key, const nlohmann::json& value, const std::string& why);
  void must_be_one_of(const std::string& key, const std::vector<std::string>& values,
                      const std::string& otherwise);
  // Fields that say nothing about what is computed for a given text (dropout, beginnings of training): told,
  // not read.
  void ignore(const std::string& key);

  [[noreturn]] void refuse(const std::string& key, const std::string& expected, const std::string& found,
                           const std::string& hint = "") const;
  void finish();
  const std::vector<std::string>& ignored() const { return ignored_; }
  const std::string& where() const { return where_; }
  ConfigReader inner(const std::string& key);  // of the object there

 private:
  const nlohmann::json* find(const std::string& key);
  [[noreturn]] void wrong_type(const std::string& key, const char* expected,
                               const nlohmann::json& found) const;

  const nlohmann::json& config_;
  std::string where_;
  std::set<std::string> read_;
  std::vector<std::string> ignored_;
};

}  // namespace longhaul::model
