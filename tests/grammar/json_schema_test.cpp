// Texts that fit a schema and texts that do not, by hand; texts drawn byte by byte from a grammar, read by
// nlohmann's parser and judged by rules written here; and schemas that are refused.
#include "grammar/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "grammar/grammar_states.h"
#include "grammar/json_grammar.h"

namespace longhaul::grammar {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::HasSubstr;

// Whether a whole text is one of the grammar.
bool takes(const Grammar& grammar, std::string_view text) {
  GrammarStates states(grammar);
  State state = states.start();
  for (const char byte : text) {
    state = states.after(state, static_cast<unsigned char>(byte));
    if (state == kNoState) return false;
  }
  return states.may_end(state);
}

bool schema_takes(const std::string& schema, std::string_view text) {
  return takes(json_schema_grammar(ordered_json::parse(schema)), text);
}

// A text of the grammar: at each place one of the bytes that may come, by chance. Ends where it may with one
// chance in `patience`.
std::string drawn_text(GrammarStates& states, uint64_t seed, uint64_t patience) {
  const RandomStream random(seed, "tests/grammar");
  State state = states.start();
  std::string text;
  for (uint64_t draw = 0; !states.must_end(state); ++draw) {
    if (states.may_end(state) && random.bits(2 * draw) % patience == 0) break;
    std::vector<unsigned char> bytes;
    for (int byte = 0; byte < 256; ++byte) {
      if (states.after(state, static_cast<unsigned char>(byte)) != kNoState)
        bytes.push_back(static_cast<unsigned char>(byte));
    }
    EXPECT_FALSE(bytes.empty()) << "a dead end after " << text;
    if (bytes.empty()) break;
    // Closing signs are likelier than chance has them, so that texts end.
    unsigned char byte = bytes[random.bits(2 * draw + 1) % bytes.size()];
    for (const unsigned char closing : {']', '}', '"'}) {
      if (text.size() > 200 && std::ranges::find(bytes, closing) != bytes.end()) byte = closing;
    }
    text += static_cast<char>(byte);
    state = states.after(state, byte);
  }
  return text;
}

std::string refusal_of(const std::string& schema) {
  try {
    json_schema_grammar(ordered_json::parse(schema));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.fields().where + " " + error.fields().found;
  }
  return "taken";
}

TEST(JsonObjectGrammar, TakesWhatParsersReadAndNothingElse) {
  const Grammar grammar = json_object_grammar();
  for (const char* text :
       {"{}", " {}", "{\"a\":1}",
        "{\"a\": [1, -2.5e+10, true, null], \"b\": {\"\": \"\\u00e9\\n\\ud83d\\ude00é😀\"}}",
        "{\n  \"a\": [\n    []\n  ]\n}", "{\"n\": 0, \"m\": -0.5, \"e\": 1E5}"}) {
    EXPECT_TRUE(takes(grammar, text)) << text;
    EXPECT_FALSE(json::parse(text, nullptr, false).is_discarded()) << text;
  }
  for (const char* text : {"",
                           "[]",
                           "1",
                           "{",
                           "{}}",
                           "{} ",
                           "{,}",
                           "{\"a\":}",
                           "{\"a\" 1}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":.5}",
                           "{\"a\":+1}",
                           "{\"a\":\"\n\"}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\ud83d\"}",
                           "{\"a\":\"\\ude00\"}",
                           "{\"a\":'b'}",
                           "{\"a\":NaN}",
                           "{\"a\":[1,]}",
                           "{\"a\":[,1]}",
                           "{\"a\":tru}",
                           "{\"a\":\"\xff\"}",
                           "{\"a\":\"\xc0\xaf\"}",
                           "{\"a\":\"\xed\xa0\x80\"}",
                           "{\"a\":\"\xf4\x90\x80\x80\"}"}) {
    EXPECT_FALSE(takes(grammar, text)) << text;
  }
}

TEST(JsonObjectGrammar, TextsByChanceCanBeRead) {
  GrammarStates states(json_object_grammar());
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::string text = drawn_text(states, seed, 3);
    ASSERT_TRUE(json::parse(text, nullptr, false).is_object()) << text;
  }
}

// White space is bounded: a model that writes spaces without end cannot.
TEST(JsonObjectGrammar, WhiteSpaceEnds) {
  const Grammar grammar = json_object_grammar();
  EXPECT_TRUE(takes(grammar, "{\n" + std::string(20, ' ') + "}"));
  EXPECT_FALSE(takes(grammar, "{\n" + std::string(21, ' ') + "}"));
  EXPECT_FALSE(takes(grammar, "{  }"));
}

