#include "recipe/options/option.h"

#include <algorithm>
#include <cmath>

#include "base/text/number.h"
#include "base/text/text.h"
#include "base/text/utf8.h"

namespace longhaul::recipe {

namespace {

constexpr size_t kLongestList = 100000;  // entries; a run length must not fill the memory

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// The items of a list value; one value is a list of one; text is split at its commas when `split` is set.
Value::List items_of(const Value& value, bool split) {
  if (value.is_list()) return value.as_list();
  if (!split || !value.is_text()) return {value};
  Value::List items;
  for (const std::string_view item : split_at_commas(value.as_text())) items.emplace_back(std::string(item));
  return items;
}

std::string range_text(const Option& option) {
  auto number = [](double value) { return fmt::format("{}", value); };
  if (!option.minimum && !option.maximum) return "";
  if (!option.maximum)
    return fmt::format(" {} {}", option.minimum_allowed ? "of at least" : "above", number(*option.minimum));
  if (!option.minimum) return fmt::format(" of at most {}", number(*option.maximum));
  if (!option.minimum_allowed)
    return fmt::format(" above {} and at most {}", number(*option.minimum), number(*option.maximum));
  return fmt::format(" from {} to {}", number(*option.minimum), number(*option.maximum));
}

bool is_utf8(const Value& value) {
  if (value.is_text()) return valid_utf8(value.as_text());
  return !value.is_list() || std::ranges::all_of(value.as_list(), is_utf8);
}

bool in_range(const Option& option, const Value& value) {
  if (value.is_list())
    return std::ranges::all_of(value.as_list(), [&](const Value& item) { return in_range(option, item); });
  if (value.is_text()) return value.as_text().find('\0') == std::string::npos;
  if (!value.is_integer() && !value.is_number()) return true;
  const double number = value.is_integer() ? static_cast<double>(value.as_integer()) : value.as_number();
  if (!std::isfinite(number)) return false;
  if (option.minimum && (option.minimum_allowed ? number < *option.minimum : number <= *option.minimum))
    return false;
  return !option.maximum || number <= *option.maximum;
}

// The typed text in the form of keys: lower case, underscores, no leading dashes; cut when it is absurdly
// long.
std::string as_key(std::string_view typed) {
  static constexpr size_t kLongestKey = 64;
  while (typed.starts_with('-')) typed.remove_prefix(1);
  std::string key(typed.substr(0, kLongestKey));
  for (char& c : key) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return key;
}

std::string_view last_part(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// True if an option belongs to a section or to a group in it: model.hgrn2.expand is in model, and in
// model.hgrn2.
bool inside(std::string_view option, std::string_view section) {
  return !section.empty() && option.size() > section.size() && option.starts_with(section) &&
         option[section.size()] == '.';
}

}  // namespace

std::string Option::expected_text() const {
  const std::string unit_text = unit.empty() ? "" : fmt::format(" ({})", unit);
  switch (kind) {
    case Kind::kBool:
      return "true or false";
    case Kind::kInteger:
      return "a whole number" + range_text(*this) + unit_text;
    case Kind::kNumber:
      return "a number" + range_text(*this) + unit_text;
    case Kind::kText:
      return choices.empty() ? "text" : "one of " + joined(choices);
    case Kind::kEnum:
      return "one of " + joined(choices);
    case Kind::kIntegers:
      return "a list of whole numbers" + range_text(*this) + unit_text;
    case Kind::kNumbers:
      return "a list of numbers" + range_text(*this) + unit_text;
    case Kind::kTexts:
      return "a list of texts";
    case Kind::kEnums:
      return fmt::format("a list of {}; \"{}*7\" stands for seven of them", joined(choices), choices.front());
    case Kind::kTables: {
      std::vector<std::string> keys;
      for (const Option& field : fields) keys.push_back(field.name);
      return "a list of tables with the keys " + joined(keys);
    }
  }
  return "";
}

std::string_view Option::section() const {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(name).substr(0, dot);
}

void Option::set(const Value& value) const {
  const Value before = get();
  try {
    assign(value);
  } catch (Mismatch& mismatch) {
    throw Mismatch{kind == Kind::kTables ? mismatch.expected : expected_text(), mismatch.found};
  }
  const Value after = get();
  if (!is_utf8(after)) {
    assign(before);
    throw Mismatch{kind == Kind::kText ? "text in UTF-8" : expected_text() + ", in UTF-8", value.described()};
  }
  const bool chosen =
      kind != Kind::kText || choices.empty() || std::ranges::find(choices, after.as_text()) != choices.end();
  if (chosen && in_range(*this, after)) return;
  assign(before);
  throw Mismatch{expected_text(), value.described()};
}

Option& OptionSet::append(std::string name, Kind kind, std::string help) {
  LONGHAUL_ASSERT(find(name) == nullptr, "option {} is declared twice", name);
  Option& option = options_.emplace_back();
  option.name = std::move(name);
  option.kind = kind;
  option.help = std::move(help);
  return option;
}

const Option* OptionSet::find(std::string_view name) const {
  for (const Option& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string OptionSet::nearest(std::string_view unknown) const {
  const std::string key = as_key(unknown);
  if (key.empty()) return "";
  const std::string_view part = last_part(key);
  std::string best;
  double least = 10;
  for (const Option& option : options_) {  // the last part is right: another section was meant
    const bool same = last_part(option.name) == part ||
                      std::ranges::find(option.also_called, part) != option.also_called.end();
    if (same && spelling_difference(key, option.name) < least) {
      least = spelling_difference(key, option.name);
      best = option.name;
    }
  }
  if (!best.empty()) return best;
  least = kNearSpelling;
  auto consider = [&](std::string_view typed, std::string_view known, const std::string& name) {
    if (spelling_difference(typed, known) >= least) return;
    least = spelling_difference(typed, known);
    best = name;
  };
  for (const Option& option : options_) {
    consider(key, option.name, option.name);
    consider(part, last_part(option.name), option.name);
    for (const std::string& other : option.also_called) consider(part, other, option.name);
  }
  return best;
}

bool OptionSet::has_section(std::string_view name) const {
  return std::ranges::any_of(options_, [&](const Option& option) { return inside(option.name, name); });
}

std::string OptionSet::nearest_section(std::string_view unknown) const {
  const std::string key = as_key(unknown);
  std::string best;
  double least = kNearSpelling * 2;  // sections are few and short
  for (const Option& option : options_) {
    for (size_t dot = option.name.find('.'); dot != std::string::npos; dot = option.name.find('.', dot + 1)) {
      const std::string section = option.name.substr(0, dot);
      if (spelling_difference(key, section) >= least) continue;
      least = spelling_difference(key, section);
      best = section;
    }
  }
  return best;
}

std::vector<std::string> OptionSet::meant_by(std::string_view word) const {
  const std::string key = as_key(word);
  std::vector<std::string> names;
  for (const Option& option : options_) {
    if (option.name == key || option.name.ends_with("." + key)) names.push_back(option.name);
  }
  if (names.empty()) names.push_back(nearest(word));
  std::erase(names, "");
  return names;
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> items;
  if (trimmed(text).empty()) return items;
  for (const std::string_view item : split(text, ',')) items.push_back(trimmed(item));
  return items;
}

void read_table(const OptionSet& fields, const Value& value) {
  std::vector<std::string> keys;
  for (const Option& field : fields.all()) keys.push_back(field.name);
  if (!value.is_table()) throw Mismatch{"a table with the keys " + joined(keys), value.described()};
  for (const auto& [key, item] : value.as_table()) {
    const Option* field = fields.find(key);
    if (!field) throw Mismatch{"only the keys " + joined(keys), "the key " + key};
    try {
      field->set(item);
    } catch (Mismatch& mismatch) {
      throw Mismatch{fmt::format("{} = {}", key, mismatch.expected), mismatch.found};
    }
  }
}

Value table_of(const OptionSet& fields) {
  Value::Table table;
  for (const Option& field : fields.all()) table.emplace_back(field.name, field.get());
  return Value(std::move(table));
}

bool to_bool(const Value& value) {
  if (!value.is_bool()) throw Mismatch{"true or false", value.described()};
  return value.as_bool();
}

int64_t to_integer(const Value& value) {
  if (!value.is_integer()) throw Mismatch{"a whole number", value.described()};
  return value.as_integer();
}

double to_number(const Value& value) {
  if (value.is_integer()) return static_cast<double>(value.as_integer());
  if (!value.is_number()) throw Mismatch{"a number", value.described()};
  return value.as_number();
}

std::string to_text(const Value& value) {
  if (!value.is_text()) throw Mismatch{"text", value.described()};
  return value.as_text();
}

size_t to_choice(const Value& value, const EnumNames& names) {
  if (value.is_text()) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == value.as_text()) return i;
    }
  }
  throw Mismatch{"a known name", value.described()};
}

std::vector<int64_t> to_integers(const Value& value) {
  std::vector<int64_t> out;
  for (const Value& item : items_of(value, true)) {
    if (item.is_text()) {  // from text split at commas
      const std::string& text = item.as_text();
      const std::optional<int64_t> number = parse_number<int64_t>(text);
      if (!number || value.is_list()) throw Mismatch{"whole numbers", value.described()};
      out.push_back(*number);
    } else {
      out.push_back(to_integer(item));
    }
  }
  return out;
}

std::vector<double> to_numbers(const Value& value) {
  std::vector<double> out;
  for (const Value& item : items_of(value, true)) {
    if (item.is_text()) {
      const std::string& text = item.as_text();
      const std::optional<double> number = parse_number<double>(text);
      if (!number || value.is_list()) throw Mismatch{"numbers", value.described()};
      out.push_back(*number);
    } else {
      out.push_back(to_number(item));
    }
  }
  return out;
}

std::vector<std::string> to_texts(const Value& value) {
  std::vector<std::string> out;
  for (const Value& item : items_of(value, false)) out.push_back(to_text(item));
  return out;
}

std::vector<size_t> to_choices(const Value& value, const EnumNames& names) {
  std::vector<size_t> out;
  for (const Value& item : items_of(value, true)) {
    if (!item.is_text()) throw Mismatch{"known names", item.described()};
    std::string_view name = item.as_text();
    std::optional<size_t> count = 1;
    if (const size_t star = name.find('*'); star != std::string_view::npos) {
      count = parse_number<size_t>(trimmed(name.substr(star + 1)));
      if (!count || *count == 0) throw Mismatch{"name*count", item.described()};
      name = trimmed(name.substr(0, star));
    }
    const size_t choice = to_choice(Value(std::string(name)), names);
    if (*count > kLongestList - out.size()) throw Mismatch{"a shorter list", item.described()};
    out.insert(out.end(), *count, choice);
  }
  return out;
}

Value run_lengths(const std::vector<std::string>& names) {
  Value::List list;
  for (size_t begin = 0; begin < names.size();) {
    size_t end = begin + 1;
    while (end < names.size() && names[end] == names[begin]) ++end;
    list.emplace_back(end - begin == 1 ? names[begin] : fmt::format("{}*{}", names[begin], end - begin));
    begin = end;
  }
  return Value(std::move(list));
}

}  // namespace longhaul::recipe
