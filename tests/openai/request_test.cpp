// Requests of OpenAI's interface: what is read, and how what cannot be right is refused.
#include "openai/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openai/response.h"

namespace longhaul::openai {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

nlohmann::json refusal_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 400);
    return nlohmann::json::parse(error.json())["error"];
  }
  return {{"message", "none"}};
}

TEST(FormOfATextRead, AsTheClientWroteIt) {
  const CompletionRequest object =
      read_completion_request(R"({"prompt": "x", "response_format": {"type": "json_object"}})");
  EXPECT_EQ(object.options.form, TextForm::kJsonObject);
  const CompletionRequest schema = read_completion_request(
      R"({"prompt": "x", "response_format": {"type": "json_schema", "json_schema":
          {"name": "n", "strict": true, "schema": {"properties": {"z": {}, "a": {}}}}}})");
  EXPECT_EQ(schema.options.form, TextForm::kJsonSchema);
  EXPECT_EQ(schema.options.schema.dump(), R"({"properties":{"z":{},"a":{}}})") << "in its order";
}

TEST(ToolChoiceRead, RequiredAndNamed) {
  const std::string begin = R"({"messages": [{"role": "user"}], "tools": [{"function": {"name": "f"}}], )";
  EXPECT_EQ(read_chat_request(begin + R"("tool_choice": "auto"})").tool_choice, ToolChoice::kAuto);
  const CompletionRequest required =
      read_chat_request(begin + R"("tool_choice": "required", "parallel_tool_calls": false})");
  EXPECT_EQ(required.tool_choice, ToolChoice::kRequired);
  EXPECT_FALSE(required.parallel_tool_calls);
  const CompletionRequest named =
      read_chat_request(begin + R"("tool_choice": {"type": "function", "function": {"name": "f"}}})");
  EXPECT_EQ(named.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(named.tool, "f");
}

TEST(CompletionRequests, AreReadAsTheyAreWritten) {
  const CompletionRequest request = read_completion_request(R"({
    "model": "m", "prompt": ["a", [1, 2]], "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "n": 3,
    "seed": -2, "stop": ["x", "\n"], "stop_token_ids": [4], "ignore_eos": true, "min_tokens": 2, "logprobs": 2, "stream": true,
    "stream_options": {"include_usage": true}, "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.2,
    "logit_bias": {"50": -100, "7": 2.5}, "loop_tokens": 9, "user": "u", "best_of": 3, "suffix": null, "response_format": {"type": "text"}})");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.prompts.size(), 2u);
  EXPECT_EQ(request.prompts[0].text, "a");
  EXPECT_THAT(request.prompts[1].ids, ElementsAre(1, 2));
  const TextOptions& options = request.options;
  EXPECT_EQ(options.max_tokens, 5);
  EXPECT_EQ(options.temperature, 0.5);
  EXPECT_EQ(options.top_p, 0.9);
  EXPECT_EQ(options.top_k, 7);
  EXPECT_EQ(options.min_p, 0.1);
  EXPECT_EQ(options.n, 3);
  EXPECT_EQ(options.seed, static_cast<uint64_t>(-2));
  EXPECT_THAT(options.stop, ElementsAre("x", "\n"));
  EXPECT_THAT(options.stop_token_ids, ElementsAre(4));
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_EQ(options.min_tokens, 2);
  EXPECT_TRUE(options.logprobs);
  EXPECT_EQ(options.top_logprobs, 2);
  EXPECT_TRUE(options.stream);
  EXPECT_TRUE(options.stream_usage);
  EXPECT_EQ(options.presence_penalty, 1);
  EXPECT_EQ(options.frequency_penalty, -1);
  EXPECT_EQ(options.repetition_penalty, 1.2);
  EXPECT_THAT(options.logit_bias, ::testing::UnorderedElementsAre(Pair(50, -100), Pair(7, 2.5)));
  EXPECT_EQ(options.loop_tokens, 9);
}

TEST(CompletionRequests, HaveOpenAisDefaults) {
  const CompletionRequest request = read_completion_request(R"({"prompt": [5, 6, 7]})");
  EXPECT_EQ(request.options.max_tokens, 16);
  EXPECT_EQ(request.options.temperature, 1);
  EXPECT_EQ(request.options.top_p, 1);
  EXPECT_EQ(request.options.n, 1);
  EXPECT_FALSE(request.options.seed.has_value());
  EXPECT_FALSE(request.options.logprobs);
  ASSERT_EQ(request.prompts.size(), 1u) << "one prompt of three ids";
  EXPECT_THAT(request.prompts[0].ids, ElementsAre(5, 6, 7));
  EXPECT_FALSE(read_chat_request(R"({"messages": [{"role": "user", "content": "x"}]})")
                   .options.max_tokens.has_value());
}