TEST(JsonSchemaGrammar, Members) {
  const std::string schema = R"({"type": "object", "properties": {"name": {"type": "string"},
      "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
      "required": ["name", "tags"], "additionalProperties": false})";
  EXPECT_TRUE(schema_takes(schema, R"({"name": "a", "age": 3, "tags": ["x", "y"]})"));
  EXPECT_TRUE(schema_takes(schema, R"({"name":"a","tags":[]})"));
  EXPECT_FALSE(schema_takes(schema, R"({"name": "a"})"));
  EXPECT_FALSE(schema_takes(schema, R"({"tags": [], "name": "a"})")) << "in the order of the schema";
  EXPECT_FALSE(schema_takes(schema, R"({"name": "a", "tags": [1]})"));
  EXPECT_FALSE(schema_takes(schema, R"({"name": "a", "age": 1.5, "tags": []})"));
  EXPECT_FALSE(schema_takes(schema, R"({"name": "a", "tags": [], "more": 1})"));
  EXPECT_FALSE(schema_takes(schema, R"({"name": "a", "tags": [],})"));
}

TEST(JsonSchemaGrammar, OptionalMembersHaveTheirCommas) {
  const std::string schema = R"({"properties": {"a": {"type": "null"}, "b": {"type": "null"},
      "c": {"type": "null"}}})";
  for (int mask = 0; mask < 8; ++mask) {
    std::string text;
    for (int i = 0; i < 3; ++i) {
      if ((mask >> i & 1) != 0) text += fmt::format("{}\"{}\":null", text.empty() ? "" : ",", "abc"[i]);
    }
    EXPECT_TRUE(schema_takes(schema, "{" + text + "}")) << text;
    EXPECT_FALSE(schema_takes(schema, "{" + text + ",}")) << text;
    EXPECT_FALSE(schema_takes(schema, "{," + text + "}")) << text;
  }
}

TEST(JsonSchemaGrammar, OtherMembersAreNoneOfTheDeclared) {
  const std::string schema = R"({"properties": {"ab": {"type": "null"}, "abc": {"type": "null"}},
      "additionalProperties": {"type": "integer"}})";
  EXPECT_TRUE(schema_takes(schema, R"({"ab":null,"abc":null,"a":1,"abd":2,"":3,"é":4})"));
  EXPECT_TRUE(schema_takes(schema, R"({"abcd":1})"));
  EXPECT_FALSE(schema_takes(schema, R"({"ab":1})"));
  EXPECT_FALSE(schema_takes(schema, R"({"abc":1})"));
  EXPECT_FALSE(schema_takes(schema, R"({"a":null})"));
  EXPECT_TRUE(
      schema_takes(R"({"type": "object", "additionalProperties": {"type": "integer"}})", R"({"x":1})"));
  EXPECT_FALSE(
      schema_takes(R"({"type": "object", "additionalProperties": {"type": "integer"}})", R"({"x":""})"));
  EXPECT_FALSE(schema_takes(R"({"type": "object", "additionalProperties": false})", R"({"x":1})"));
  EXPECT_TRUE(schema_takes(R"({"type": "object"})", R"({"x":{"y":[1]}})"));
}

TEST(JsonSchemaGrammar, Lists) {
  const std::string bounded =
      R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3})";
  EXPECT_FALSE(schema_takes(bounded, "[]"));
  EXPECT_TRUE(schema_takes(bounded, "[true]"));
  EXPECT_TRUE(schema_takes(bounded, "[true, false,true]"));
  EXPECT_FALSE(schema_takes(bounded, "[true, false, true, true]"));
  const std::string pair = R"({"prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false})";
  for (const char* text : {"[]", "[null]", "[null,true]"}) EXPECT_TRUE(schema_takes(pair, text)) << text;
  for (const char* text : {"[true]", "[null,null]", "[null,true,true]"})
    EXPECT_FALSE(schema_takes(pair, text)) << text;
  const std::string begun =
      R"({"prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "minItems": 2,
      "maxItems": 3})";
  for (const char* text : {"[null,true]", "[null,true,false]"})
    EXPECT_TRUE(schema_takes(begun, text)) << text;
  for (const char* text : {"[]", "[null]", "[null,true,false,true]"})
    EXPECT_FALSE(schema_takes(begun, text)) << text;
  const std::string cut =
      R"({"prefixItems": [{"type": "null"}, {"type": "null"}], "items": {"type": "boolean"},
      "maxItems": 1})";
  EXPECT_TRUE(schema_takes(cut, "[null]"));
  EXPECT_FALSE(schema_takes(cut, "[null,null]"));
  EXPECT_TRUE(schema_takes(R"({"type": "array", "maxItems": 0})", "[]"));
  EXPECT_FALSE(schema_takes(R"({"type": "array", "maxItems": 0})", "[1]"));
}

