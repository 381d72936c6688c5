#include "recipe/options/difference.h"

#include <algorithm>

#include "base/text/text.h"
#include "recipe/options/toml_reader.h"

namespace longhaul::recipe {

namespace {

// The text to type after "key=" for this value: text literally where it is read back as the same text.
std::string typed(const Value& value) {
  if (!value.is_text() || value.as_text().starts_with(' ')) return value.toml();
  const Value read = read_override_value(value.as_text());
  return read.is_list() || (read.is_text() && read != value) ? value.toml() : value.as_text();
}

std::string origin_text(const Origin& origin) {
  return origin.earlier.empty() ? origin.text()
                                : fmt::format("{}, saved in {}", origin.earlier, origin.text());
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
    out.push_back({option.name, value_a, value_b, origin_text(first.origin(option.name)),
                   origin_text(second.origin(option.name)), option.on_resume});
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
    out += fmt::format("{:<{}}  {:<{}}  →  {}   ({} → {})\n", each.key, key_width, each.first.toml(),
                       first_width, each.second.toml(), each.first_origin, each.second_origin);
  }
  return out;
}

namespace {

bool of_optimizer(const Difference& each) { return each.key.starts_with("optim."); }

// Options that must stay the same and do not.
std::vector<Difference> changes(const LoadedRecipe& saved, const LoadedRecipe& now) {
  std::vector<Difference> changed = differences(saved, now);
  // How a step is cut into micro-batches is part of what an elastic run computes.
  const auto kept_by_elastic = [&](const Difference& each) {
    return each.key == "train.micro_batch" && saved.recipe.train.elastic;
  };
  std::erase_if(changed, [&](const Difference& each) {
    return each.on_resume == OnResume::kMayChange && !kept_by_elastic(each);
  });
  return changed;
}

}  // namespace

bool begins_fresh_states(const LoadedRecipe& saved, const LoadedRecipe& now) {
  return now.recipe.optim.fresh_states && std::ranges::any_of(changes(saved, now), of_optimizer);
}

void refuse_changed(const LoadedRecipe& saved, const LoadedRecipe& now) {
  std::vector<Difference> changed = changes(saved, now);
  if (now.recipe.optim.fresh_states) std::erase_if(changed, of_optimizer);
  if (changed.empty()) return;
  const std::string fresh_states =
      std::ranges::all_of(changed, of_optimizer)
          ? "; to go on from its weights with fresh states of the optimizer, add optim.fresh_states=true"
          : "";
  std::string expected, found, where, arguments;
  for (const Difference& each : changed) {
    const std::string separator = expected.empty() ? "" : "\n  ";
    expected += fmt::format("{}{} = {} ({})", separator, each.key, each.first.toml(), each.first_origin);
    found += fmt::format("{}{} = {} ({})", separator, each.key, each.second.toml(), each.second_origin);
    arguments += fmt::format(" {}={}", each.key, shell_quoted(typed(each.first)));
  }
  throw Error({.code = ExitCode::kUsage,
               .what = changed.size() == 1
                           ? fmt::format("{} cannot change in the middle of a run", changed.front().key)
                           : counted(static_cast<int64_t>(changed.size()), "option") +
                                 " cannot change in the middle of a run",
               .expected = expected,
               .found = found,
               .where = saved.source,
               .hint = fmt::format(
                   "to go on with this run, add{}{}; to begin a new one, add --fresh or another --run DIR",
                   arguments, fresh_states)});
}

}  // namespace longhaul::recipe
