// Loading: order of layers, overrides, origins, base files, and everything that must be refused.
#include "recipe/load.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/files/file.h"
#include "recipe/support.h"
#include "recipe/write.h"

namespace longhaul::recipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LoadedRecipe from(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_text(text, "r.toml", overrides);
}

ErrorFields refused(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const ErrorFields fields = error_of([&] { from(text, overrides); });
  EXPECT_EQ(fields.code, ExitCode::kUsage);
  EXPECT_FALSE(fields.what.empty());
  EXPECT_FALSE(fields.hint.empty());
  return fields;
}

struct TemporaryFolder {
  std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) /
      ("recipe-" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()) + "-" +
       ::testing::UnitTest::GetInstance()->current_test_info()->name());
  TemporaryFolder() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

TEST(RecipeLoad, LaterLayersWinAndValuesKnowTheirOrigin) {
  const LoadedRecipe loaded = from(
      "version = 1\n"
      "[train]\n"
      "steps = 10\n"
      "seed = 3\n"
      "[model]\n"
      "preset = \"hybrid-bench\"\n"
      "hidden = 128\n",
      {"train.steps=20", "optim.lr=3e-4", "train.dtype=fp32"});
  EXPECT_EQ(loaded.recipe.train.steps, 20);
  EXPECT_EQ(loaded.recipe.train.seed, 3);
  EXPECT_EQ(loaded.recipe.model.hidden, 128);
  EXPECT_EQ(loaded.recipe.model.softmax.kv_heads, 2);
  EXPECT_EQ(loaded.recipe.train.dtype, Dtype::kFp32);
  EXPECT_EQ(loaded.recipe.optim.lr, 3e-4);
  EXPECT_EQ(loaded.origin("train.steps").text(), "command line");
  EXPECT_EQ(loaded.origin("train.seed").text(), "r.toml:4");
  EXPECT_EQ(loaded.origin("model.hidden").text(), "r.toml:7");
  EXPECT_EQ(loaded.origin("model.kv_heads").text(), "preset hybrid-bench");
  EXPECT_EQ(loaded.origin("train.batch").text(), "default");
}

TEST(RecipeLoad, AGroupInsideASectionIsATableOrDottedKeys) {
  for (const char* text : {"[model]\nhgrn2.expand = 48\n", "[model.hgrn2]\nexpand = 48\n",
                           "model.hgrn2.expand = 48\n", "[model]\nlayers = 3\nhgrn2 = { expand = 48 }\n"}) {
    EXPECT_EQ(from(text).recipe.model.hgrn2.expand, 48) << text;
  }
  EXPECT_EQ(load_defaults({"model.hgrn2.expand=48"}).recipe.model.hgrn2.expand, 48);
  const ErrorFields section = error_of([] { from("[model.hgrn3]\nexpand = 48\n"); });
  EXPECT_THAT(section.what, HasSubstr("no section model.hgrn3"));
  EXPECT_THAT(section.expected, HasSubstr("model.hgrn2"));
  EXPECT_THAT(error_of([] { from("[model.hgrn2]\nexpandd = 48\n"); }).expected,
              HasSubstr("model.hgrn2.expand"));
}

TEST(RecipeLoad, AnEmptyFileIsTheDefaults) {
  EXPECT_EQ(from("").recipe, Recipe{});
  EXPECT_EQ(load_defaults().recipe, Recipe{});
  EXPECT_TRUE(load_defaults().origins.empty());
}

TEST(RecipeLoad, ListsOfTextsAreSplitAtCommasUnlessQuoted) {
  const auto source = [](const std::string& typed) {
    return load_defaults({"data.source=" + typed}).recipe.data.source;
  };
  EXPECT_THAT(source("a,b"), ElementsAre("a", "b"));
  EXPECT_THAT(source("/a b , c/d"), ElementsAre("/a b", "c/d"));
  EXPECT_THAT(source("\"a,b\""), ElementsAre("a,b"));
  EXPECT_THAT(source("'a,b'"), ElementsAre("a,b"));
  EXPECT_THAT(source("[\"a,b\", 'c']"), ElementsAre("a,b", "c"));
  EXPECT_THAT(from("[data]\nsource = \"a,b\"\n").recipe.data.source, ElementsAre("a,b"));
  EXPECT_TRUE(load_defaults({"data.validation="}).recipe.data.validation.empty());
  EXPECT_THROW(load_defaults({"data.source=a,,b"}), Error);
  EXPECT_THROW(load_defaults({"data.source="}), Error);
}

