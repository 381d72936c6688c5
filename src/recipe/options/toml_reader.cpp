#include "recipe/options/toml_reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "recipe/options/toml_guard.h"

namespace longhaul::recipe {

namespace {

template <class T>
std::string printed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

Value value_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return Value(node.as_boolean()->get());
    case toml::node_type::integer:
      return Value(static_cast<int64_t>(node.as_integer()->get()));
    case toml::node_type::floating_point:
      return Value(node.as_floating_point()->get());
    case toml::node_type::date:
      return Value(printed(node.as_date()->get()));
    case toml::node_type::time:
      return Value(printed(node.as_time()->get()));
    case toml::node_type::date_time:
      return Value(printed(node.as_date_time()->get()));
    case toml::node_type::array: {
      Value::List items;
      for (const toml::node& item : *node.as_array()) items.push_back(value_of(item));
      return Value(std::move(items));
    }
    case toml::node_type::table: {
      std::vector<std::pair<toml::source_position, std::pair<std::string, Value>>> sorted;
      for (const auto& [key, item] : *node.as_table()) {
        sorted.emplace_back(item.source().begin, std::pair(std::string(key.str()), value_of(item)));
      }
      std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) { return a.first < b.first; });
      Value::Table table;
      for (auto& [position, entry] : sorted) table.push_back(std::move(entry));
      return Value(std::move(table));
    }
    default:
      return Value(std::string(node.as_string()->get()));
  }
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<TomlEntry>& out) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const toml::source_position at = key.source().begin;
    TomlEntry entry{.key = name, .value = {}, .line = at.line, .column = at.column};
    entry.is_section = node.is_table();
    if (!entry.is_section) entry.value = value_of(node);
    out.push_back(std::move(entry));
    if (node.is_table()) flatten(*node.as_table(), name, out);
  }
}

}  // namespace

std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name) {
  guard_toml(text, name);
  try {
    const toml::table table = toml::parse(text, name);
    std::vector<TomlEntry> entries;
    flatten(table, "", entries);
    std::ranges::stable_sort(entries, [](const TomlEntry& a, const TomlEntry& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    return entries;
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    refuse_toml(name, at.line, at.column, error.description());
  }
}

Value read_override_value(std::string_view typed) {
  const std::string line = "value = " + std::string(typed);
  try {
    guard_toml(line, "");
    const toml::table table = toml::parse(line);
    const toml::node* node = table.get("value");
    // A line break or a comment in the typed text would end the value early: then it is plain text.
    if (table.size() == 1 && node && typed.find_first_of("\n#") == std::string_view::npos)
      return value_of(*node);
    if (table.size() == 1 && node && (node->is_array() || node->is_string()) &&
        typed.find('\n') == std::string_view::npos)
      return value_of(*node);
  } catch (const toml::parse_error&) {
  } catch (const Error&) {  // not TOML according to the guard
  }
  return Value(std::string(typed));
}

}  // namespace longhaul::recipe
