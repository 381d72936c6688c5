#include "recipe/compare.h"

#include <algorithm>

namespace longhaul::recipe {

namespace {

// What to type for this value after "key=", quoted for a shell where that is needed.
std::string typed(const Value& value) {
  const std::string text = value.is_text() ? value.as_text() : value.toml();
  const bool plain =
      !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:+-,") == std::string::npos;
  if (plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string origin_text(const Origin& origin) {
  return origin.earlier.empty() ? origin.text() : fmt::format("{}, saved in {}", origin.earlier, origin.text());
}

}  // namespace

std::vector<Difference> differences(const LoadedRecipe& first, const LoadedRecipe& second) {
  Recipe a = first.recipe, b = second.recipe;
  const OptionSet options_a = options_of(a), options_b = options_of(b);
  std::vector<Difference> out;
  for (size_t i = 0; i < options_a.all().size(); ++i) {
    const Option& option = options_a.all()[i];
    const Value value_a = option.get(), value_b = options_b.all()[i].get();
    if (value_a == value_b) continue;
    out.push_back(
        {option.name, value_a, value_b, origin_text(first.origin(option.name)), origin_text(second.origin(option.name)), option.on_resume});
  }
  return out;
}

std::string diff(const LoadedRecipe& first, const LoadedRecipe& second) {
  const std::vector<Difference> found = differences(first, second);
  size_t key_width = 0, first_width = 0;
  for (const Difference& each : found) {
    key_width = std::max(key_width, each.key.size());
    first_width = std::max(first_width, each.first.toml().size());
  }
  std::string out;
  for (const Difference& each : found) {
    out += fmt::format("{:<{}}  {:<{}}  →  {}   ({} → {})\n", each.key, key_width, each.first.toml(), first_width, each.second.toml(),
                       each.first_origin, each.second_origin);
  }
  return out;
}

void refuse_changed(const LoadedRecipe& saved, const LoadedRecipe& now) {
  std::vector<Difference> changed = differences(saved, now);
  std::erase_if(changed, [](const Difference& each) { return each.on_resume == OnResume::kMayChange; });
  if (changed.empty()) return;
  std::string expected, found, where, arguments;
  for (const Difference& each : changed) {
    const std::string separator = expected.empty() ? "" : "\n  ";
    expected += fmt::format("{}{} = {} ({})", separator, each.key, each.first.toml(), each.first_origin);
    found += fmt::format("{}{} = {} ({})", separator, each.key, each.second.toml(), each.second_origin);
    arguments += fmt::format(" {}={}", each.key, typed(each.first));
  }
  throw Error({.code = ExitCode::kUsage,
               .what = changed.size() == 1 ? fmt::format("{} cannot change in the middle of a run", changed.front().key)
                                           : fmt::format("{} options cannot change in the middle of a run", changed.size()),
               .expected = expected,
               .found = found,
               .where = saved.source,
               .hint = fmt::format("to go on with this run, add{}; to begin a new one, add --fresh or another --run DIR", arguments)});
}

}  // namespace longhaul::recipe
