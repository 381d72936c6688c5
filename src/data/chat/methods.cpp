// Methods of texts, lists and dicts, as Python has them. None of them changes what it is called on: append,
// update and their like are refused, as transformers' sandbox refuses them.
#include <algorithm>
#include <map>

#include "data/chat/characters.h"
#include "data/chat/evaluator.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data::chat {
namespace {

using TextMethod = Value (*)(const MarkedText& text, const std::string& name, Arguments arguments,
                             Evaluator& evaluator);

Value made(MarkedText text, Evaluator& evaluator) { return make_text(std::move(text), evaluator.budget()); }

Value texts(std::vector<MarkedText> parts, Evaluator& evaluator) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (MarkedText& part : parts) items.push_back(made(std::move(part), evaluator));
  return make_list(std::move(items), evaluator.budget());
}

Value strip_method(const MarkedText& text, const std::string& name, Arguments arguments,
                   Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"chars"});
  const bool given = bound.find(0) != nullptr && !bound.find(0)->is_none();
  const std::string chars = given ? bound.text(0).bytes() : "";
  const Ends ends = name == "strip" ? Ends::kBoth : name == "lstrip" ? Ends::kLeft : Ends::kRight;
  return made(stripped(text, ends, given ? &chars : nullptr), evaluator);
}

Value split_method(const MarkedText& text, const std::string& name, Arguments arguments,
                   Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"sep", "maxsplit"});
  const bool given = bound.find(0) != nullptr && !bound.find(0)->is_none();
  const std::string separator = given ? bound.text(0).bytes() : "";
  return texts(split_text(text, given ? &separator : nullptr, bound.integer(1, -1), name == "rsplit"),
               evaluator);
}

Value splitlines_method(const MarkedText& text, const std::string& name, Arguments arguments,
                        Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"keepends"});
  return texts(split_lines(text, bound.flag(0)), evaluator);
}

Value case_method(const MarkedText& text, const std::string& name, Arguments arguments,
                  Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {});
  if (name == "capitalize") return made(capitalized(text), evaluator);
  return made(in_case(text, name == "upper"   ? Case::kUpper
                            : name == "title" ? Case::kTitle
                                              : Case::kLower),
              evaluator);
}

// startswith and endswith take one text or a tuple of them.
Value ends_method(const MarkedText& text, const std::string& name, Arguments arguments,
                  Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"affix"});
  const std::vector<Value> wanted = bound.need(0).list() != nullptr && bound.need(0).list()->tuple
                                        ? bound.need(0).list()->items
                                        : std::vector{bound.need(0)};
  for (const Value& each : wanted) {
    if (each.text() == nullptr) fail("{} wants a text or a tuple of texts, not a {}", name, each.type_name());
    evaluator.budget().steps();
    const std::string& affix = each.text()->bytes();
    if (name == "startswith" ? text.bytes().starts_with(affix) : text.bytes().ends_with(affix)) return true;
  }
  return false;
}

Value replace_method(const MarkedText& text, const std::string& name, Arguments arguments,
                     Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"old", "new", "count"});
  return made(replaced(text, bound.text(0).bytes(), bound.text(1), bound.integer(2, -1), evaluator.budget()),
              evaluator);
}

Value find_method(const MarkedText& text, const std::string& name, Arguments arguments,
                  Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"sub"});
  evaluator.budget().steps(static_cast<int64_t>(text.size() / 64));
  const std::string& wanted = bound.text(0).bytes();
  const size_t found = name == "rfind" ? text.bytes().rfind(wanted) : text.bytes().find(wanted);
  if (found != std::string::npos)
    return static_cast<int64_t>(characters(std::string_view(text.bytes()).substr(0, found)));
  if (name == "index") fail("index found no '{}'", wanted);
  return int64_t{-1};
}

Value count_method(const MarkedText& text, const std::string& name, Arguments arguments,
                   Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"sub"});
  evaluator.budget().steps(static_cast<int64_t>(text.size() / 64));
  const std::string& wanted = bound.text(0).bytes();
  if (wanted.empty()) return static_cast<int64_t>(characters(text.bytes())) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = text.bytes().find(wanted, at)) != std::string::npos; at += wanted.size()) ++count;
  return count;
}

Value join_method(const MarkedText& text, const std::string& name, Arguments arguments,
                  Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"iterable"});
  MarkedText result;
  bool first = true;
  for (const Value& item : items_of(bound.need(0), evaluator.budget())) {
    if (item.text() == nullptr) fail("join wants texts, not a {}", item.type_name());
    if (!std::exchange(first, false)) result.append(text);
    result.append(*item.text());
    if (static_cast<int64_t>(result.size()) > evaluator.budget().limits().output_bytes)
      evaluator.budget().text(result.size());
  }
  return made(std::move(result), evaluator);
}

// removeprefix, removesuffix.
Value remove_method(const MarkedText& text, const std::string& name, Arguments arguments,
                    Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {"affix"});
  const std::string& affix = bound.text(0).bytes();
  if (name == "removeprefix")
    return made(text.bytes().starts_with(affix) ? text.part(affix.size()) : text, evaluator);
  return made(text.bytes().ends_with(affix) ? text.part(0, text.size() - affix.size()) : text, evaluator);
}

