#include "recipe/load.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "base/files/file.h"
#include "base/log.h"
#include "base/process/loaded_library.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "recipe/architecture/presets.h"
#include "recipe/check.h"
#include "recipe/options/retired.h"
#include "recipe/options/toml_reader.h"

namespace longhaul::recipe {

namespace {

constexpr int kLongestBaseChain = 8;

// One key with its value, before it is known whether the key exists.
struct Entry {
  std::string key;
  Value value;
  std::string typed;  // of an override, as typed
  bool is_section = false;
  Origin origin;
  std::string where;  // for errors
};

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

// The likely meanings of an unknown key or section, as the text of Error::expected.
std::string suggestion(const OptionSet& options, const Entry& entry, const std::string& nearest) {
  if (!nearest.empty())
    return fmt::format("did you mean {}? ({})", nearest,
                       entry.is_section ? "a section" : options.find(nearest)->help);
  const std::string section = entry.key.substr(0, entry.key.find('.'));
  std::string names;
  for (const Option& option : options.all()) {
    if (option.section() == section) names += (names.empty() ? "one of " : ", ") + option.name;
  }
  return names.empty() ? "a key of docs/reference/recipe.md" : names;
}

[[noreturn]] void refuse_unknown(const OptionSet& options, const Entry& entry) {
  static constexpr size_t kShown = 120;
  const std::string nearest =
      entry.is_section ? options.nearest_section(entry.key) : options.nearest(entry.key);
  const std::string shown = printable(entry.key.substr(0, kShown));
  const std::string written = entry.is_section ? fmt::format("[{}]", nearest) : nearest;
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("the recipe has no {} {}", entry.is_section ? "section" : "key", shown),
               .expected = suggestion(options, entry, nearest),
               .found = shown,
               .where = entry.where,
               .hint = nearest.empty()
                           ? program_command("config show RECIPE") + " lists every key with its value"
                           : "write " + written});
}

void refuse_version(const TomlEntry& entry, const std::string& where) {
  if (!entry.value.is_integer() || entry.value.as_integer() < 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the recipe's version is not a version",
                 .expected = fmt::format("version = {}", kRecipeVersion),
                 .found = entry.is_section ? "a section" : entry.value.described(),
                 .where = where,
                 .hint = fmt::format("write version = {}", kRecipeVersion)});
  }
  if (entry.value.as_integer() > kRecipeVersion) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the recipe was written for a newer Longhaul",
                 .expected = fmt::format("version {} or older", kRecipeVersion),
                 .found = fmt::format("version {}", entry.value.as_integer()),
                 .where = where,
                 .hint = "update Longhaul, or start from a recipe of this version"});
  }
}

// In a run directory's recipe.toml every line ends with the origin its value had when the run was started.
std::string noted_origin(const std::vector<std::string_view>& lines, int64_t line) {
  if (lines.empty() || !lines.front().starts_with("# Resolved recipe") || line < 1 ||
      static_cast<size_t>(line) > lines.size())
    return "";
  const std::string_view text = lines[static_cast<size_t>(line) - 1];
  const size_t comment = text.rfind("  # ");
  return comment == std::string_view::npos ? "" : std::string(text.substr(comment + 4));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The folders of recipes that come with this program: of a package (bin/ beside recipes/), or of a build in
// the sources (build/release/).
std::vector<std::filesystem::path> folders_of_recipes() {
  static const int kInThisProgram = 0;
  const std::filesystem::path folder = file_that_holds(&kInThisProgram).parent_path();
  return {(folder / "../recipes").lexically_normal(), (folder / "../../recipes").lexically_normal()};
}

// A file as it was typed, or a recipe that comes with the program by its name: "first-run",
// "minimax/1-pretrain".
std::filesystem::path file_of_recipe(const std::filesystem::path& typed) {
  std::error_code ignored;
  if (typed.empty() || typed.is_absolute() ||
      (std::filesystem::exists(typed, ignored) && !std::filesystem::is_directory(typed, ignored)))
    return typed;
  for (const std::filesystem::path& folder : folders_of_recipes()) {
    for (const char* ending : {"", ".toml"}) {
      std::filesystem::path file = folder / typed;
      file += ending;
      if (std::filesystem::is_regular_file(file, ignored)) return file;
    }
  }
  return typed;
}

std::vector<std::string> names_of_recipes() {
  std::vector<std::string> names;
  std::error_code none;
  for (const std::filesystem::path& folder : folders_of_recipes()) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    }
    if (!names.empty()) break;
  }
  std::ranges::sort(names);
  return names;
}

std::string read_recipe(const std::filesystem::path& path, const std::string& asked_by) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    const std::vector<std::string> names = names_of_recipes();
    const std::string near = nearest_spelling(path.stem().string(), names);
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "cannot find the recipe",
         .expected =
             names.empty() ? "a TOML file" : fmt::format("a TOML file, or one of {}", fmt::join(names, ", ")),
         .found = "no such file",
         .where = asked_by.empty() ? path.string() : fmt::format("{} (base of {})", path.string(), asked_by),
         .hint =
             near.empty() ? "give the path of a recipe, or the name of one that comes with Longhaul" : near});
  }
  return read_text(path, ExitCode::kUsage, kRecipeSizeLimitBytes);
}

