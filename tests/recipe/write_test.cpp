// Writers, comparison, resume, and the reference page.
#include "recipe/write.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/process/process.h"
#include "recipe/options/difference.h"
#include "recipe/support.h"
#include "support/places.h"

namespace longhaul::recipe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

LoadedRecipe example() {
  return load_text("[model]\npreset = \"first-run\"\n[train]\nsteps = 10\n", "recipes/x.toml",
                   {"optim.lr=0.1234567890123456789", "optim.stages=[{from_step=5, lr=1e-4, batch=16}]",
                    "sample.prompt=\"a # b\\n\\\"c\"", "data.weights=[0.3]"});
}

TEST(RecipeWrite, TomlReadsBackEqualAndKeepsOrigins) {
  const LoadedRecipe loaded = example();
  const std::string text = to_toml(loaded);
  EXPECT_THAT(text, HasSubstr("steps = 10  # recipes/x.toml:4\n"));
  EXPECT_THAT(text, HasSubstr("mixers = [\"lightning*7\", \"softmax\"]  # preset first-run\n"));
  EXPECT_THAT(text, HasSubstr("seed = 0  # default\n"));
  const LoadedRecipe again = load_text(text, "runs/a/recipe.toml");
  EXPECT_EQ(again.recipe, loaded.recipe);
  EXPECT_EQ(again.origin("train.steps").earlier, "recipes/x.toml:4");
  EXPECT_EQ(again.origin("optim.lr").earlier, "command line");
  EXPECT_EQ(again.origin("sample.prompt").earlier, "command line");
  // Written once more, the first origins are still there.
  EXPECT_THAT(to_toml(again), HasSubstr("steps = 10  # recipes/x.toml:4\n"));
  EXPECT_EQ(load_text(to_toml(again), "b.toml").recipe, loaded.recipe);
}

TEST(RecipeWrite, EveryPossibleOriginIsOneComment) {
  LoadedRecipe loaded = load_text("[train]\nsteps = 10\n", "odd\nseed = 4\nname.toml");
  EXPECT_EQ(load_text(to_toml(loaded), "again").recipe, loaded.recipe);
}

TEST(RecipeWrite, ValuesAreThoseOfEveryOption) {
  LoadedRecipe loaded = example();
  const auto values = option_values(loaded.recipe);
  const OptionSet options = options_of(loaded.recipe);
  EXPECT_EQ(values.size(), options.all().size());
  EXPECT_THAT(values, testing::Contains(testing::Pair("train.steps", "10")));
  EXPECT_THAT(values, testing::Contains(testing::Pair("data.weights", "[0.3]")));
}

TEST(RecipeWrite, JsonHasSectionsAndOrigins) {
  const nlohmann::ordered_json json = to_json(example());
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["train"]["steps"], 10);
  EXPECT_EQ(json["train"]["dtype"], "bf16");
  EXPECT_EQ(json["optim"]["lr"].get<double>(), 0.1234567890123456789);
  EXPECT_EQ(json["optim"]["stages"][0]["batch"], 16);
  EXPECT_EQ(json["model"]["mixers"][0], "lightning*7");
  EXPECT_EQ(json["model"]["hgrn2"]["expand"], 0);
  EXPECT_EQ(json["origins"]["train.steps"], "recipes/x.toml:4");
  EXPECT_EQ(json["origins"]["model.hidden"], "preset first-run");
  EXPECT_EQ(json["origins"]["train.seed"], "default");
}

TEST(RecipeWrite, ExplainSaysAllAboutAKeyOrASection) {
  const std::string text = explain(example(), "train.steps");
  EXPECT_THAT(text, HasSubstr("train.steps = 10"));
  EXPECT_THAT(text, HasSubstr("from       recipes/x.toml:4"));
  EXPECT_THAT(text, HasSubstr("default    1000"));
  EXPECT_THAT(text, HasSubstr("a whole number of at least 1 (steps)"));
  EXPECT_THAT(text, HasSubstr("may change"));
  EXPECT_THAT(explain(example(), "optim.stages"), HasSubstr("from_tokens"));
  EXPECT_THAT(explain(example(), "data"), HasSubstr("data.source"));
  EXPECT_THAT(explain(example(), "model"), HasSubstr("model.hgrn2.expand"));
  EXPECT_THAT(explain(example(), "model.hgrn2"),
              testing::AllOf(HasSubstr("model.hgrn2.expand"), Not(HasSubstr("model.layers"))));
  EXPECT_THAT(explain(example(), "data"), Not(HasSubstr("train.steps")));
  const ErrorFields unknown = error_of([] { explain(example(), "train.stepz"); });
  EXPECT_EQ(unknown.code, ExitCode::kUsage);
  EXPECT_THAT(unknown.expected, HasSubstr("train.steps"));
  EXPECT_EQ(error_of([] { explain(example(), ""); }).code, ExitCode::kUsage);
}

TEST(RecipeCompare, DiffListsWhatDiffersWithOrigins) {
  EXPECT_THAT(diff(example(), example()), IsEmpty());
  const LoadedRecipe changed = load_text("[model]\npreset = \"first-run\"\n[train]\nsteps = 11\n", "y.toml");
  const std::vector<Difference> found = differences(example(), changed);
  std::vector<std::string> keys;
  for (const Difference& each : found) keys.push_back(each.key);
  EXPECT_THAT(
      keys, testing::ElementsAre("data.weights", "train.steps", "optim.lr", "optim.stages", "sample.prompt"));
  EXPECT_THAT(diff(example(), changed), HasSubstr("(recipes/x.toml:4 → y.toml:4)"));
}