// The text of such a path is in base/text/path_text.h.
TEST(RecipeLoad, APathThatIsNotUtf8IsWrittenAnotherWay) {
  const LoadedRecipe loaded = load_defaults(
      {"data.source=/caf\xe9,b", "data.validation=\xff", "data.cache=c\x80", "data.tokenizer=t\xfe"});
  EXPECT_THAT(loaded.recipe.data.source, ElementsAre("file:/caf%E9", "b"));
  EXPECT_THAT(loaded.recipe.data.validation, ElementsAre("file:%FF"));
  EXPECT_EQ(loaded.recipe.data.cache, "file:c%80");
  EXPECT_EQ(loaded.recipe.data.tokenizer, "file:t%FE");
  EXPECT_EQ(load_text(to_toml(loaded), "again").recipe, loaded.recipe);
}

TEST(RecipeLoad, OverridesTakeBareTextAndToml) {
  const Recipe recipe =
      load_defaults({"data.source=/a/b, c", "data.tokenizer=123", "sample.prompt=\"a\\nb\"",
                     "model.mixers=lightning*7,softmax", "data.include=['.py','.md']",
                     "train.until_time=04:00", "sample.temperature=1", "train.checkpoint_self_test=true",
                     "data.cache=", "description=a # b = c", "optim.stages=[{from_step=10, lr=1e-4}]"})
          .recipe;
  EXPECT_THAT(recipe.data.source, ElementsAre("/a/b", "c"));
  EXPECT_EQ(recipe.data.tokenizer, "123");
  EXPECT_EQ(recipe.sample.prompt, "a\nb");
  EXPECT_EQ(recipe.model.mixers.size(), 8u);
  EXPECT_EQ(recipe.model.mixer(6), Mixer::kLightning);
  EXPECT_EQ(recipe.model.mixer(7), Mixer::kSoftmax);
  EXPECT_EQ(recipe.model.mixer(8), Mixer::kLightning);
  EXPECT_THAT(recipe.data.include, ElementsAre(".py", ".md"));
  EXPECT_EQ(recipe.train.until_time, "04:00");
  EXPECT_EQ(recipe.sample.temperature, 1.0);
  EXPECT_TRUE(recipe.train.checkpoint_self_test);
  EXPECT_EQ(recipe.data.cache, "");
  EXPECT_EQ(recipe.description, "a # b = c");
  ASSERT_EQ(recipe.optim.stages.size(), 1u);
  EXPECT_EQ(recipe.optim.stages[0].from_step, 10);
  EXPECT_EQ(recipe.optim.stages[0].lr, 1e-4);
}

// Written by earlier versions into every recipe.toml and every checkpoint. (The warning:
// cli/program_test.cpp.)
TEST(RecipeLoad, KeysOfEarlierVersionsAreIgnored) {
  const LoadedRecipe loaded =
      from("version = 1\n[model]\nchunk = 64  # preset first-run\nlayers = 3\n[train]\nrecompute = false\n",
           {"model.chunk=any value"});
  EXPECT_EQ(loaded.recipe, load_defaults({"model.layers=3"}).recipe);
  EXPECT_EQ(loaded.origins.size(), 1u);
  EXPECT_EQ(to_toml(loaded).find("chunk ="), std::string::npos);
  EXPECT_EQ(from("[train]\nrecompute = \"full\"\n").recipe.train.recompute, Recompute::kFull)
      << "it came back with other values";
  EXPECT_THAT(refused("[model.chunk]\n").what, HasSubstr("no section model.chunk"));
}

TEST(RecipeLoad, TheLastOverrideOfAKeyWins) {
  EXPECT_EQ(load_defaults({"train.steps=1", "train.steps=2"}).recipe.train.steps, 2);
}

TEST(RecipeLoad, ThePresetOfTheCommandLineReplacesTheFiles) {
  const LoadedRecipe loaded = from("[model]\npreset = \"first-run\"\n", {"model.preset=linear-bench"});
  EXPECT_EQ(loaded.recipe.model.hidden, 512);
  EXPECT_EQ(loaded.recipe.model.experts, 8);
  EXPECT_EQ(loaded.origin("model.experts").text(), "preset linear-bench");
}

TEST(RecipeLoad, StagesMayBeArraysOfTables) {
  const Recipe recipe = from(
                            "[[optim.stages]]\nfrom_tokens = 69_000_000_000\nbatch = "
                            "16\n[[optim.stages]]\nfrom_tokens = 790_000_000_000\nbatch = 32\nlr = 1e-4\n")
                            .recipe;
  ASSERT_EQ(recipe.optim.stages.size(), 2u);
  EXPECT_EQ(recipe.optim.stages[0].from_tokens, 69000000000);
  EXPECT_EQ(recipe.optim.stages[1].lr, 1e-4);
}

