// The TOML part of loading: text → flat list of keys with their values and positions. It does not know the
// options. toml_guard.h checks every text before the parser.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "recipe/options/value.h"

namespace longhaul::recipe {

struct TomlEntry {
  std::string key;          // dotted
  Value value;              // unused for a section
  bool is_section = false;  // "[train]" itself; listed so that an unknown empty section is noticed
  int64_t line = 0, column = 0;
};

// In the order of the text. Throws kUsage with name:line:column when the text is not TOML.
std::vector<TomlEntry> read_toml(std::string_view text, const std::string& name);

// The value of an override as typed after "key=": TOML when it parses as one value; otherwise the text
// itself.
Value read_override_value(std::string_view typed);

}  // namespace longhaul::recipe
