// The reference page of all options, made from their declarations.
#include <algorithm>

#include "recipe/architecture/presets.h"
#include "recipe/options/retired.h"
#include "recipe/options/toml_reader.h"
#include "recipe/write.h"

namespace longhaul::recipe {

namespace {

struct Section {
  std::string_view name, title;
};

constexpr Section kSections[] = {
    {"", "Top of the file"},
    {"model", "The model's shape"},
    {"data", "Text, tokenizer, held-out part"},
    {"train", "The loop"},
    {"lora", "Adapters beside frozen weights ([adapters](../guides/adapters.md))"},
    {"spikes", "Inputs of matrices as spikes ([spikes](../guides/spikes.md))"},
    {"recall",
     "Sequences of random tokens that `train.task = \"recall\"` learns ([evaluate](../guides/evaluate.md))"},
    {"optim", "Optimizer and learning rate"},
    {"sample", "The completion printed at the end"},
    {"parallel",
     "Ranks that train together, and how they share a replica of the model ([several "
     "ranks](../guides/several-ranks.md))"},
    {"observe", "What a run writes besides events.jsonl"},
    {"guard", "Loss spikes and silent corruption ([numeric guards](../design/numeric-guards.md))"},
};

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

void row(const Option& option, const Value& initial, std::string& out) {
  out += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", option.name, cell(initial.toml()),
                     cell(option.expected_text()),
                     option.on_resume == OnResume::kSame ? "same" : "may change", cell(option.help));
}

// The table of a section's options of one kind; nothing where it has none.
void rows(const OptionSet& options, std::string_view section, bool for_comparisons, std::string& out) {
  std::string table;
  for (const Option& option : options.all()) {
    if (option.section() == section && option.for_comparisons == for_comparisons)
      row(option, option.get(), table);
  }
  if (!table.empty())
    out += "| key | default | takes | on resume | meaning |\n|---|---|---|---|---|\n" + table;
}

// All that stands under a section's heading.
void tables(const OptionSet& options, std::string_view section, std::string& out) {
  rows(options, section, /*for_comparisons=*/false, out);
  for (const Option& option : options.all()) {
    if (option.section() != section || option.fields.empty()) continue;
    out += fmt::format(
        "\nKeys of one entry of `{}`:\n\n| key | default | takes | meaning |\n|---|---|---|---|\n",
        option.name);
    for (const Option& field : option.fields) {
      out += fmt::format("| `{}` | `{}` | {} | {} |\n", field.name, field.get().toml(),
                         cell(field.expected_text()), cell(field.help));
    }
  }
  std::string comparisons;
  rows(options, section, /*for_comparisons=*/true, comparisons);
  if (!comparisons.empty())
    out += "\nFor comparisons with published results; no ordinary run needs these:\n\n" + comparisons;
}

std::string preset_description(const Preset& preset) {
  for (const TomlEntry& entry : read_toml(preset.text, std::string(preset.name))) {
    if (entry.key == "description") return entry.value.as_text();
  }
  return "";
}

}  // namespace

std::string reference_markdown() {
  Recipe recipe;
  const OptionSet options = options_of(recipe);
  std::string out =
      "# Recipe reference\n\n"
      "<!-- Made by scripts/make-recipe-reference from the declarations in src/recipe; a test checks that it "
      "is current. -->\n\n"
      "A recipe is a TOML file. Every key below may be in it, or be given on the command line as `key=value` "
      "(`train.steps=20`).\n"
      "Text needs quotes in the file and none on the command line. A list of one may be written as its one "
      "value; names in lists repeat with `*`:\n"
      "`mixers = [\"lightning*7\", \"softmax\"]`, or `model.mixers=lightning*7,softmax` on the command "
      "line.\n\n"
      "Later wins: default, the preset that `model.preset` names, the file that `base` names, the file "
      "itself, the command line.\n"
      "An unknown key, a wrong type or a value out of range ends the program with exit code 64 before "
      "anything starts.\n"
      "Keys marked *same* must keep their value when a run is resumed.\n\n"
      "| key | meaning |\n|---|---|\n";
  out += fmt::format(
      "| `version` | Version of the file format, now {}. A file of a newer version is refused; without the "
      "key the version is 1. |\n",
      kRecipeVersion);
  out += "| `base` | Another recipe, by its path from this file's folder, that is read first. |\n\n";
  out +=
      "Keys that earlier versions had are ignored, with a warning, so that their recipes and checkpoints "
      "still load:\n\n";
  for (const RetiredKey& key : kRetiredKeys) out += fmt::format("- `{}`: {}.\n", key.name, key.reason);
  out += "\n";
  for (const Section& section : kSections) {
    out += section.name.empty() ? fmt::format("## {}\n\n", section.title)
                                : fmt::format("## [{}] {}\n\n", section.name, section.title);
    tables(options, section.name, out);
    out += "\n";
  }
  out += "## Presets\n\n| `model.preset` | |\n|---|---|\n";
  for (const Preset& preset : presets())
    out += fmt::format("| `{}` | {} |\n", preset.name, cell(preset_description(preset)));
  return out;
}

std::string task_reference_markdown() {
  Recipe recipe;
  const OptionSet options = options_of(recipe);
  std::string out =
      "# Options of tasks\n\n"
      "<!-- Made by scripts/make-recipe-reference from what the tasks declare; a test checks that it is "
      "current. "
      "-->\n\n"
      "Sections that one task reads; those of every run are in [recipe](recipe.md). Lists are written as "
      "there.\n\n";
  std::vector<std::string_view> told;
  for (const Section& section : kSections) told.push_back(section.name);
  for (const Option& option : options.all()) {
    if (std::ranges::find(told, option.section()) != told.end()) continue;
    told.push_back(option.section());
    out += fmt::format("## [{}]\n\n", option.section());
    tables(options, option.section(), out);
    out += "\n";
  }
  return out;
}

}  // namespace longhaul::recipe