TEST(JsonSchemaGrammar, LengthsCountCharacters) {
  const std::string schema = R"({"type": "string", "minLength": 2, "maxLength": 3})";
  for (const char* text : {R"("ab")", R"("éé😀")", R"("\n\u00e9")", R"("\ud83d\ude00x")"})
    EXPECT_TRUE(schema_takes(schema, text)) << text;
  for (const char* text : {R"("a")", R"("abcd")", R"("é")", R"("\ud83d\ude00")"})
    EXPECT_FALSE(schema_takes(schema, text)) << text;
}

TEST(JsonSchemaGrammar, IntegersBetweenBounds) {
  struct Case {
    int64_t least, most;
  };
  for (const Case& bounds :
       {Case{0, 0}, {0, 9}, {7, 123}, {98, 103}, {-5, 5}, {-120, -7}, {999, 1001}, {10, 19}}) {
    const Grammar grammar =
        json_schema_grammar({{"type", "integer"}, {"minimum", bounds.least}, {"maximum", bounds.most}});
    for (int64_t value = -1300; value <= 1300; ++value)
      ASSERT_EQ(takes(grammar, std::to_string(value)), value >= bounds.least && value <= bounds.most)
          << value << " in " << bounds.least << " … " << bounds.most;
    EXPECT_FALSE(takes(grammar, "00") || takes(grammar, "-0") || takes(grammar, "1.0"));
  }
  EXPECT_TRUE(schema_takes(R"({"type": "integer", "minimum": 5})", "123456789012345678"));
  EXPECT_FALSE(schema_takes(R"({"type": "integer", "minimum": 5})", "4"));
  EXPECT_TRUE(schema_takes(R"({"type": "integer"})", "-17"));
}

TEST(JsonSchemaGrammar, ChoicesAndReferences) {
  EXPECT_TRUE(schema_takes(R"({"enum": ["a\"b", 3, null, {"x": [1]}]})", R"({"x":[1]})"));
  EXPECT_TRUE(schema_takes(R"({"enum": ["a\"b", 3, null]})", R"("a\"b")"));
  EXPECT_FALSE(schema_takes(R"({"enum": ["a", 3]})", "4"));
  EXPECT_TRUE(schema_takes(R"({"const": "yes"})", R"("yes")"));
  EXPECT_TRUE(schema_takes(R"({"anyOf": [{"type": "null"}, {"type": "integer"}]})", "12"));
  EXPECT_TRUE(schema_takes(R"({"type": ["string", "null"]})", "null"));
  EXPECT_FALSE(schema_takes(R"({"type": ["string", "null"]})", "true"));
  const std::string tree = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
      "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
      "required": ["value"]}}})";
  EXPECT_TRUE(schema_takes(tree, R"({"value":1,"children":[{"value":2},{"value":3,"children":[]}]})"));
  EXPECT_FALSE(schema_takes(tree, R"({"value":1,"children":[{"children":[]}]})"));
  EXPECT_TRUE(schema_takes(R"({"type": "array", "items": {"$ref": "#"}})", "[[],[[]]]"));
}

// Of what a schema allows, texts by chance: judged by rules written here.
TEST(JsonSchemaGrammar, TextsByChanceFit) {
  GrammarStates states(json_schema_grammar(ordered_json::parse(R"({"type": "object", "properties": {
      "kind": {"enum": ["cat", "dog"]}, "weight": {"type": "number"},
      "legs": {"type": "integer", "minimum": 0, "maximum": 8},
      "owner": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"name": {"type": "string",
          "minLength": 1, "maxLength": 4}}, "required": ["name"], "additionalProperties": false}]}},
      "required": ["kind", "owner"], "additionalProperties": false})")));
  int without_legs = 0, with_owner = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = drawn_text(states, seed, 3);
    const json animal = json::parse(text, nullptr, false);
    ASSERT_TRUE(animal.is_object()) << text;
    for (const auto& [key, value] : animal.items())
      ASSERT_TRUE(key == "kind" || key == "weight" || key == "legs" || key == "owner") << text;
    ASSERT_TRUE(animal.at("kind") == "cat" || animal.at("kind") == "dog") << text;
    ASSERT_TRUE(!animal.contains("weight") || animal["weight"].is_number()) << text;
    if (animal.contains("legs")) {
      ASSERT_LE(animal["legs"].get<uint64_t>(), 8U) << text;
    }
    without_legs += animal.contains("legs") ? 0 : 1;
    const json& owner = animal.at("owner");
    if (owner.is_null()) continue;
    ++with_owner;
    ASSERT_EQ(owner.size(), 1U) << text;
    ASSERT_FALSE(owner.at("name").get<std::string>().empty()) << text;
  }
  EXPECT_GT(without_legs, 0);
  EXPECT_GT(with_owner, 0);
}