// isdigit, isalpha, isalnum, isspace, isupper, islower.
Value is_method(const MarkedText& text, const std::string& name, Arguments arguments, Evaluator& evaluator) {
  const Bound bound(name, std::move(arguments), {});
  evaluator.budget().steps(static_cast<int64_t>(text.size() / 16));
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text.bytes().data() + at, text.bytes().data() + text.size());
    const Category category = category_of(next.code);
    const bool letter = category <= Category::kLo && category != Category::kCn,
               digit = category == Category::kNd;
    if (name == "isdigit" && !digit) return false;
    if (name == "isalpha" && !letter) return false;
    if (name == "isalnum" && !letter && !digit && category != Category::kNl && category != Category::kNo)
      return false;
    if (name == "isspace" && !is_python_space(next.code)) return false;
    if (name == "isupper" && (category == Category::kLl || category == Category::kLt)) return false;
    if (name == "islower" && (category == Category::kLu || category == Category::kLt)) return false;
    cased = cased || is_cased(next.code);
    at += static_cast<size_t>(next.length);
  }
  return name == "isupper" || name == "islower" ? cased : !text.empty();
}

const std::map<std::string, TextMethod>& text_methods() {
  static const std::map<std::string, TextMethod> kMethods{
      {"strip", strip_method},         {"lstrip", strip_method},        {"rstrip", strip_method},
      {"split", split_method},         {"rsplit", split_method},        {"splitlines", splitlines_method},
      {"upper", case_method},          {"lower", case_method},          {"title", case_method},
      {"capitalize", case_method},     {"startswith", ends_method},     {"endswith", ends_method},
      {"replace", replace_method},     {"find", find_method},           {"rfind", find_method},
      {"index", find_method},          {"count", count_method},         {"join", join_method},
      {"removeprefix", remove_method}, {"removesuffix", remove_method}, {"isdigit", is_method},
      {"isalpha", is_method},          {"isalnum", is_method},          {"isspace", is_method},
      {"isupper", is_method},          {"islower", is_method}};
  return kMethods;
}

Value dict_method(const Value& self, const std::string& name, Arguments arguments, Evaluator& evaluator) {
  const Dict& dict = *self.dict();
  Budget& budget = evaluator.budget();
  if (name == "get") {
    const Bound bound(name, std::move(arguments), {"key", "default"});
    budget.steps(1 + static_cast<int64_t>(dict.items.size() / 16));
    const Value* found = dict.find_hashable(bound.need(0));
    return found != nullptr ? *found : bound.find(1) != nullptr ? *bound.find(1) : Value(None{});
  }
  const Bound bound(name, std::move(arguments), {});
  if (name == "copy") return self;
  std::vector<Value> list;
  for (const auto& [key, value] : dict.items) {
    list.push_back(name == "keys" ? key : name == "values" ? value : make_list({key, value}, budget, true));
  }
  return make_list(std::move(list), budget);
}

Value list_method(const Value& self, const std::string& name, Arguments arguments, Evaluator& evaluator) {
  if (name == "copy") return self;
  const Bound bound(name, std::move(arguments), {"value"});
  int64_t count = 0;
  for (size_t i = 0; i < self.list()->items.size(); ++i) {
    if (!equal(self.list()->items[i], bound.need(0), evaluator.budget())) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++count;
  }
  if (name == "index") fail("index found no such item");
  return count;
}

bool changes(const std::string& name, bool list) {
  static constexpr std::string_view kOfLists[] = {"append", "extend",  "insert", "pop",
                                                  "remove", "reverse", "sort",   "clear"};
  static constexpr std::string_view kOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
  return list ? std::ranges::find(kOfLists, name) != std::end(kOfLists)
              : std::ranges::find(kOfDicts, name) != std::end(kOfDicts);
}

}  // namespace

std::optional<Value> method_of(const Value& value, const std::string& name) {
  if (value.text() != nullptr) {
    const auto found = text_methods().find(name);
    if (found == text_methods().end()) return std::nullopt;
    return make_function(name,
                         [value, name, method = found->second](Arguments arguments, Evaluator& evaluator) {
                           return method(*value.text(), name, std::move(arguments), evaluator);
                         });
  }
  if (value.list() == nullptr && value.dict() == nullptr) return std::nullopt;
  const bool list = value.list() != nullptr;
  if (changes(name, list)) {
    return make_function(name, [name, list](const Arguments&, Evaluator&) -> Value {
      fail("{}() would change what it is called on, and templates change namespaces alone: {}", name,
           list ? "write list + [item]" : "write dict(old, key=value)");
    });
  }
  const bool known =
      list ? name == "index" || name == "count" || name == "copy"
           : name == "get" || name == "keys" || name == "values" || name == "items" || name == "copy";
  if (!known) return std::nullopt;
  return make_function(name, [value, name, method = list ? list_method : dict_method](Arguments arguments,
                                                                                      Evaluator& evaluator) {
    return method(value, name, std::move(arguments), evaluator);
  });
}

}  // namespace longhaul::data::chat