TEST(ChatRequests, KeepMessagesAndToolsAsTheyAreWritten) {
  const CompletionRequest request = read_chat_request(R"({
    "messages": [{"role": "user", "content": "hi", "z": 1, "a": 2}], "tools": [{"type": "function", "function": {"name": "f", "b": 1, "a": 2}}],
    "tool_choice": "auto", "max_completion_tokens": 4, "logprobs": true, "top_logprobs": 1, "reasoning_effort": "low"})");
  EXPECT_EQ(request.messages.dump(), R"([{"role":"user","content":"hi","z":1,"a":2}])");
  EXPECT_EQ(request.tools[0]["function"].dump(), R"({"name":"f","b":1,"a":2})");
  EXPECT_EQ(request.options.max_tokens, 4);
  EXPECT_EQ(request.template_variables["reasoning_effort"], "low");
  EXPECT_TRUE(read_chat_request(R"({"messages": [{"role": "user"}], "tools": [], "tool_choice": "none"})")
                  .tools.is_null());
}

TEST(Requests, RefuseWhatCannotBeRightAndNameTheField) {
  const std::pair<const char*, const char*> completions[] = {
      {R"({"prompt": "x", "temperature": 3})", "temperature"},
      {R"({"prompt": "x", "temperature": "hot"})", "temperature"},
      {R"({"prompt": "x", "max_tokens": -1})", "max_tokens"},
      {R"({"prompt": "x", "max_tokens": 1.5})", "max_tokens"},
      {R"({"prompt": "x", "n": 0})", "n"},
      {R"({"prompt": "x", "n": 99999999999999999999})", "n"},
      {R"({"prompt": [1, -2]})", "prompt"},
      {R"({"prompt": [1, 2.5]})", "prompt"},
      {R"({"prompt": [1, 18446744073709551615]})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [{}]})", "prompt"},
      {R"({})", "prompt"},
      {R"({"prompt": "x", "stop": [""]})", "stop"},
      {R"({"prompt": "x", "stop": [1]})", "stop"},
      {R"({"prompt": "x", "logit_bias": {"a": 1}})", "logit_bias"},
      {R"({"prompt": "x", "logit_bias": {"1": 101}})", "logit_bias"},
      {R"({"prompt": "x", "logit_bias": [1]})", "logit_bias"},
      {R"({"prompt": "x", "stop_token_ids": [-1]})", "stop_token_ids"},
      {R"({"prompt": "x", "best_of": 2})", "best_of"},
      {R"({"prompt": "x", "suffix": "y"})", "suffix"},
      {R"({"prompt": "x", "echo": true, "logprobs": 0})", "echo"},
      {R"({"prompt": "x", "stream_options": {}})", "stream_options"},
      {R"({"prompt": "x", "response_format": {"type": "grammar"}})", "response_format.type"},
      {R"({"prompt": "x", "response_format": {"type": "json_schema"}})", "response_format.json_schema"},
      {R"({"prompt": "x", "response_format": "json"})", "response_format"},
      {R"({"prompt": "x", "experts": 3})", "experts"},
      {R"({"prompt": "x", "experts": "all"})", "experts"},
      {R"({"prompt": "x", "temprature": 1})", "temprature"}};
  for (const auto& [body, field] : completions) {
    const nlohmann::json error = refusal_of([&] { read_completion_request(body); });
    EXPECT_EQ(error["param"], field) << body << " " << error;
    EXPECT_EQ(error["type"], "invalid_request_error") << body;
  }
  const std::pair<const char*, const char*> chats[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": ["x"]})", "messages"},
      {R"({"messages": [{"content": "x"}]})", "messages"},
      {R"({"messages": [{"role": "user"}], "top_logprobs": 2})", "top_logprobs"},
      {R"({"messages": [{"role": "user"}], "tool_choice": "required"})", "tool_choice"},
      {R"({"messages": [{"role": "user"}], "tools": [{"function": {"name": "f"}}], "tool_choice": "any"})",
       "tool_choice"},
      {R"({"messages": [{"role": "user"}], "tools": [{"function": {"name": "f"}}],
           "tool_choice": {"type": "function", "function": {"name": "g"}}})",
       "tool_choice"},
      {R"({"messages": [{"role": "user"}], "tools": [{"function": {"name": "f"}}], "tool_choice": "required",
           "response_format": {"type": "json_object"}})",
       "tool_choice"},
      {R"({"messages": [{"role": "user"}], "tools": [{"name": "f"}], "tool_choice": "required"})", "tools"},
      {R"({"messages": [{"role": "user"}], "tools": {}})", "tools"},
      {R"({"messages": [{"role": "user"}], "prompt": "x"})", "prompt"}};
  for (const auto& [body, field] : chats)
    EXPECT_EQ(refusal_of([&] { read_chat_request(body); })["param"], field) << body;
  EXPECT_THAT(refusal_of([] { read_completion_request(R"({"prompt": "x", "temprature": 1})"); })["message"]
                  .get<std::string>(),
              HasSubstr("'temperature'"))
      << "the nearest name is told";
}

TEST(Requests, RefuseBodiesThatAreNone) {
  std::string deep(5000, '['), many = R"({"prompt": "x", "stop": [)";
  for (int i = 0; i < 10000; ++i) many += "\"s\",";
  many += "\"s\"]}";
  for (const std::string& body :
       {std::string(""), std::string("{"), std::string("[1]"), std::string("\"x\""), std::string("nul"), deep,
        std::string("{\"prompt\": \"\xff\"}"), std::string(R"({"prompt": "a", "prompt": "b"})"), many}) {
    EXPECT_NE(refusal_of([&] { read_completion_request(body); })["message"], "none") << body.substr(0, 40);
  }
}

