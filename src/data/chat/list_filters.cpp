// Filters of lists, dicts and whatever can be iterated over.
#include <algorithm>

#include "base/text/text.h"
#include "data/chat/characters.h"
#include "data/chat/filters.h"

namespace longhaul::data::chat {

Value at_path(const Value& of, const Value& path, Budget& budget) {
  if (path.text() == nullptr) return item_of(of, path, budget);
  Value at = of;
  for (const std::string_view part : split(path.text()->bytes(), '.')) {
    const bool number = !part.empty() &&
                        std::ranges::all_of(part, [](char byte) { return byte >= '0' && byte <= '9'; }) &&
                        part.size() < 10;
    const std::string name(part);
    at = item_of(
        at, number ? Value(static_cast<int64_t>(std::stoll(name))) : Value(MarkedText(name, Mark::kTemplate)),
        budget);
  }
  return at;
}

namespace {

// What a filter compares of an item: its attribute if one is named, texts without their case unless asked
// for.
Value key_of(const Value& item, const Value* attribute, bool exact_case, Budget& budget) {
  Value key = attribute != nullptr && !attribute->is_none() ? at_path(item, *attribute, budget) : item;
  return !exact_case && key.text() != nullptr ? Value(in_case(*key.text(), Case::kLower)) : key;
}

Value sorted(std::vector<Value> items, std::vector<Value> keys, bool reverse, Budget& budget) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return reverse ? compare(keys[b], keys[a], budget) < 0 : compare(keys[a], keys[b], budget) < 0;
  });
  std::vector<Value> result;
  result.reserve(items.size());
  for (const size_t i : order) result.push_back(std::move(items[i]));
  return make_list(std::move(result), budget);
}

Value length_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("length", std::move(arguments), {});
  evaluator.budget().steps(value.text() != nullptr ? static_cast<int64_t>(value.text()->size() / 64) : 0);
  return length_of(value);
}

Value join_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("join", std::move(arguments), {"d", "attribute"});
  Budget& budget = evaluator.budget();
  const MarkedText between = bound.find(0) != nullptr ? text_of(*bound.find(0), budget) : MarkedText();
  MarkedText text;
  bool first = true;
  for (const Value& item : items_of(value, budget)) {
    const Value part =
        bound.find(1) != nullptr && !bound.find(1)->is_none() ? at_path(item, *bound.find(1), budget) : item;
    if (!std::exchange(first, false)) text.append(between);
    text.append(text_of(part, budget));
    if (static_cast<int64_t>(text.size()) > budget.limits().output_bytes) budget.text(text.size());
  }
  return make_text(std::move(text), budget);
}

Value first_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("first", std::move(arguments), {});
  const std::vector<Value> items = items_of(value, evaluator.budget());
  return items.empty() ? Value::undefined("the first of no items") : items.front();
}
Value last_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("last", std::move(arguments), {});
  const std::vector<Value> items = items_of(value, evaluator.budget());
  return items.empty() ? Value::undefined("the last of no items") : items.back();
}

Value list_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("list", std::move(arguments), {});
  return make_list(items_of(value, evaluator.budget()), evaluator.budget());
}

Value pairs_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return make_list({}, budget);
  if (value.dict() == nullptr) fail("items wants a dict, not a {}", value.type_name());
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.dict()->items) pairs.push_back(make_list({key, item}, budget, true));
  return make_list(std::move(pairs), budget);
}

Value items_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("items", std::move(arguments), {});
  return pairs_of(value, evaluator.budget());
}

Value reverse_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("reverse", std::move(arguments), {});
  if (value.text() != nullptr) return make_text(reversed(*value.text()), evaluator.budget());
  std::vector<Value> items = items_of(value, evaluator.budget());
  std::ranges::reverse(items);
  return make_list(std::move(items), evaluator.budget());
}

Value sort_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("sort", std::move(arguments), {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> items = items_of(value, evaluator.budget());
  std::vector<Value> keys;
  for (const Value& item : items) {
    const Value* attribute = bound.find(2);
    if (attribute == nullptr || attribute->text() == nullptr) {
      keys.push_back(key_of(item, attribute, bound.flag(1), evaluator.budget()));
      continue;
    }
    std::vector<Value> several;
    for (const std::string_view name : split(attribute->text()->bytes(), ',')) {
      const Value path(MarkedText(std::string(name), Mark::kTemplate));
      several.push_back(key_of(item, &path, bound.flag(1), evaluator.budget()));
    }
    keys.push_back(make_list(std::move(several), evaluator.budget()));
  }
  return sorted(std::move(items), std::move(keys), bound.flag(0), evaluator.budget());
}

Value dictsort_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("dictsort", std::move(arguments), {"case_sensitive", "by", "reverse"});
  const std::string by = bound.find(1) != nullptr ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") fail("dictsort sorts by key or value, not by '{}'", by);
  std::vector<Value> pairs = items_of(pairs_of(value, evaluator.budget()), evaluator.budget());
  std::vector<Value> keys;
  for (const Value& pair : pairs)
    keys.push_back(
        key_of(pair.list()->items[by == "key" ? 0 : 1], nullptr, bound.flag(0), evaluator.budget()));
  return sorted(std::move(pairs), std::move(keys), bound.flag(2), evaluator.budget());
}