TEST(RecipeLoad, ABaseIsReadFirstFromTheFilesFolder) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder.path / "sub");
  write_text_atomically(folder.path / "sub/base.toml", "[train]\nsteps = 7\nseed = 8\n");
  write_text_atomically(folder.path / "run.toml", "base = \"sub/base.toml\"\n[train]\nsteps = 9\n");
  const LoadedRecipe loaded = load(folder.path / "run.toml");
  EXPECT_EQ(loaded.recipe.train.steps, 9);
  EXPECT_EQ(loaded.recipe.train.seed, 8);
  EXPECT_EQ(loaded.origin("train.seed").text(), (folder.path / "sub/base.toml").string() + ":3");
}

TEST(RecipeLoad, ACircleOfBasesAndAMissingBaseAreRefused) {
  TemporaryFolder folder;
  write_text_atomically(folder.path / "a.toml", "base = \"b.toml\"\n");
  write_text_atomically(folder.path / "b.toml", "base = \"a.toml\"\n");
  write_text_atomically(folder.path / "c.toml", "base = \"nowhere.toml\"\n");
  EXPECT_THAT(error_of([&] { load(folder.path / "a.toml"); }).found, HasSubstr("circle"));
  const ErrorFields missing = error_of([&] { load(folder.path / "c.toml"); });
  EXPECT_EQ(missing.code, ExitCode::kUsage);
  EXPECT_THAT(missing.where, HasSubstr("c.toml"));
  EXPECT_EQ(refused("base = 3\n").where, "r.toml:1:1");
}

TEST(RecipeLoad, AMissingFileAndAFolderAreRefused) {
  TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { load(folder.path / "none.toml"); }).code, ExitCode::kUsage);
  EXPECT_EQ(error_of([&] { load(folder.path); }).code, ExitCode::kUsage);
}

TEST(RecipeBadInput, SyntaxErrorsNameTheirPlace) {
  EXPECT_EQ(refused("[train]\nsteps = = 3\n").where.substr(0, 9), "r.toml:2:");
  EXPECT_EQ(refused("[train]\ndtype = bf16\n").where.substr(0, 9), "r.toml:2:");
  EXPECT_EQ(refused("[train]\nsteps = 1\nsteps = 2\n").where.substr(0, 9), "r.toml:3:");
  EXPECT_EQ(refused("[train\n").where.substr(0, 9), "r.toml:1:");
  refused("[train]\ntask = \"\xff\xfe\"\n");
  refused(std::string("a\0b", 3));
  EXPECT_THAT(refused("[[[optim.stages]]\nfrom_step = 4\n").found, HasSubstr("without a name"));
  EXPECT_THAT(refused("data.source = [}]\n").found, HasSubstr("closes nothing"));
  EXPECT_THAT(refused("data.source = 'a' ]\n").found, HasSubstr("closes nothing"));
  EXPECT_EQ(refused("[train]\n  \xc2\xb7steps = 4\n").where, "r.toml:2:3");
  EXPECT_EQ(refused("description = \"\"\"a \\\n  \xc2\xb7\"\"\"\n").where, "r.toml:1:20");
  EXPECT_EQ(from("\xef\xbb\xbf# \xc2\xb7\ndescription = '\xc2\xb7' # \xe3\x80\x81\n").recipe.description,
            "\xc2\xb7");
}

TEST(RecipeBadInput, UnknownKeysGetTheNearestOne) {
  const ErrorFields file = refused("[train]\nsteps = 1\nstpes = 2\n");
  EXPECT_EQ(file.where, "r.toml:3:1");
  EXPECT_THAT(file.what, HasSubstr("train.stpes"));
  EXPECT_THAT(file.expected, HasSubstr("train.steps"));
  EXPECT_EQ(file.hint, "write train.steps");
  const ErrorFields argument = refused("", {"train.lerning_rate=1"});
  EXPECT_THAT(argument.where, HasSubstr("command line: train.lerning_rate=1"));
  EXPECT_THAT(argument.expected, HasSubstr("optim.lr"));
  EXPECT_THAT(refused("[trian]\n").what, HasSubstr("no section trian"));
  EXPECT_EQ(refused("[trian]\n").hint, "write [train]");
  EXPECT_THAT(refused("", {"train.zzzzqqqq=1"}).expected, HasSubstr("one of train.task, train.steps"));
  EXPECT_THAT(refused("[train.deeper]\n").what, HasSubstr("train.deeper"));
}