// Entries of a file, those of its base first.
void read_file(std::string_view text, const std::string& name, const std::filesystem::path& folder, int depth,
               std::vector<Entry>& out) {
  if (static_cast<int64_t>(text.size()) > kRecipeSizeLimitBytes) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the recipe is too large",
                 .expected = fmt::format("at most {} bytes", kRecipeSizeLimitBytes),
                 .found = fmt::format("{} bytes", text.size()),
                 .where = name,
                 .hint = "is this really a recipe?"});
  }
  const std::vector<TomlEntry> entries = read_toml(text, name);
  for (const TomlEntry& entry : entries) {
    const std::string where = fmt::format("{}:{}:{}", name, entry.line, entry.column);
    if (entry.key == "version") refuse_version(entry, where);
    if (entry.key != "base") continue;
    if (entry.is_section || !entry.value.is_text() || entry.value.as_text().empty() ||
        entry.value.as_text().find('\0') != std::string::npos) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "base is not a file name",
                   .expected = "the path of another recipe, from this one's folder",
                   .found = entry.is_section ? "a section" : entry.value.described(),
                   .where = where,
                   .hint = "base = \"first-run.toml\""});
    }
    if (depth >= kLongestBaseChain) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "the recipes' bases never end",
                   .expected = fmt::format("at most {} files that build on each other", kLongestBaseChain),
                   .found = "a longer chain, perhaps a circle",
                   .where = where,
                   .hint = "remove this line"});
    }
    const std::filesystem::path base = folder / entry.value.as_text();
    read_file(read_recipe(base, name), base.lexically_normal().string(), base.parent_path(), depth + 1, out);
  }
  const std::vector<std::string_view> lines = lines_of(text);
  for (const TomlEntry& entry : entries) {
    if (entry.key == "version" || entry.key == "base") continue;
    out.push_back({.key = entry.key,
                   .value = entry.value,
                   .typed = {},
                   .is_section = entry.is_section,
                   .origin = {Origin::Kind::kFile, fmt::format("{}:{}", name, entry.line),
                              noted_origin(lines, entry.line)},
                   .where = fmt::format("{}:{}:{}", name, entry.line, entry.column)});
  }
}

Entry read_override(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot understand an argument",
                 .expected = "key=value, such as train.steps=20",
                 .found = printable(argument.substr(0, 200)),
                 .where = "command line",
                 .hint = "write the key, an equals sign and the value without spaces"});
  }
  std::string key = argument.substr(0, equals);
  std::string typed = argument.substr(equals + 1);
  while (!key.empty() && key.back() == ' ') key.pop_back();
  while (!typed.empty() && typed.front() == ' ') typed.erase(0, 1);
  return {.key = key,
          .value = read_override_value(typed),
          .typed = typed,
          .is_section = false,
          .origin = {Origin::Kind::kCommandLine, "", ""},
          .where = "command line: " + printable(argument.substr(0, 200))};
}

// For text options the typed text is literal unless it is quoted: data.tokenizer=123 is a name, not a number.
// A list of texts is then split at its commas.
Value override_for(const Option& option, const Entry& entry) {
  const bool text = option.kind == Kind::kText || option.kind == Kind::kEnum || option.kind == Kind::kTexts ||
                    option.kind == Kind::kEnums;
  if (!text || entry.origin.kind != Origin::Kind::kCommandLine || entry.value.is_list()) return entry.value;
  const bool quoted =
      entry.value.is_text() && (entry.typed.starts_with('"') || entry.typed.starts_with('\''));
  // A recipe is UTF-8: another path is written in another way. For quoted text TOML has already checked this.
  const auto item = [&](std::string_view typed) {
    return Value(option.is_path && !valid_utf8(typed) ? text_of_path(typed) : std::string(typed));
  };
  if (option.kind != Kind::kTexts) return quoted ? entry.value : item(entry.typed);
  if (quoted) return Value(Value::List{entry.value});
  Value::List items;  // a,b
  for (const std::string_view typed : split_at_commas(entry.typed)) items.push_back(item(typed));
  return Value(std::move(items));
}

// True if the entry is a key of an earlier version. A run reads its recipe several times: one warning is
// enough.
bool is_retired(const Entry& entry) {
  const auto key = std::ranges::find(kRetiredKeys, entry.key, &RetiredKey::name);
  if (entry.is_section || key == std::end(kRetiredKeys) || (key->only_as_switch && !entry.value.is_bool()))
    return false;
  static std::atomic_flag warned[std::size(kRetiredKeys)];
  if (!warned[key - std::begin(kRetiredKeys)].test_and_set())
    log_warning("{} is no {} any more and is ignored: {} ({})", key->name,
                key->only_as_switch ? "switch" : "option", key->reason, entry.where);
  return true;
}