TEST(RecipeResume, RefusesChangedOptionsThatMustStay) {
  const LoadedRecipe saved = load_text(to_toml(example()), "runs/a/recipe.toml");
  EXPECT_NO_THROW(refuse_changed(saved, saved));
  LoadedRecipe now = example();
  EXPECT_NO_THROW(refuse_changed(saved, now));
  now.recipe.train.steps = 99;
  now.recipe.train.threads = 1;
  EXPECT_NO_THROW(refuse_changed(saved, now));
  now.recipe.train.seed = 5;
  now.origins["train.seed"] = {Origin::Kind::kCommandLine, "", ""};
  now.recipe.data.source = {"/my folder/it's"};  // the texts there are compared, not where they lie
  now.recipe.data.tokenizer = "elsewhere/tokenizer.json";
  now.recipe.data.include = {".py"};
  const ErrorFields fields = error_of([&] { refuse_changed(saved, now); });
  EXPECT_EQ(fields.code, ExitCode::kUsage);
  EXPECT_THAT(fields.what, HasSubstr("2 options cannot change"));
  EXPECT_THAT(fields.expected, HasSubstr("train.seed = 0 (default, saved in runs/a/recipe.toml:"));
  EXPECT_THAT(fields.found, HasSubstr("train.seed = 5 (command line)"));
  EXPECT_THAT(fields.hint, HasSubstr("train.seed=0"));
  EXPECT_THAT(fields.hint, HasSubstr("data.include='[]'"));
  EXPECT_THAT(fields.hint, HasSubstr("--fresh"));
  EXPECT_EQ(fields.where, "runs/a/recipe.toml");
  EXPECT_THAT(
      fields.what + fields.expected,
      Not(testing::AnyOf(HasSubstr("train.steps"), HasSubstr("data.source"), HasSubstr("data.tokenizer"))));
}

TEST(RecipeResume, AnotherOptimizerWithFreshStatesOnly) {
  LoadedRecipe saved = load_defaults(), now = load_defaults({"optim.name=came"});
  EXPECT_THAT(error_of([&] { refuse_changed(saved, now); }).hint, HasSubstr("optim.fresh_states=true"));
  EXPECT_FALSE(begins_fresh_states(saved, now));
  now.recipe.optim.fresh_states = true;
  EXPECT_NO_THROW(refuse_changed(saved, now));
  EXPECT_TRUE(begins_fresh_states(saved, now));
  EXPECT_FALSE(begins_fresh_states(now, now)) << "its own states are there";
  now.recipe.train.seed = 5;
  EXPECT_THAT(error_of([&] { refuse_changed(saved, now); }).expected, Not(HasSubstr("optim")));
}

// What is said to type for a text gives that text again.
TEST(RecipeResume, TheArgumentsItNamesGiveTheSavedValues) {
  for (const std::string prompt :
       {"plain", "it's", "\"quoted\"", " leading", "['a']", "a\nb", "", "17", "# no comment"}) {
    LoadedRecipe saved = load_defaults(), now = load_defaults();
    saved.recipe.data.jsonl_field = prompt;
    now.recipe.data.jsonl_field = "other";
    const std::string hint = error_of([&] { refuse_changed(saved, now); }).hint;
    const std::string before = "to go on with this run, add ", after = "; to begin a new one";
    const std::string words = hint.substr(before.size(), hint.find(after) - before.size());
    const ProcessResult typed = run_process({"sh", "-c", "printf '%s' " + words});
    EXPECT_EQ(load_defaults({typed.output}).recipe.data.jsonl_field, prompt) << words;
  }
}

TEST(RecipeWrite, AFileNameThatIsNotUtf8LeavesTheRecipeReadable) {
  LoadedRecipe loaded = load_text("[train]\nsteps = 7\n", "a\xff\n.toml");
  EXPECT_EQ(load_text(to_toml(loaded), "again.toml").recipe, loaded.recipe);
}

TEST(RecipeReference, TheCheckedInPageIsCurrent) {
  const std::filesystem::path page = std::filesystem::path(source_folder()) / "docs/reference/recipe.md";
  if (std::getenv("LONGHAUL_WRITE_REFERENCE")) write_text_atomically(page, reference_markdown());
  EXPECT_EQ(read_text(page), reference_markdown()) << "run scripts/make-recipe-reference";
}

// The marked options stand apart, in a second table of their section.
TEST(RecipeReference, OptionsForComparisonsStandApart) {
  const std::string page = reference_markdown();
  const size_t optim = page.find("## [optim]"), end = page.find("## [sample]");
  const std::string section = page.substr(optim, end - optim);
  const size_t apart = section.find("For comparisons with published results");
  ASSERT_NE(apart, std::string::npos);
  EXPECT_GT(section.find("| `optim.nvlamb` |"), apart);
  EXPECT_GT(section.find("| `optim.outer_gap` |"), apart);
  EXPECT_LT(section.find("| `optim.lr` |"), apart);
  EXPECT_LT(section.find("| `optim.outer` |"), apart);
  EXPECT_EQ(page.find("For comparisons", page.find("## [guard]")), std::string::npos)
      << "a section without such options has no table of them";
  EXPECT_THAT(explain(load_defaults(), "optim.nvlamb"), HasSubstr("for comparisons"));
  EXPECT_THAT(explain(load_defaults(), "optim.lr"), Not(HasSubstr("for comparisons")));
}

TEST(RecipeReference, NamesEveryOption) {
  Recipe recipe;
  const std::string page = reference_markdown();
  const OptionSet options = options_of(recipe);
  for (const Option& option : options.all()) EXPECT_THAT(page, HasSubstr("| `" + option.name + "` |"));
}

}  // namespace
}  // namespace longhaul::recipe
