// Declarations: binding, types, ranges, names, lists, and guesses for unknown keys.
#include "recipe/options/option.h"

#include <gmock/gmock.h>

#include <cmath>

#include "recipe/recipe.h"

namespace longhaul::recipe {
namespace {

enum class Colour { kRed, kGreen };
EnumNames names_of(Colour) { return {"red", "green"}; }

struct Shelf {
  bool open = false;
  int64_t rows = 3;
  double width = 1.5;
  std::string label = "top";
  Colour colour = Colour::kGreen;
  std::vector<int64_t> sizes = {1, 2};
  std::vector<double> shares;
  std::vector<std::string> names;
  std::vector<Colour> pattern = {Colour::kRed};
};

void declare(OptionSet& set, Shelf& shelf) {
  set.add("shelf.open", shelf.open, "Open.");
  set.add("shelf.rows", shelf.rows, "Rows.").at_least(1).at_most(10).unit("rows").also_called({"lines"});
  set.add("shelf.width", shelf.width, "Width.").above(0);
  set.add("shelf.label", shelf.label, "Label.").one_of({"top", "bottom"}).may_change();
  set.add("shelf.colour", shelf.colour, "Colour.");
  set.add("shelf.sizes", shelf.sizes, "Sizes.").at_least(0);
  set.add("shelf.shares", shelf.shares, "Shares.");
  set.add("shelf.names", shelf.names, "Names.");
  set.add("shelf.pattern", shelf.pattern, "Pattern.");
}

Value text(const std::string& value) { return Value(value); }

TEST(RecipeOption, BindsEveryTypeToItsField) {
  Shelf shelf;
  OptionSet set;
  declare(set, shelf);
  set.find("shelf.open")->set(Value(true));
  set.find("shelf.rows")->set(Value(int64_t{7}));
  set.find("shelf.width")->set(Value(int64_t{2}));  // a whole number is a number
  set.find("shelf.label")->set(text("bottom"));
  set.find("shelf.colour")->set(text("red"));
  set.find("shelf.sizes")->set(text("4,5, 6"));
  set.find("shelf.shares")->set(Value(0.5));
  set.find("shelf.names")->set(text("a,b"));  // a path may hold a comma
  set.find("shelf.pattern")->set(Value(Value::List{text("red*2"), text("green")}));
  EXPECT_TRUE(shelf.open);
  EXPECT_EQ(shelf.rows, 7);
  EXPECT_EQ(shelf.width, 2.0);
  EXPECT_EQ(shelf.label, "bottom");
  EXPECT_EQ(shelf.colour, Colour::kRed);
  EXPECT_THAT(shelf.sizes, testing::ElementsAre(4, 5, 6));
  EXPECT_THAT(shelf.shares, testing::ElementsAre(0.5));
  EXPECT_THAT(shelf.names, testing::ElementsAre("a,b"));
  EXPECT_THAT(shelf.pattern, testing::ElementsAre(Colour::kRed, Colour::kRed, Colour::kGreen));
  EXPECT_EQ(set.find("shelf.pattern")->get().toml(), "[\"red*2\", \"green\"]");
  EXPECT_EQ(set.find("shelf.label")->on_resume, OnResume::kMayChange);
  EXPECT_EQ(set.find("shelf.rows")->on_resume, OnResume::kSame);
}

TEST(RecipeOption, RefusesAndLeavesTheFieldAsItWas) {
  Shelf shelf;
  OptionSet set;
  declare(set, shelf);
  auto refused = [&](const char* key, const Value& value) {
    const Option* option = set.find(key);
    const Value before = option->get();
    try {
      option->set(value);
      ADD_FAILURE() << key << " took " << value.toml();
    } catch (const Mismatch& mismatch) {
      EXPECT_EQ(mismatch.expected, option->expected_text());
      EXPECT_FALSE(mismatch.found.empty());
    }
    EXPECT_EQ(option->get(), before) << key;
  };
  refused("shelf.open", Value(int64_t{1}));
  refused("shelf.rows", Value(int64_t{0}));
  refused("shelf.rows", Value(int64_t{11}));
  refused("shelf.rows", Value(3.0));
  refused("shelf.width", Value(0.0));
  refused("shelf.width", Value(std::nan("")));
  refused("shelf.width", Value(INFINITY));
  refused("shelf.label", text("middle"));
  refused("shelf.label", Value(Value::List{}));
  refused("shelf.colour", text("blue"));
  refused("shelf.sizes", text("1,x"));
  refused("shelf.sizes", Value(Value::List{Value(int64_t{-1})}));
  refused("shelf.names", Value(Value::List{text("a"), Value(true)}));
  refused("shelf.names", text(std::string("a\0b", 3)));
  refused("shelf.pattern", Value(Value::List{}));
  refused("shelf.pattern", text("red*0"));
  refused("shelf.pattern", text("red*99999999999"));
  refused("shelf.pattern", text("red*1000001"));
}

TEST(RecipeOption, TextIsUtf8) {
  std::string label;
  OptionSet set;
  set.add("label", label, "Label.");
  EXPECT_THROW(set.find("label")->set(text("a\xff")), Mismatch);
  EXPECT_EQ(label, "");
}

TEST(RecipeOption, SaysWhatItExpects) {
  Shelf shelf;
  OptionSet set;
  declare(set, shelf);
  EXPECT_EQ(set.find("shelf.rows")->expected_text(), "a whole number from 1 to 10 (rows)");
  EXPECT_EQ(set.find("shelf.width")->expected_text(), "a number above 0");
  EXPECT_EQ(set.find("shelf.colour")->expected_text(), "one of red, green");
  EXPECT_EQ(set.find("shelf.pattern")->expected_text(),
            "a list of red, green; \"red*7\" stands for seven of them");
}

TEST(RecipeOption, GuessesWhatAnUnknownKeyMeant) {
  Recipe recipe;
  const OptionSet set = options_of(recipe);
  EXPECT_EQ(set.nearest("train.stpes"), "train.steps");
  EXPECT_EQ(set.nearest("train.sequense"), "train.sequence");
  EXPECT_EQ(set.nearest("steps"), "train.steps");
  EXPECT_EQ(set.nearest("--train.steps"), "train.steps");
  EXPECT_EQ(set.nearest("train.learning_rate"), "optim.lr");
  EXPECT_EQ(set.nearest("optim.Learning-Rate"), "optim.lr");
  EXPECT_EQ(set.nearest("model.n_layer"), "model.layers");
  EXPECT_EQ(set.nearest("parallel.dp"), "parallel.ranks");
  EXPECT_EQ(set.nearest("trian.seed"), "train.seed");
  EXPECT_EQ(set.nearest("zzzzqqqq"), "");
  EXPECT_EQ(set.nearest(""), "");
  EXPECT_EQ(set.nearest(std::string(100000, 'x')), "");
}

TEST(RecipeOption, EveryDeclarationIsWhole) {
  Recipe recipe;
  const OptionSet set = options_of(recipe);
  for (const Option& option : set.all()) {
    EXPECT_TRUE(option.help.ends_with('.')) << option.name;
    EXPECT_NO_THROW(option.set(option.get())) << option.name << ": its own default is refused";
    for (const std::string& other : option.also_called) EXPECT_EQ(set.find(other), nullptr) << other;
  }
  EXPECT_EQ(recipe, Recipe{});
}

TEST(RecipeOption, WritesValuesThatReadBack) {
  EXPECT_EQ(Value(1e-5).toml(), "1e-05");
  EXPECT_EQ(Value(10000.0).toml(), "10000.0");
  EXPECT_EQ(Value(0.1).toml(), "0.1");
  EXPECT_EQ(Value(std::string("a\"b\\\n\x01")).toml(), "\"a\\\"b\\\\\\n\\u0001\"");
  EXPECT_EQ(Value(Value::Table{{"lr", Value(0.5)}, {"batch", Value(int64_t{2})}}).toml(),
            "{ lr = 0.5, batch = 2 }");
  EXPECT_EQ(Value(std::string(200, 'a')).described(), "\"" + std::string(79, 'a') + "… (text)");
}

}  // namespace
}  // namespace longhaul::recipe
