// Object properties: a collection of items with six properties goes through changes; how many items have one
// of some properties in the end? given: {"items": [[size, colour, origin, material, smell, name], …],
// "in_runs": 0, "changes": [["lose", 3], …], "question": [[property, value], …]}; values are places in the
// tables of properties(), and "in_runs" is the property that the prompt tells by runs, apart from the items.
// change_kinds() lists the changes. The public verifier reads the answer alone. Source:
// docs/puzzles.md#object_properties.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/engine/words/words.h"
#include "puzzles/task.h"

namespace longhaul::puzzles::object_properties {

enum Property : uint8_t { kSize, kColour, kOrigin, kMaterial, kSmell, kName };
inline constexpr size_t kProperties = 6, kValues = 10;
inline constexpr uint8_t kHidden = 255;  // a value that nobody is told, after the change "trade_unseen"

struct PropertyTable {
  std::string_view plural, chinese;  // "sizes", "大小"
  std::array<Word, kValues> values;
};
std::span<const PropertyTable> properties();

using Item = std::array<uint8_t, kProperties>;

// A kind of change: the properties of its values, the first of which chooses the items (not in
// "add_new_pairs"); {0}, {1}, … in the texts. The last kind, "trade_unseen", hides all properties that it
// does not set; no later change may choose by what is hidden.
struct ChangeKind {
  std::string_view name;
  std::vector<Property> values;
  std::string_view english, chinese;
};
std::span<const ChangeKind> change_kinds();

struct Change {
  size_t kind = 0;
  std::vector<uint8_t> values;
};
// The items after a change; `first` is the collection before all changes.
std::vector<Item> changed(const std::vector<Item>& items, const Change& change,
                          const std::vector<Item>& first);

struct Given {
  std::vector<Item> items;
  size_t in_runs = 0;
  std::vector<Change> changes;
  std::vector<std::pair<size_t, uint8_t>> question;
};
Given read_given(const nlohmann::json& given);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::object_properties