TEST(Requests, OfTokensAndEmbeddings) {
  EXPECT_EQ(read_tokenize_request(R"({"prompt": "abc", "add_special_tokens": false})").prompt, "abc");
  EXPECT_THAT(read_detokenize_request(R"({"tokens": [3, 4]})").tokens, ElementsAre(3, 4));
  EXPECT_EQ(refusal_of([] { read_tokenize_request("{}"); })["param"], "prompt");
  EXPECT_EQ(refusal_of([] { read_detokenize_request(R"({"tokens": ["a"]})"); })["param"], "tokens");
  EXPECT_EQ(read_embeddings_request(R"({"input": ["a", "b"]})").inputs.size(), 2u);
  EXPECT_EQ(refusal_of([] { read_embeddings_request(R"({"input": "a", "dimensions": 4})"); })["param"],
            "dimensions");
}

// The documented forms, by hand.
TEST(Answers, HaveTheFormsThatClientsRead) {
  const AnswerHead text{.id = "cmpl-1", .chat = false, .created = 5, .model = "m", .fingerprint = "f"},
      chat{"chatcmpl-1", true, 5, "m", "f"};
  const Choice choice{.index = 1,
                      .text = "hi",
                      .with_logprobs = true,
                      .tokens = {{"h", -0.5, {{"h", -0.5}, {"\xff", -2}}}},
                      .text_offset = 3,
                      .finish_reason = "stop"};
  const auto whole = nlohmann::json::parse(whole_answer(text, {choice}, {7, 2, 4}));
  EXPECT_EQ(whole["object"], "text_completion");
  EXPECT_EQ(whole["choices"][0]["text"], "hi");
  EXPECT_EQ(whole["choices"][0]["logprobs"]["token_logprobs"][0], -0.5);
  EXPECT_EQ(whole["choices"][0]["logprobs"]["text_offset"][0], 3);
  EXPECT_EQ(whole["choices"][0]["logprobs"]["top_logprobs"][0]["h"], -0.5);
  EXPECT_EQ(whole["usage"]["total_tokens"], 9);
  EXPECT_EQ(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
  const auto message = nlohmann::json::parse(whole_answer(chat, {choice}, {}));
  EXPECT_EQ(message["object"], "chat.completion");
  EXPECT_EQ(message["choices"][0]["message"]["content"], "hi");
  EXPECT_EQ(message["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["bytes"],
            nlohmann::json::parse("[255]"));
  const std::string event = answer_event(chat, choice, true, false);
  ASSERT_TRUE(event.starts_with("data: {") && event.ends_with("}\n\n")) << event;
  const auto piece = nlohmann::json::parse(event.substr(6));
  EXPECT_EQ(piece["object"], "chat.completion.chunk");
  EXPECT_EQ(piece["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(piece["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(
      nlohmann::json::parse(answer_event(chat, choice, false, false).substr(6))["choices"][0]["delta"]
          .contains("role"));
  EXPECT_TRUE(nlohmann::json::parse(usage_event(text, {1, 2, 0}).substr(6))["choices"].empty());
}

// Our own form, by hand: a list of tokens beside the probabilities, and nothing where nobody asked.
TEST(Answers, TellExpertsWhereTheyAreWanted) {
  EXPECT_TRUE(read_completion_request(R"({"prompt": "x", "experts": true})").options.experts);
  EXPECT_FALSE(read_completion_request(R"({"prompt": "x"})").options.experts);
  EXPECT_TRUE(read_chat_request(R"({"messages": [{"role": "user"}], "experts": true})").options.experts);
  Choice choice{.text = "a", .with_experts = true, .tokens = {{.bytes = "a"}}};
  choice.tokens[0].experts = {{1, {{3, 0.75}, {0, 0.25}}}, {2, {{1, 0.5}, {2, 0.5}}}};
  const auto expected = nlohmann::json::parse(
      R"([{"token": "a", "layers": [{"layer": 1, "experts": [3, 0], "weights": [0.75, 0.25]},
                                     {"layer": 2, "experts": [1, 2], "weights": [0.5, 0.5]}]}])");
  for (const bool chat : {false, true}) {
    const AnswerHead head{.id = "x-1", .chat = chat};
    const auto whole = nlohmann::json::parse(whole_answer(head, {choice}, {}))["choices"][0],
               piece = nlohmann::json::parse(answer_event(head, choice, true, false).substr(6))["choices"][0];
    EXPECT_EQ(whole["experts"], expected);
    EXPECT_EQ(piece["experts"], expected);
    EXPECT_TRUE(whole["logprobs"].is_null());
  }
  choice.with_experts = false;
  EXPECT_FALSE(nlohmann::json::parse(whole_answer({}, {choice}, {}))["choices"][0].contains("experts"));
}

}  // namespace
}  // namespace longhaul::openai