void apply(const OptionSet& options, const Entry& entry, LoadedRecipe& loaded) {
  if (is_retired(entry)) return;
  const Option* option = options.find(entry.key);
  if (entry.is_section) {
    if (options.has_section(entry.key)) return;
    if (!option) refuse_unknown(options, entry);
  }
  if (!option) refuse_unknown(options, entry);
  try {
    option->set(entry.is_section ? Value(Value::Table()) : override_for(*option, entry));
  } catch (const Mismatch& mismatch) {
    const bool fraction = option->kind == Kind::kInteger && entry.value.is_number();
    throw Error({.code = ExitCode::kUsage,
                 .what = fmt::format("{} cannot have this value", option->name),
                 .expected = mismatch.expected,
                 .found = mismatch.found,
                 .where = entry.where,
                 .hint = fraction ? "write all the digits; 1_000_000 is fine"
                                  : program_command("config explain " + option->name) + " says more"});
  }
  loaded.origins[option->name] = entry.origin;
}

// The preset named by the last entry that names one, as entries that precede all others.
std::vector<Entry> preset_entries(const std::vector<Entry>& entries) {
  const auto last = std::find_if(entries.rbegin(), entries.rend(), [](const Entry& entry) {
    return entry.key == "model.preset" && !entry.is_section;
  });
  if (last == entries.rend()) return {};
  const std::string name = last->value.is_text() ? last->value.as_text() : last->typed;
  if (name.empty()) return {};
  const Preset* preset = find_preset(name);
  if (!preset) {
    const std::string near = nearest_spelling(name, preset_names());
    throw Error({.code = ExitCode::kUsage,
                 .what = "there is no such model preset",
                 .expected = fmt::format("one of {}", fmt::join(preset_names(), ", ")),
                 .found = last->value.described(),
                 .where = last->where,
                 .hint = near.empty() ? program_command("config show RECIPE model.preset=NAME") +
                                            " says what is in one"
                                      : "model.preset=" + near});
  }
  std::vector<Entry> out;
  const std::string source = std::string(preset->path);
  for (const TomlEntry& entry : read_toml(preset->text, source)) {
    if (entry.key == "version" || entry.key == "description") continue;
    out.push_back({.key = entry.key,
                   .value = entry.value,
                   .typed = {},
                   .is_section = entry.is_section,
                   .origin = {Origin::Kind::kPreset, name, ""},
                   .where = fmt::format("{}:{}:{}", source, entry.line, entry.column)});
  }
  return out;
}

std::vector<Entry> entries_of(const FirstWords& words) {
  Recipe recipe = words.recipe;
  const OptionSet options = options_of(recipe);
  std::vector<Entry> out;
  for (const std::string& key : words.keys) {
    out.push_back({.key = key,
                   .value = options.find(key)->get(),
                   .typed = {},
                   .is_section = false,
                   .origin = {Origin::Kind::kFile, words.origin, ""},
                   .where = words.origin});
  }
  return out;
}

LoadedRecipe resolve(std::vector<Entry> entries, const std::vector<std::string>& overrides,
                     std::string source, const FirstWords* words = nullptr) {
  for (const std::string& argument : overrides) entries.push_back(read_override(argument));
  std::vector<Entry> first = preset_entries(entries);
  if (words != nullptr) {
    std::vector<Entry> before = entries_of(*words);
    first.insert(first.begin(), before.begin(), before.end());
  }
  LoadedRecipe loaded;
  loaded.source = std::move(source);
  const OptionSet options = options_of(loaded.recipe);
  for (const Entry& entry : first) apply(options, entry, loaded);
  for (const Entry& entry : entries) apply(options, entry, loaded);
  check(loaded);
  return loaded;
}

}  // namespace

std::string Origin::text() const {
  switch (kind) {
    case Kind::kDefault:
      return "default";
    case Kind::kPreset:
      return "preset " + detail;
    case Kind::kFile:
      return detail;
    case Kind::kCommandLine:
      return "command line";
  }
  return "";
}

const Origin& LoadedRecipe::origin(const std::string& key) const {
  static const Origin kFromDefault;
  const auto found = origins.find(key);
  return found == origins.end() ? kFromDefault : found->second;
}

LoadedRecipe load(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                  const FirstWords* first) {
  std::vector<Entry> entries;
  const std::filesystem::path file = file_of_recipe(path);
  const std::string name = text_of_path(file);
  read_file(read_recipe(file, ""), name, file.parent_path(), 1, entries);
  return resolve(std::move(entries), overrides, name, first);
}

LoadedRecipe load_text(std::string_view text, const std::string& name,
                       const std::vector<std::string>& overrides, const std::filesystem::path& folder) {
  std::vector<Entry> entries;
  read_file(text, name, folder, 1, entries);
  return resolve(std::move(entries), overrides, name);
}

LoadedRecipe load_defaults(const std::vector<std::string>& overrides) { return resolve({}, overrides, ""); }

}  // namespace longhaul::recipe
