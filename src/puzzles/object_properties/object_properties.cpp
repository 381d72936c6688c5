#include "puzzles/object_properties/object_properties.h"

#include <algorithm>
#include <bitset>
#include <numeric>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"

namespace longhaul::puzzles::object_properties {
namespace {

constexpr size_t kMostItems = 100, kMostChanges = 30, kLargestCollection = 3000;
constexpr Knob kKnobs[] = {
    {"items", 4, kMostItems, 10, 40, "items at the beginning"},
    {"values", 2, kValues, 3, 10, "values that a property may have"},
    {"changes", 1, kMostChanges, 2, 8, "changes of the collection"},
    {"terms", 1, kProperties, 2, 5, "properties that the question names"},
    {"unseen_percent", 0, 100, 0, 40, "percent of the puzzles in which items come of which not all is told"}};

// What the values after the first set on an item.
void set_values(Item& item, const ChangeKind& kind, const Change& change) {
  for (size_t i = 1; i < kind.values.size(); ++i) item[kind.values[i]] = change.values[i];
}

uint8_t random_value(const KnobValues& knobs, Draw& draw) {
  return static_cast<uint8_t>(draw.below(static_cast<uint64_t>(knobs["values"])));
}

// Another value than `old`.
uint8_t other_value(uint8_t old, const KnobValues& knobs, Draw& draw) {
  const auto count = static_cast<uint64_t>(knobs["values"]);
  return static_cast<uint8_t>((old + 1 + draw.below(count - 1)) % count);
}

// The first value is one that some item has; a value that replaces one of the same property is another.
Change random_change(const std::vector<Item>& items, const KnobValues& knobs, Draw& draw) {
  Change change{.kind = draw.below(change_kinds().size() - 1)};
  const std::vector<Property>& kinds = change_kinds()[change.kind].values;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (i == 0) {
      change.values.push_back(items[draw.below(items.size())][kinds[0]]);
    } else {
      change.values.push_back(kinds[i] == kinds[0] ? other_value(change.values[0], knobs, draw)
                                                   : random_value(knobs, draw));
    }
  }
  return change;
}

Change random_unseen_trade(const std::vector<Item>& items, const KnobValues& knobs, Draw& draw) {
  Change change{.kind = change_kinds().size() - 1};
  change.values = {items[draw.below(items.size())][kOrigin], random_value(knobs, draw),
                   random_value(knobs, draw)};
  return change;
}

// Whether it is known of each item if the change is about it.
bool is_decided(const std::vector<Item>& items, const Change& change) {
  const std::vector<Property>& values = change_kinds()[change.kind].values;
  return std::ranges::none_of(items, [&](const Item& item) {
    return values.empty() ? item[kSmell] == kHidden || item[kColour] == kHidden : item[values[0]] == kHidden;
  });
}

// None: what is hidden decides.
std::optional<int64_t> count_of(const Given& puzzle) {
  std::vector<Item> items = puzzle.items;
  for (const Change& change : puzzle.changes) {
    if (!is_decided(items, change))
      refuse_given(kTask.key, "\"changes\" that choose items by what is known of them", change.kind);
    items = changed(items, change, puzzle.items);
    if (items.size() > kLargestCollection)
      refuse_given(kTask.key, fmt::format("\"changes\" that make at most {} items", kLargestCollection),
                   items.size());
  }
  int64_t count = 0;
  for (const Item& item : items) {
    const bool counts = std::ranges::any_of(
        puzzle.question, [&](const auto& term) { return item[term.first] == term.second; });
    if (!counts &&
        std::ranges::any_of(puzzle.question, [&](const auto& term) { return item[term.first] == kHidden; }))
      return std::nullopt;
    count += counts ? 1 : 0;
  }
  return count;
}

nlohmann::json json_of(const Given& puzzle) {
  nlohmann::json::array_t items, changes, question;
  items.reserve(puzzle.items.size());
  for (const Item& item : puzzle.items)
    items.push_back(json_list(item[0], item[1], item[2], item[3], item[4], item[5]));
  for (const Change& change : puzzle.changes) {
    nlohmann::json::array_t json;
    json.reserve(change.values.size() + 1);
    json.emplace_back(change_kinds()[change.kind].name);
    json.insert(json.end(), change.values.begin(), change.values.end());
    changes.emplace_back(std::move(json));
  }
  for (const auto& [property, value] : puzzle.question) question.push_back(json_list(property, value));
  nlohmann::json given = nlohmann::json::object();
  given["items"] = std::move(items);
  given["in_runs"] = puzzle.in_runs;
  given["changes"] = std::move(changes);
  given["question"] = std::move(question);
  return given;
}

std::string answer_text(const std::optional<int64_t>& count, Language language) {
  if (count) return std::to_string(*count);
  return language == Language::kChinese ? "未知" : "unknown";
}

// The items in the end. None: the changes leave none or too many, or depend on what is hidden.
std::optional<std::vector<Item>> add_changes(Given& puzzle, const KnobValues& knobs, Draw& draw) {
  constexpr int kTries = 40;
  std::vector<Item> items = puzzle.items;
  const int64_t count = knobs["changes"],
                unseen = draw.chance(knobs["unseen_percent"]) ? draw.between(0, count - 1) : -1;
  for (int64_t i = 0; i < count; ++i) {
    Change change;
    int tries = 0;
    do {
      change = i == unseen ? random_unseen_trade(items, knobs, draw) : random_change(items, knobs, draw);
    } while (!is_decided(items, change) && ++tries < kTries);
    if (tries == kTries) return std::nullopt;
    items = changed(items, change, puzzle.items);
    puzzle.changes.push_back(std::move(change));
    if (items.empty() || items.size() > kLargestCollection) return std::nullopt;
  }
  return items;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Given puzzle{.items = std::vector<Item>(static_cast<size_t>(knobs["items"])),
               .in_runs = draw.below(kProperties)};
  for (Item& item : puzzle.items) {
    for (uint8_t& value : item) value = random_value(knobs, draw);
  }
  // runs of one to four, each of another value than the one before
  for (size_t i = 0; i < puzzle.items.size();) {
    const uint8_t value =
        i == 0 ? random_value(knobs, draw) : other_value(puzzle.items[i - 1][puzzle.in_runs], knobs, draw);
    for (int64_t run = draw.between(1, 4); run > 0 && i < puzzle.items.size(); --run)
      puzzle.items[i++][puzzle.in_runs] = value;
  }
  const std::optional<std::vector<Item>> items = add_changes(puzzle, knobs, draw);
  if (!items) return std::nullopt;
  std::array<size_t, kProperties> asked{};
  std::iota(asked.begin(), asked.end(), 0);
  draw.shuffle(asked);
  for (size_t i = 0; i < static_cast<size_t>(knobs["terms"]); ++i) {
    const uint8_t value = (*items)[draw.below(items->size())][asked[i]];
    if (value == kHidden) return std::nullopt;
    puzzle.question.emplace_back(asked[i], value);
  }
  return Puzzle{.given = json_of(puzzle), .solution = answer_text(count_of(puzzle), Language::kEnglish)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::optional<int64_t> wanted = count_of(read_given(given));
  const auto is_unknown = [&](Language language) { return payload == answer_text(std::nullopt, language); };
  if (payload == "Unknown" || is_unknown(Language::kEnglish) || is_unknown(Language::kChinese))
    return wanted ? Verdict{VerdictCode::kRuleBroken, "the number of such items is known"} : Verdict{};
  const std::optional<int64_t> answer = read_grouped_integer(payload);
  if (!answer) return {VerdictCode::kUnreadable, "neither a whole number nor unknown"};
  if (!wanted) return {VerdictCode::kRuleBroken, "the number of such items is not known"};
  if (*answer != *wanted)
    return {VerdictCode::kRuleBroken, fmt::format("{} is not the number of such items", *answer)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  Given puzzle = read_given(given);  // in which the order of items and terms makes no other puzzle
  std::ranges::sort(puzzle.items);
  std::ranges::sort(puzzle.question);
  std::string text;
  const auto add = [&](uint64_t value) { text += static_cast<char>('0' + static_cast<char>(value)); };
  for (const Item& item : puzzle.items) std::ranges::for_each(item, add);
  for (const Change& change : puzzle.changes) {
    text += '/';
    add(change.kind);
    std::ranges::for_each(change.values, add);
  }
  text += '?';
  for (const auto& [property, value] : puzzle.question) add(property), add(value);
  return text;
}

Puzzle told_in(Puzzle puzzle, Language language) {
  if (!read_integer(puzzle.solution)) puzzle.solution = answer_text(std::nullopt, language);
  return puzzle;
}

uint8_t read_value(const nlohmann::json& json) {
  return static_cast<uint8_t>(
      integer_of(json, 0, static_cast<int64_t>(kValues) - 1, "a value of a property", kTask.key));
}

}  // namespace

std::vector<Item> changed(const std::vector<Item>& items, const Change& change,
                          const std::vector<Item>& first) {
  const ChangeKind& kind = change_kinds()[change.kind];
  std::bitset<kValues * kValues> pairs;  // of a smell and a colour; of what is hidden none is known
  if (kind.values.empty()) {
    for (const Item& item : first) pairs.set(item[kSmell] * kValues + item[kColour]);
  }
  const bool loses = kind.name == "lose", splits = kind.name == "split",
             keeps = kind.name == "copy" || kind.name == "twin" || kind.name == "add_new_pairs",
             hides = kind.name == "trade_unseen";
  std::vector<Item> after, added;
  after.reserve(items.size());
  for (const Item& item : items) {
    const bool chosen = kind.values.empty() ? !pairs[item[kSmell] * kValues + item[kColour]]
                                            : item[kind.values[0]] == change.values[0];
    if (!chosen) {
      after.push_back(item);
      continue;
    }
    Item other = item;
    if (hides) other.fill(kHidden);
    set_values(other, kind, change);
    if (loses) continue;
    if (splits) {  // the one changes its size, the other its colour
      Item same_size = item;
      same_size[kColour] = change.values[2];
      other[kColour] = item[kColour];
      after.push_back(other);
      added.push_back(same_size);
    } else if (keeps) {
      after.push_back(item);
      added.push_back(other);
    } else {
      after.push_back(other);
    }
  }
  after.insert(after.end(), added.begin(), added.end());
  return after;
}

Given read_given(const nlohmann::json& given) {
  Given puzzle;
  for (const nlohmann::json& json :
       list_of(member_of(given, "items", kTask.key), 1, kMostItems, "\"items\"", kTask.key)) {
    list_of(json, kProperties, kProperties, "an item", kTask.key);
    Item& item = puzzle.items.emplace_back();
    for (size_t i = 0; i < kProperties; ++i) item[i] = read_value(json[i]);
  }
  constexpr int64_t kLast = static_cast<int64_t>(kProperties) - 1;
  puzzle.in_runs = static_cast<size_t>(
      integer_of(member_of(given, "in_runs", kTask.key), 0, kLast, "\"in_runs\"", kTask.key));
  for (const nlohmann::json& json :
       list_of(member_of(given, "changes", kTask.key), 0, kMostChanges, "\"changes\"", kTask.key)) {
    list_of(json, 1, kProperties + 2, "a change", kTask.key);
    const auto kind = std::ranges::find(change_kinds(), text_of(json[0], "the kind of a change", kTask.key),
                                        &ChangeKind::name);
    if (kind == change_kinds().end() || json.size() != kind->values.size() + 1)
      refuse_given(kTask.key, "changes that there are, with their values", json);
    Change change{.kind = static_cast<size_t>(kind - change_kinds().begin())};
    for (size_t i = 1; i < json.size(); ++i) change.values.push_back(read_value(json[i]));
    puzzle.changes.push_back(std::move(change));
  }
  for (const nlohmann::json& json :
       list_of(member_of(given, "question", kTask.key), 1, kProperties, "\"question\"", kTask.key)) {
    list_of(json, 2, 2, "a term of the question", kTask.key);
    puzzle.question.emplace_back(integer_of(json[0], 0, kLast, "a property", kTask.key), read_value(json[1]));
  }
  return puzzle;
}

const TaskEntry kTask = {.key = "object_properties",
                         .title = "Count items of a collection that changes",
                         .version = 3,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::object_properties