Value unique_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("unique", std::move(arguments), {"case_sensitive", "attribute"});
  std::vector<Value> seen, kept;
  for (const Value& item : items_of(value, evaluator.budget())) {
    Value key = key_of(item, bound.find(1), bound.flag(0), evaluator.budget());
    if (std::ranges::any_of(seen, [&](const Value& other) { return equal(key, other, evaluator.budget()); }))
      continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return make_list(std::move(kept), evaluator.budget());
}

Value extreme(const char* name, const Value& value, Arguments arguments, Evaluator& evaluator, int wanted) {
  const Bound bound(name, std::move(arguments), {"case_sensitive", "attribute"});
  std::optional<Value> best, best_key;
  for (const Value& item : items_of(value, evaluator.budget())) {
    Value key = key_of(item, bound.find(1), bound.flag(0), evaluator.budget());
    if (best_key && compare(key, *best_key, evaluator.budget()) * wanted <= 0) continue;
    best = item;
    best_key = std::move(key);
  }
  return best ? *best : Value::undefined(fmt::format("the {} of no items", name));
}
Value max_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  return extreme("max", value, std::move(arguments), evaluator, 1);
}
Value min_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  return extreme("min", value, std::move(arguments), evaluator, -1);
}

Value sum_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  const Bound bound("sum", std::move(arguments), {"attribute", "start"});
  Value total = bound.find(1) != nullptr ? *bound.find(1) : Value(int64_t{0});
  for (const Value& item : items_of(value, evaluator.budget())) {
    const bool named = bound.find(0) != nullptr && !bound.find(0)->is_none();
    total = operate("+", total, named ? at_path(item, *bound.find(0), evaluator.budget()) : item, evaluator);
  }
  return total;
}

// map(attribute="name", default=…), or map("filter", arguments…).
Value map_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  std::vector<Value> made;
  const std::vector<Value> items = items_of(value, evaluator.budget());
  if (arguments.by_place.empty()) {
    const Bound bound("map", std::move(arguments), {"attribute", "default"});
    for (const Value& item : items) {
      Value found = at_path(item, bound.need(0), evaluator.budget());
      made.push_back(found.is_undefined() && bound.find(1) != nullptr ? *bound.find(1) : std::move(found));
    }
    return make_list(std::move(made), evaluator.budget());
  }
  if (arguments.by_place.front().text() == nullptr) fail("map wants the name of a filter");
  const std::string name = arguments.by_place.front().text()->bytes();
  arguments.by_place.erase(arguments.by_place.begin());
  for (const Value& item : items) made.push_back(evaluator.filtered(name, item, arguments));
  return make_list(std::move(made), evaluator.budget());
}

// select, reject(test, arguments…) and selectattr, rejectattr(attribute, test, arguments…); no test: the
// truth.
Value chosen(const char* name, const Value& value, Arguments arguments, Evaluator& evaluator,
             bool by_attribute, bool wanted) {
  const auto take = [&]() -> std::optional<Value> {
    if (arguments.by_place.empty()) return std::nullopt;
    Value first = arguments.by_place.front();
    arguments.by_place.erase(arguments.by_place.begin());
    return first;
  };
  const std::optional<Value> attribute = by_attribute ? take() : std::nullopt;
  if (by_attribute && !attribute) fail("{} wants the name of an attribute", name);
  const std::optional<Value> test = take();
  if (test && test->text() == nullptr) fail("{} wants the name of a test", name);
  std::vector<Value> kept;
  for (const Value& item : items_of(value, evaluator.budget())) {
    const Value judged = attribute ? at_path(item, *attribute, evaluator.budget()) : item;
    const bool holds = test ? evaluator.tested(test->text()->bytes(), judged, arguments) : truth(judged);
    if (holds == wanted) kept.push_back(item);
  }
  return make_list(std::move(kept), evaluator.budget());
}
Value select_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  return chosen("select", value, std::move(arguments), evaluator, false, true);
}
Value reject_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  return chosen("reject", value, std::move(arguments), evaluator, false, false);
}
Value selectattr_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  return chosen("selectattr", value, std::move(arguments), evaluator, true, true);
}
Value rejectattr_filter(const Value& value, Arguments arguments, Evaluator& evaluator) {
  return chosen("rejectattr", value, std::move(arguments), evaluator, true, false);
}

}  // namespace

const std::map<std::string, Filter>& list_filters() {
  static const std::map<std::string, Filter> kFilters{{"length", length_filter},
                                                      {"count", length_filter},
                                                      {"join", join_filter},
                                                      {"first", first_filter},
                                                      {"last", last_filter},
                                                      {"list", list_filter},
                                                      {"items", items_filter},
                                                      {"reverse", reverse_filter},
                                                      {"sort", sort_filter},
                                                      {"dictsort", dictsort_filter},
                                                      {"unique", unique_filter},
                                                      {"max", max_filter},
                                                      {"min", min_filter},
                                                      {"sum", sum_filter},
                                                      {"map", map_filter},
                                                      {"select", select_filter},
                                                      {"reject", reject_filter},
                                                      {"selectattr", selectattr_filter},
                                                      {"rejectattr", rejectattr_filter}};
  return kFilters;
}

Value Evaluator::filtered(const std::string& name, const Value& value, Arguments arguments) {
  for (const auto* filters : {&text_filters(), &list_filters()}) {
    if (const auto found = filters->find(name); found != filters->end()) {
      budget_.steps();
      return found->second(value, std::move(arguments), *this);
    }
  }
  fail("there is no filter '{}' for templates of conversations", name);
}

}  // namespace longhaul::data::chat
