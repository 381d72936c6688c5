// Value: a recipe value independent of any file format: bool, whole number, number, text, list, or table
// (keys in order). It is printed as TOML. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace longhaul::recipe {

class Value {
 public:
  using List = std::vector<Value>;
  using Table = std::vector<std::pair<std::string, Value>>;

  Value() : data_(std::string()) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(std::string value) : data_(std::move(value)) {}
  explicit Value(List value) : data_(std::move(value)) {}
  explicit Value(Table value) : data_(std::move(value)) {}
  template <class T>
  static Value list(const std::vector<T>& items) {
    List values;
    for (const T& item : items) values.emplace_back(item);
    return Value(std::move(values));
  }

  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(data_); }
  bool is_number() const { return std::holds_alternative<double>(data_); }
  bool is_text() const { return std::holds_alternative<std::string>(data_); }
  bool is_list() const { return std::holds_alternative<List>(data_); }
  bool is_table() const { return std::holds_alternative<Table>(data_); }
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_integer() const { return std::get<int64_t>(data_); }
  double as_number() const { return std::get<double>(data_); }
  const std::string& as_text() const { return std::get<std::string>(data_); }
  const List& as_list() const { return std::get<List>(data_); }
  const Table& as_table() const { return std::get<Table>(data_); }

  std::string toml() const;       // as written in a recipe; numbers read back to the same bits
  std::string described() const;  // "\"ten\" (text)", "3 (a whole number)"; long values are cut
  bool operator==(const Value&) const = default;

 private:
  std::variant<bool, int64_t, double, std::string, List, Table> data_;
};

}  // namespace longhaul::recipe