TEST(JsonSchemaGrammar, RefusesWhatItCannotHoldTo) {
  EXPECT_THAT(refusal_of(R"({"type": "string", "pattern": "a+"})"), HasSubstr("#/pattern 'pattern'"));
  EXPECT_THAT(refusal_of(R"({"properties": {"a": {"not": {}}}})"), HasSubstr("#/properties/a/not"));
  EXPECT_THAT(refusal_of(R"({"type": "sting"})"), HasSubstr("#/type 'sting'"));
  EXPECT_THAT(refusal_of(R"({"type": "number", "minimum": 2})"), HasSubstr("of a number"));
  EXPECT_THAT(refusal_of(R"({"$ref": "other.json#/a"})"), HasSubstr("other.json"));
  EXPECT_THAT(refusal_of(R"({"$ref": "#/$defs/none"})"), HasSubstr("#/$defs/none"));
  EXPECT_THAT(refusal_of(R"({"enum": []})"), HasSubstr("#/enum"));
  EXPECT_THAT(refusal_of(R"({"type": "array", "minItems": 3, "maxItems": 2})"), HasSubstr("minItems 3"));
  EXPECT_THAT(refusal_of(R"({"type": "integer", "minimum": 3, "maximum": 2})"), HasSubstr("minimum 3"));
  EXPECT_THAT(refusal_of(R"({"minimum": 3})"), HasSubstr("none"));
  EXPECT_THAT(refusal_of(R"({"allOf": [{}, {}]})"), HasSubstr("#/allOf 2"));
  EXPECT_THAT(refusal_of(R"([1])"), HasSubstr("array"));
  EXPECT_THAT(refusal_of(R"({"type": "string", "maxLength": 1000000000})"), HasSubstr("more"));
}

// A schema that only endless texts would fit, and a way out of one that is left.
TEST(JsonSchemaGrammar, EndlessTextsAreNoTexts) {
  EXPECT_THAT(refusal_of(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("none fits"));
  EXPECT_THAT(refusal_of("false"), HasSubstr("none fits"));
  EXPECT_THAT(refusal_of(R"({"$ref": "#"})"), HasSubstr("none fits"));
  const std::string way_out = R"({"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#"}, false]},
      "b": {"type": "null"}}})";
  EXPECT_TRUE(schema_takes(way_out, R"({"a":{"a":{}},"b":null})"));
  const std::string closed =
      R"({"anyOf": [{"type": "null"}, {"properties": {"a": false}, "required": ["a"]}]})";
  GrammarStates states(json_schema_grammar(ordered_json::parse(closed)));
  EXPECT_EQ(states.after(states.start(), '{'), kNoState) << "nothing that ends begins so";
}

std::string deep_schema(int levels) {
  std::string schema = R"({"type":"null"})";
  for (int i = 0; i < levels; ++i) schema = R"({"type":"array","items":)" + schema + "}";
  return schema;
}

TEST(JsonSchemaGrammar, DepthIsBounded) {
  EXPECT_EQ(refusal_of(deep_schema(60)), "taken");
  EXPECT_THAT(refusal_of(deep_schema(70)), HasSubstr("more"));
}

TEST(ToolCallGrammar, NamesAToolAndItsArguments) {
  const std::vector<CallableTool> tools = {
      {"weather", ordered_json::parse(R"({"type": "object", "properties": {"city": {"type": "string"}},
                                         "required": ["city"]})")},
      {"now", nullptr}};
  const CallForm form{"<tool_call>\n", "\n</tool_call>", "arguments", true};
  const Grammar grammar = tool_call_grammar(form, tools);
  const std::string one =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rom\"}}\n</tool_call>";
  const std::string two = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(takes(grammar, one));
  EXPECT_TRUE(takes(grammar, one + "\n" + two));
  EXPECT_FALSE(takes(grammar, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(takes(grammar, "<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(takes(grammar, ""));
  const Grammar alone = tool_call_grammar({"", "", "parameters", false}, {tools[1]});
  EXPECT_TRUE(takes(alone, "{\"name\": \"now\", \"parameters\": {\"a\": 1}}"));
  EXPECT_FALSE(takes(alone, "{\"name\": \"weather\", \"parameters\": {}}"));
}

}  // namespace
}  // namespace longhaul::grammar