TEST(RecipeBadInput, WrongTypesAndRangesSayWhatIsExpected) {
  const ErrorFields type = refused("[train]\nsteps = \"ten\"\n");
  EXPECT_EQ(type.where, "r.toml:2:1");
  EXPECT_EQ(type.expected, "a whole number of at least 1 (steps)");
  EXPECT_EQ(type.found, "\"ten\" (text)");
  EXPECT_EQ(refused("", {"train.steps=0"}).found, "0 (a whole number)");
  EXPECT_THAT(refused("", {"train.steps=1e6"}).hint, HasSubstr("1_000_000"));
  EXPECT_EQ(refused("", {"train.dtype=fp16"}).expected, "one of bf16, fp32, fp64");
  EXPECT_EQ(refused("", {"optim.lr=nan"}).expected, "a number from 0 to 100");
  EXPECT_THAT(refused("", {"optim.lr=-1"}).found, HasSubstr("-1"));
  EXPECT_THAT(refused("[train]\nsteps = 99999999999999999999\n").where, HasSubstr("r.toml:2"));
  EXPECT_THAT(refused("[train.steps]\n").found, HasSubstr("table"));
  EXPECT_THAT(refused("", {"optim.stages=[{from_step=1,learning=2}]"}).found, HasSubstr("learning"));
  EXPECT_THAT(refused("", {"optim.stages=[{from_step=-1}]"}).expected,
              HasSubstr("from_step = a whole number of at least 0"));
}

TEST(RecipeBadInput, ArgumentsThatAreNotKeyValue) {
  EXPECT_EQ(refused("", {"train.steps"}).found, "train.steps");
  EXPECT_EQ(refused("", {"=3"}).found, "=3");
  refused("", {"base=other.toml"});
  refused("", {"version=1"});
  // A line break cannot smuggle in a second key.
  EXPECT_EQ(load_defaults({"description=\"a\"\nvalue2 = 3"}).recipe.description, "\"a\"\nvalue2 = 3");
}

// A run would train to its end and then find that it cannot write its recipe down.
TEST(RecipeBadInput, TextThatIsNotUtf8IsRefusedWithItsKey) {
  for (const std::string key : {"sample.prompt", "description", "data.jsonl_field"}) {
    const ErrorFields fields = refused("", {key + "=a\xff"});
    EXPECT_THAT(fields.what, HasSubstr(key));
    EXPECT_THAT(fields.expected, HasSubstr("UTF-8"));
    EXPECT_EQ(fields.found, "\"a\\xff\" (text)");
    EXPECT_EQ(fields.where, "command line: " + key + "=a\\xff");
  }
  EXPECT_THAT(refused("", {"data.include=['.py','\xc3']"}).what, HasSubstr("data.include"));
  EXPECT_THAT(refused("", {"\xff=1"}).found, HasSubstr("\\xff"));
  EXPECT_THAT(refused("[sample]\nprompt = \"\xff\"\n").where, HasSubstr("r.toml:2"));
  EXPECT_EQ(load_defaults({"sample.prompt=\xc3\xa4"}).recipe.sample.prompt, "\xc3\xa4");
}

TEST(RecipeBadInput, NewerAndBrokenVersionsAreRefused) {
  EXPECT_THAT(refused("version = 2\n").what, HasSubstr("newer"));
  refused("version = 0\n");
  refused("version = \"one\"\n");
  refused("[version]\n");
}

TEST(RecipeBadInput, UnknownPresetsListTheKnownOnes) {
  const ErrorFields fields = refused("", {"model.preset=gpt-9"});
  EXPECT_THAT(fields.expected, testing::AllOf(HasSubstr("first-run, "), HasSubstr("gpt2-124m, ")));
  EXPECT_THAT(fields.where, HasSubstr("command line"));
  EXPECT_EQ(refused("", {"model.preset=gtp2-124m"}).hint, "model.preset=gpt2-124m");
}

TEST(RecipeBadInput, SizeAndDepthAreCapped) {
  EXPECT_THAT(refused(std::string(kRecipeSizeLimitBytes + 1, '\n')).what, HasSubstr("too large"));
  EXPECT_THAT(refused("a = " + std::string(100000, '[')).found, HasSubstr("nesting"));
  std::string dotted = "a";
  for (int i = 0; i < 100000; ++i) dotted += ".a";
  EXPECT_THAT(refused(dotted + " = 1\n").found, HasSubstr("nesting"));
  EXPECT_THAT(refused("[" + dotted + "]\n").found, HasSubstr("nesting"));
  std::string tables = "a = ";
  for (int i = 0; i < 50000; ++i) tables += "{a=";
  refused(tables);
  std::string spaced = "a";
  for (int i = 0; i < 20000; ++i) spaced += " . \"b.[\"";
  refused(spaced + "=1");
  EXPECT_EQ(load_defaults({"description=" + std::string(100000, '[')}).recipe.description.size(), 100000u);
  // What only looks deep is fine.
  EXPECT_EQ(from("description = '" + std::string(1000, '.') + "[[[['\n# " + std::string(1000, '[') + "\n")
                .recipe.description.size(),
            1004u);
}

}  // namespace
}  // namespace longhaul::recipe
