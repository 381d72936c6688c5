// Options: each is declared once and bound to the C++ field that it sets. The strict TOML reader, overrides,
// help, the reference page, and the origin of every value are made from the declaration. The default is the
// value of the field when it is declared.
//
//   void declare(OptionSet& set, TrainOptions& train) {
//     set.add("train.steps", train.steps, "Optimizer steps of the whole run.")
//         .unit("steps").at_least(1).may_change();
//   }
//
// An option must stay the same when a run is resumed unless it says may_change(). An OptionSet points into
// the structs for which it was built and must not outlive them. Not thread-safe; a set is cheap, so make one
// where it is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "recipe/options/value.h"

namespace longhaul::recipe {

enum class OnResume { kSame, kMayChange };
enum class Kind { kBool, kInteger, kNumber, kText, kEnum, kIntegers, kNumbers, kTexts, kEnums, kTables };

// Names of an enumeration: overload `EnumNames names_of(MyEnum)` beside it; names are listed in the order of
// the values 0, 1, …
using EnumNames = std::vector<std::string_view>;

template <class E>
std::string_view name_of_value(E value) {
  return names_of(value)[static_cast<size_t>(value)];
}

// Mismatch: why a field refused a value. Both are phrases, e.g. expected "a whole number of at least 1",
// found "\"ten\" (text)".
struct Mismatch {
  std::string expected;
  std::string found;
};

class OptionSet;

struct Option {
  std::string name;  // Dotted: "train.steps"; an option of a group in a section: "model.hgrn2.expand".
  Kind kind = Kind::kText;
  std::string help;  // one sentence
  std::string unit;
  std::vector<std::string> choices;  // kEnum, kEnums, and texts restricted to a list
  std::optional<double> minimum, maximum;
  bool minimum_allowed = true;  // false: the value must be above the minimum
  OnResume on_resume = OnResume::kSame;
  bool for_comparisons = false;  // reproduces or compares published results; no ordinary run needs it
  bool is_path = false;          // its texts are paths (base/text/path_text.h) or words
  // Names in other programs, used only to guess the meaning of an unknown key.
  std::vector<std::string> also_called;
  std::vector<Option> fields;                // kTables: the keys of one entry
  std::function<Value()> get;                // the bound field as a Value
  std::function<void(const Value&)> assign;  // no check of the range; throws Mismatch when the type is wrong

  // Checks type, choices and range; throws Mismatch and leaves the field as it was.
  void set(const Value& value) const;
  std::string expected_text() const;  // "a whole number of at least 1 (steps)"
  // "train", "model" of "model.hgrn2.expand"; empty for a key without a dot.
  std::string_view section() const;
};

// OptionBuilder: the result of add(), which refines the option just declared.
class OptionBuilder {
 public:
  explicit OptionBuilder(Option& option) : option_(option) {}
  OptionBuilder& unit(std::string text) {
    option_.unit = std::move(text);
    return *this;
  }
  OptionBuilder& at_least(double value) {
    option_.minimum = value;
    return *this;
  }
  OptionBuilder& above(double value) {
    option_.minimum = value;
    option_.minimum_allowed = false;
    return *this;
  }
  OptionBuilder& at_most(double value) {
    option_.maximum = value;
    return *this;
  }
  OptionBuilder& one_of(std::vector<std::string> names) {
    option_.choices = std::move(names);
    return *this;
  }
  OptionBuilder& may_change() {
    option_.on_resume = OnResume::kMayChange;
    return *this;
  }
  OptionBuilder& for_comparisons() {
    option_.for_comparisons = true;
    return *this;
  }
  OptionBuilder& path() {
    option_.is_path = true;
    return *this;
  }
  OptionBuilder& also_called(std::vector<std::string> names) {
    option_.also_called = std::move(names);
    return *this;
  }

 private:
  Option& option_;
};

class OptionSet {
 public:
  template <class Field>
  OptionBuilder add(std::string name, Field& field, std::string help);

  // A list of tables: each entry is an Entry whose keys `declare(OptionSet&, Entry&)` lists (without a
  // section).
  template <class Entry>
  OptionBuilder add_tables(std::string name, std::vector<Entry>& field, std::string help);

  const std::vector<Option>& all() const& { return options_; }
  const std::vector<Option>& all() && = delete;     // it would dangle for a temporary
  const Option* find(std::string_view name) const;  // nullptr when there is none
  // The declared name most similar to `unknown`, or empty: by spelling, by last part, or by another program's
  // name for it.
  std::string nearest(std::string_view unknown) const;
  std::string nearest_section(std::string_view unknown) const;
  // "model", or "model.hgrn2", which is a group of options in it.
  bool has_section(std::string_view name) const;
  // The options that a single word may mean: all whose last part it is ("--seed": train.seed, data.seed, …),
  // else the nearest.
  std::vector<std::string> meant_by(std::string_view word) const;

