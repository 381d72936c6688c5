#include "recipe/sections/outside_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OutsideLists, AreOptionsLikeAnyList) {
  OutsideOptions outside;
  OptionSet set;
  add_outside_list(set, "pictures.colours", outside_list(outside, "pictures.colours", {"red", "dark blue"}),
                   "Colours.");
  const Option& option = *set.find("pictures.colours");
  EXPECT_EQ(option.kind, Kind::kTexts);
  EXPECT_EQ(option.get(), Value::list(std::vector<std::string>{"red", "dark blue"}));
  option.set(Value::list(std::vector<std::string>{"a,b", ""}));
  EXPECT_THAT(list_of(outside, "pictures.colours"), ElementsAre("a,b", ""));
  option.set(Value(std::string("green")));
  EXPECT_THAT(list_of(outside, "pictures.colours"), ElementsAre("green")) << "one text is a list of one";
  option.set(Value::list(std::vector<std::string>{}));
  EXPECT_THAT(list_of(outside, "pictures.colours"), IsEmpty());
  EXPECT_THROW(option.set(Value(int64_t{3})), Mismatch);
}

}  // namespace
}  // namespace longhaul::recipe
