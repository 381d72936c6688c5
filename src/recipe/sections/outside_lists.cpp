#include "recipe/sections/outside_lists.h"

namespace longhaul::recipe {
namespace {

constexpr char kBetween = '\x1f';  // "unit separator": no text of a recipe holds it

std::string joined_items(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    if (item.find(kBetween) != std::string::npos) throw Mismatch{"texts without control characters", item};
    text += item + kBetween;
  }
  return text;
}

std::vector<std::string> items_of(const std::string& joined) {
  std::vector<std::string> items;
  for (size_t begin = 0; begin < joined.size();) {
    const size_t end = joined.find(kBetween, begin);
    items.push_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

}  // namespace

OutsideList outside_list(OutsideOptions& outside, const std::string& name,
                         const std::vector<std::string>& otherwise) {
  return {&outside.text(name, joined_items(otherwise))};
}

std::vector<std::string> list_of(const OutsideOptions& outside, const std::string& name) {
  return items_of(outside.text(name));
}

template <>
OptionBuilder OptionSet::add<const OutsideList>(std::string name, const OutsideList& field,
                                                std::string help) {
  Option& option = append(std::move(name), Kind::kTexts, std::move(help));
  option.get = [joined = field.joined] { return Value::list(items_of(*joined)); };
  option.assign = [joined = field.joined](const Value& value) { *joined = joined_items(to_texts(value)); };
  return OptionBuilder(option);
}

OptionBuilder add_outside_list(OptionSet& set, const std::string& name, OutsideList field,
                               const std::string& help) {
  return set.add<const OutsideList>(name, field, help);
}

}  // namespace longhaul::recipe
