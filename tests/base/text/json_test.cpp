#include "base/text/json.h"

#include <gmock/gmock.h>

namespace longhaul {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr JsonRules kRules = {.code = ExitCode::kCheckpoint,
                              .what = "a bad paper",
                              .hint = "write it again",
                              .depth = 3,
                              .string_bytes = 8};

template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckpoint);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("a bad paper"), HasSubstr("paper.json"), HasSubstr("write it again")));
    return error.what();
  }
  ADD_FAILURE() << "taken";
  return "";
}

std::string parsing(std::string_view text) {
  return refusal([&] { parse_json(text, "paper.json", kRules); });
}

TEST(StrictJson, RefusesWhatIsTooDeepTooLongOrTwice) {
  EXPECT_EQ(parse_json(R"({"a": [{"b": 1}], "c": "12345678"})", "paper.json", kRules).dump(),
            R"({"a":[{"b":1}],"c":"12345678"})");
  EXPECT_EQ(parse_json(R"([{"a": 1}, {"a": 1}])", "paper.json", kRules).size(), 2u)
      << "one key in two objects";
  EXPECT_THAT(parsing(R"({"a": [{"b": []}]})"), HasSubstr("3 levels"));
  EXPECT_THAT(parsing(std::string(100'000, '[')), HasSubstr("3 levels"));
  EXPECT_THAT(parsing(R"({"a": "123456789"})"), HasSubstr("9 bytes"));
  EXPECT_THAT(parsing(R"({"123456789": 1})"), HasSubstr("9 bytes"));
  EXPECT_THAT(parsing(R"({"a": 1, "b": {"a": 2}, "a": 3})"), HasSubstr("a key twice"));
  EXPECT_THAT(parsing("{\"a\": 1"), HasSubstr("JSON in UTF-8"));
  EXPECT_THAT(parsing("{} {}"), HasSubstr("JSON in UTF-8"));
  EXPECT_THAT(parsing("\"\xff\""), HasSubstr("JSON in UTF-8"));
  EXPECT_THAT(parsing(std::string_view("{}\0{", 4)), HasSubstr("NUL"));
}

TEST(StrictJson, AViewSaysWhereItStands) {
  const nlohmann::json json = nlohmann::json::parse(
      R"({"a": [{"n": 7}, {"n": 18446744073709551615}], "t": true, "s": "x", "z": null, "d": 1.5})");
  const JsonView root(json, "paper.json:", kRules);
  EXPECT_EQ(root.at("a").at(0).at("n").integer(0, 7), 7);
  EXPECT_THAT(refusal([&] { root.at("a").at(0).at("n").integer(8); }),
              AllOf(HasSubstr("paper.json:/a/0/n"), HasSubstr("from 8"), HasSubstr("7")));
  EXPECT_THAT(refusal([&] { root.at("a").at(0).at("n").integer(0, 6); }), HasSubstr("from 0 to 6"));
  EXPECT_THAT(refusal([&] { root.at("a").at(1).at("n").integer(); }), HasSubstr("/a/1/n"));
  EXPECT_THAT(refusal([&] { root.at("d").integer(); }), HasSubstr("1.5"));
  EXPECT_THAT(refusal([&] { root.at("b"); }), HasSubstr("\"b\""));
  EXPECT_THAT(refusal([&] { root.at("s").at("b"); }), HasSubstr("an object"));
  EXPECT_THAT(refusal([&] { root.at("s").array_size(); }), HasSubstr("an array"));
  EXPECT_THAT(refusal([&] { root.at("t").string(); }), HasSubstr("a string"));
  EXPECT_THAT(refusal([&] { root.at("s").boolean(); }), HasSubstr("true or false"));
  EXPECT_THAT(refusal([&] { root.at("s").number(); }), HasSubstr("a number"));
  EXPECT_EQ(root.at("d").number(), 1.5);
  EXPECT_FALSE(root.has("z"));
  EXPECT_TRUE(root.boolean_or("t", false));
  EXPECT_TRUE(root.boolean_or("z", true));
}

TEST(StrictJson, FieldsLeaveNothingOver) {
  const nlohmann::json json =
      nlohmann::json::parse(R"({"text": "x", "n": 3, "list": [1, 2], "of": {}, "more": []})");
  JsonFields fields({json, "paper.json:", kRules});
  EXPECT_EQ(fields.text("text"), "x");
  EXPECT_EQ(fields.integer("n", 3), 3);
  EXPECT_THAT(fields.integers("list", 2), ElementsAre(1, 2));
  EXPECT_TRUE(fields.object("of").empty());
  EXPECT_THAT(refusal([&] { fields.finish(); }), HasSubstr("fields"));
  EXPECT_TRUE(fields.array("more").empty());
  EXPECT_NO_THROW(fields.finish());
  EXPECT_THAT(refusal([&] { fields.integers("list", 1); }), HasSubstr("at most 1"));
  EXPECT_THAT(refusal([&] { fields.object("more"); }), HasSubstr("an object"));
  EXPECT_THAT(refusal([&] { fields.array("of"); }), HasSubstr("an array"));
  EXPECT_THAT(refusal([&] { JsonFields({json.at("list"), "paper.json:", kRules}); }), HasSubstr("an object"));
  const nlohmann::json negative = nlohmann::json::parse(R"({"list": [1, -2]})");
  EXPECT_THAT(refusal([&] {
                JsonFields({negative, "paper.json:", kRules}).integers("list", 9);
              }),
              HasSubstr("/list/1"));
}

}  // namespace
}  // namespace longhaul
