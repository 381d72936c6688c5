#include "recipe/write.h"

#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace longhaul::recipe {

namespace {

// A comment ends at the line and is UTF-8; a file name may hold anything.
std::string origin_note(const Origin& origin) {
  return printable(origin.earlier.empty() ? origin.text() : origin.earlier);
}

nlohmann::ordered_json json_of(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_integer()) return value.as_integer();
  if (value.is_number()) return value.as_number();
  if (value.is_text()) return value.as_text();
  if (value.is_list()) {
    auto list = nlohmann::ordered_json::array();
    for (const Value& item : value.as_list()) list.push_back(json_of(item));
    return list;
  }
  auto table = nlohmann::ordered_json::object();
  for (const auto& [key, item] : value.as_table()) table[key] = json_of(item);
  return table;
}

std::string_view last_part(const Option& option) {
  const std::string_view section = option.section();
  return section.empty() ? std::string_view(option.name)
                         : std::string_view(option.name).substr(section.size() + 1);
}

std::string explain_one(const LoadedRecipe& loaded, const Option& option, const Value& initial) {
  std::string out = fmt::format("{} = {}\n", option.name, option.get().toml());
  out += fmt::format("  from       {}\n", printable(loaded.origin(option.name).text()));
  const std::string& earlier = loaded.origin(option.name).earlier;
  if (!earlier.empty()) out += fmt::format("  before     {}\n", printable(earlier));
  out += fmt::format("  default    {}\n", initial.toml());
  out += fmt::format("  takes      {}\n", option.expected_text());
  out += fmt::format("  on resume  {}\n",
                     option.on_resume == OnResume::kSame ? "must stay the same" : "may change");
  out += fmt::format("  {}\n", option.help);
  if (option.for_comparisons) out += "  for comparisons with published results; no ordinary run needs it\n";
  for (const Option& field : option.fields) {
    out += fmt::format("    {}: {}; {}\n", field.name, field.expected_text(), field.help);
  }
  return out;
}

}  // namespace

std::string to_toml(const LoadedRecipe& loaded) {
  Recipe recipe = loaded.recipe;
  std::string out =
      "# Resolved recipe: every option of this run, with where its value came from. Written by Longhaul; a "
      "run can be started from it.\n";
  if (!loaded.source.empty()) out += fmt::format("# Resolved from {}\n", printable(loaded.source));
  out += fmt::format("version = {}\n", kRecipeVersion);
  std::string section;
  const OptionSet options = options_of(recipe);
  for (const Option& option : options.all()) {
    if (option.section() != section) {
      section = option.section();
      out += fmt::format("\n[{}]\n", section);
    }
    out += fmt::format("{} = {}  # {}\n", last_part(option), option.get().toml(),
                       origin_note(loaded.origin(option.name)));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> option_values(const Recipe& recipe) {
  Recipe read = recipe;
  std::vector<std::pair<std::string, std::string>> values;
  const OptionSet options = options_of(read);
  for (const Option& option : options.all()) values.emplace_back(option.name, option.get().toml());
  return values;
}

nlohmann::ordered_json to_json(const LoadedRecipe& loaded) {
  Recipe recipe = loaded.recipe;
  nlohmann::ordered_json out;
  out["version"] = kRecipeVersion;
  auto origins = nlohmann::ordered_json::object();
  const OptionSet options = options_of(recipe);
  for (const Option& option : options.all()) {
    if (option.section().empty()) {
      out[option.name] = json_of(option.get());
    } else {
      auto* table = &out[std::string(option.section())];
      std::string_view rest = last_part(option);
      for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
        table = &(*table)[std::string(rest.substr(0, dot))];
        rest.remove_prefix(dot + 1);
      }
      (*table)[std::string(rest)] = json_of(option.get());
    }
    origins[option.name] = loaded.origin(option.name).text();
  }
  out["origins"] = std::move(origins);
  return out;
}

std::string explain(const LoadedRecipe& loaded, const std::string& key) {
  Recipe recipe = loaded.recipe, initial;
  const OptionSet options = options_of(recipe), initial_options = options_of(initial);
  std::string out;
  for (const Option& option : options.all()) {
    if (option.name == key || option.name.starts_with(key + ".")) {
      out +=
          (out.empty() ? "" : "\n") + explain_one(loaded, option, initial_options.find(option.name)->get());
    }
  }
  if (!out.empty()) return out;
  const std::string nearest = options.nearest(key);
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("there is no option {}", key.substr(0, 120)),
               .expected = nearest.empty() ? "an option such as train.steps, or a section such as train"
                                           : fmt::format("did you mean {}?", nearest),
               .found = key.substr(0, 120),
               .where = "",
               .hint = nearest.empty()
                           ? program_command("config explain train") + " explains those of a section"
                           : program_command("config explain " + nearest)});
}

}  // namespace longhaul::recipe