 private:
  Option& append(std::string name, Kind kind, std::string help);
  std::vector<Option> options_;
};

// Splits at commas: "a, b" is {"a", "b"}; "" has no items.
std::vector<std::string_view> split_at_commas(std::string_view text);

// Reads one entry of a list of tables; throws Mismatch that names the key.
void read_table(const OptionSet& fields, const Value& value);
Value table_of(const OptionSet& fields);

// Typed access used by add(); each throws Mismatch when the type does not fit.
bool to_bool(const Value& value);
int64_t to_integer(const Value& value);
double to_number(const Value& value);
std::string to_text(const Value& value);
size_t to_choice(const Value& value, const EnumNames& names);
// Lists. A single value is a list of one. "lightning*7" is "lightning" seven times; text "a,b*2" is split at
// the commas.
std::vector<int64_t> to_integers(const Value& value);
std::vector<double> to_numbers(const Value& value);
std::vector<std::string> to_texts(const Value& value);
std::vector<size_t> to_choices(const Value& value, const EnumNames& names);
Value run_lengths(const std::vector<std::string>& names);  // the inverse: ["lightning*7", "softmax"]

// ---- templates ----

template <class Field>
OptionBuilder OptionSet::add(std::string name, Field& field, std::string help) {
  Field* bound = &field;
  auto bind = [&](Kind kind, auto get, auto assign) {
    Option& option = append(std::move(name), kind, std::move(help));
    option.get = get;
    option.assign = assign;
    return OptionBuilder(option);
  };
  if constexpr (std::is_same_v<Field, bool>) {
    return bind(
        Kind::kBool, [bound] { return Value(*bound); }, [bound](const Value& v) { *bound = to_bool(v); });
  } else if constexpr (std::is_same_v<Field, int64_t>) {
    return bind(
        Kind::kInteger, [bound] { return Value(*bound); },
        [bound](const Value& v) { *bound = to_integer(v); });
  } else if constexpr (std::is_same_v<Field, double>) {
    return bind(
        Kind::kNumber, [bound] { return Value(*bound); }, [bound](const Value& v) { *bound = to_number(v); });
  } else if constexpr (std::is_same_v<Field, std::string>) {
    return bind(
        Kind::kText, [bound] { return Value(*bound); }, [bound](const Value& v) { *bound = to_text(v); });
  } else if constexpr (std::is_same_v<Field, std::vector<int64_t>>) {
    return bind(
        Kind::kIntegers, [bound] { return Value::list(*bound); },
        [bound](const Value& v) { *bound = to_integers(v); });
  } else if constexpr (std::is_same_v<Field, std::vector<double>>) {
    return bind(
        Kind::kNumbers, [bound] { return Value::list(*bound); },
        [bound](const Value& v) { *bound = to_numbers(v); });
  } else if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
    return bind(
        Kind::kTexts, [bound] { return Value::list(*bound); },
        [bound](const Value& v) { *bound = to_texts(v); });
  } else if constexpr (std::is_enum_v<Field>) {
    OptionBuilder builder = bind(
        Kind::kEnum, [bound] { return Value(std::string(name_of_value(*bound))); },
        [bound](const Value& v) { *bound = static_cast<Field>(to_choice(v, names_of(Field{}))); });
    const EnumNames names = names_of(Field{});
    return builder.one_of({names.begin(), names.end()});
  } else {
    using Entry = typename Field::value_type;
    static_assert(std::is_enum_v<Entry>,
                  "an option's field is a bool, int64_t, double, std::string, enum, or a vector of those");
    OptionBuilder builder = bind(
        Kind::kEnums,
        [bound] {
          std::vector<std::string> names;
          for (Entry entry : *bound) names.emplace_back(name_of_value(entry));
          return run_lengths(names);
        },
        // Only a list that is empty until it is given may be given as empty.
        [bound, may_be_empty = bound->empty()](const Value& v) {
          Field read;
          for (size_t choice : to_choices(v, names_of(Entry{}))) read.push_back(static_cast<Entry>(choice));
          if (read.empty() && !may_be_empty) throw Mismatch{"at least one name", v.described()};
          *bound = std::move(read);
        });
    const EnumNames names = names_of(Entry{});
    return builder.one_of({names.begin(), names.end()});
  }
}

template <class Entry>
OptionBuilder OptionSet::add_tables(std::string name, std::vector<Entry>& field, std::string help) {
  std::vector<Entry>* bound = &field;
  Option& option = append(std::move(name), Kind::kTables, std::move(help));
  option.get = [bound] {
    Value::List entries;
    for (Entry entry : *bound) {
      OptionSet fields;
      declare(fields, entry);
      entries.push_back(table_of(fields));
    }
    return Value(std::move(entries));
  };
  option.assign = [bound](const Value& value) {
    if (!value.is_list()) throw Mismatch{"a list of tables", value.described()};
    std::vector<Entry> read;
    for (const Value& item : value.as_list()) {
      Entry entry;
      OptionSet fields;
      declare(fields, entry);
      read_table(fields, item);
      read.push_back(entry);
    }
    *bound = std::move(read);
  };
  Entry sample;
  OptionSet fields;
  declare(fields, sample);
  option.fields = fields.all();
  for (Option& entry_field : option.fields) {  // they describe; the sample they were bound to is gone
    const Value initial = entry_field.get();
    entry_field.get = [initial] { return initial; };
    entry_field.assign = nullptr;
  }
  return OptionBuilder(option);
}

}  // namespace longhaul::recipe
