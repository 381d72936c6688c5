// Texts that are held to JSON, to a schema and to calls of tools, as clients see them: whole and streamed.
// ctest: label=fast timeout=180
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "serve/small_server.h"

namespace longhaul::serve {
namespace {

using ::testing::HasSubstr;

class ServerForms : public ServerTest {};

json chat_request(const json& more) {
  json request = {{"messages", {{{"role", "user"}, {"content", "hello"}}}}, {"max_tokens", 600}, {"seed", 4}};
  request.update(more);
  return request;
}

json schema_format(const json& schema) {
  return {{"type", "json_schema"}, {"json_schema", {{"name", "it"}, {"strict", true}, {"schema", schema}}}};
}

const json kPerson = {{"type", "object"},
                      {"properties",
                       {{"name", {{"type", "string"}, {"maxLength", 6}}},
                        {"age", {{"type", "integer"}, {"minimum", 0}, {"maximum", 99}}}}},
                      {"required", {"name", "age"}},
                      {"additionalProperties", false}};

TEST_F(ServerForms, TextsFitTheSchema) {
  const json answer =
      ask("/v1/chat/completions", chat_request({{"response_format", schema_format(kPerson)}, {"n", 4}}));
  for (const json& choice : answer["choices"]) {
    const json person = json::parse(choice["message"]["content"].get<std::string>());
    EXPECT_EQ(person.size(), 2u);
    EXPECT_LE(person["age"].get<uint64_t>(), 99u);
    EXPECT_LE(person["name"].get<std::string>().size(), 24u);
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
  const json plain = ask(
      "/v1/completions",
      {{"prompt", "hello"}, {"max_tokens", 600}, {"seed", 4}, {"response_format", schema_format(kPerson)}});
  EXPECT_TRUE(json::parse(plain["choices"][0]["text"].get<std::string>()).is_object());
}

TEST_F(ServerForms, TextsAreJsonObjects) {
  // A closed bracket is made likely: an untrained model would go on for ever.
  const json answer = ask("/v1/completions", {{"prompt", "x"},
                                              {"max_tokens", 1500},
                                              {"seed", 4},
                                              {"logit_bias", {{"125", 20}, {"34", 15}, {"93", 20}}},
                                              {"response_format", {{"type", "json_object"}}}});
  const std::string text = answer["choices"][0]["text"];
  ASSERT_EQ(answer["choices"][0]["finish_reason"], "stop") << text;
  EXPECT_TRUE(json::parse(text).is_object()) << text;
}

TEST_F(ServerForms, SchemasThatCannotBeFollowedAreRefused) {
  const json answer = ask(
      "/v1/chat/completions",
      chat_request({{"response_format", schema_format({{"properties", {{"a", {{"pattern", "x"}}}}}})}}), 400);
  EXPECT_EQ(answer["error"]["param"], "response_format");
  EXPECT_THAT(answer["error"]["message"].get<std::string>(), HasSubstr("#/properties/a/pattern"));
}

json tools() {
  return {{{"type", "function"},
           {"function",
            {{"name", "weather"},
             {"parameters",
              {{"type", "object"},
               {"properties", {{"city", {{"enum", {"Rome", "Oslo"}}}}}},
               {"required", {"city"}},
               {"additionalProperties", false}}}}}},
          {{"type", "function"}, {"function", {{"name", "now"}}}}};
}

void expect_weather(const json& call) {
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "weather");
  const json arguments = json::parse(call["function"]["arguments"].get<std::string>());
  EXPECT_TRUE(arguments["city"] == "Rome" || arguments["city"] == "Oslo") << arguments;
}

TEST_F(ServerForms, ANamedToolIsCalled) {
  json request = chat_request(
      {{"tools", tools()}, {"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}}});
  const json answer = ask("/v1/chat/completions", request);
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  expect_weather(choice["message"]["tool_calls"][0]);

  request["stream"] = true;
  std::string content, reason;
  json calls = json::array();
  for (const json& event : events_of(post("/v1/chat/completions", request.dump()).body)) {
    const json& delta = event["choices"][0]["delta"];
    content += delta.value("content", "");
    for (const json& call : delta.value("tool_calls", json::array())) {
      EXPECT_EQ(call["index"], calls.size());
      calls.push_back(call);
    }
    if (!event["choices"][0]["finish_reason"].is_null()) reason = event["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(content, "");
  EXPECT_EQ(reason, "tool_calls");
  ASSERT_EQ(calls.size(), 1u);
  expect_weather(calls[0]);
}

TEST_F(ServerForms, SomeToolIsCalledWhereOneIsRequired) {
  const json answer =
      ask("/v1/chat/completions", chat_request({{"tools", tools()},
                                                {"tool_choice", "required"},
                                                {"parallel_tool_calls", false},
                                                {"logit_bias", {{"125", 20}, {"34", 15}, {"93", 20}}},
                                                {"n", 4}}));
  for (const json& choice : answer["choices"]) {
    const json& calls = choice["message"]["tool_calls"];
    ASSERT_EQ(calls.size(), 1u) << choice;
    if (calls[0]["function"]["name"] == "weather") expect_weather(calls[0]);
  }
}

// Without tools in the request, what looks like a call is text.
TEST_F(ServerForms, CallsAreReadWhereThereAreToolsAlone) {
  const json format = schema_format({{"const", "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>"}});
  const json answer = ask("/v1/chat/completions", chat_request({{"response_format", format}}));
  EXPECT_FALSE(answer["choices"][0]["message"].contains("tool_calls"));
  EXPECT_THAT(answer["choices"][0]["message"]["content"].get<std::string>(), HasSubstr("<tool_call>"));
}

}  // namespace
}  // namespace longhaul::serve
