// A server with a small model, asked over real sockets: the answers' texts against the generator, streams
// against whole answers, and what clients do wrong.
// ctest: label=fast timeout=180
#include "serve/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/net/http.h"
#include "base/net/network.h"
#include "base/net/socket.h"
#include "base/process/process.h"
#include "base/text/text.h"
#include "base/threads/worker.h"
#include "generate/generate.h"
#include "model/context.h"
#include "model/parallel_ops.h"
#include "serve/small_server.h"

namespace longhaul::serve {
namespace {

using namespace longhaul::testing;
using nlohmann::json;
using ::testing::HasSubstr;

std::string bytes_of(const std::vector<int64_t>& ids) {
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  return data::Tokenizer::bytes().decode(narrow);
}

json as_json_text(const std::string& bytes) {
  return json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace));
}

TEST_F(ServerTest, TextsAreThoseOfTheGenerator) {
  model::Decoder decoder = filled_decoder(byte_model(), "fp32");
  const auto ids = data::Tokenizer::bytes().encode_prompt("def f");
  const std::vector<int64_t> prompt(ids.begin(), ids.end());
  const auto expected = generate::generate_batch(decoder, std::span(&prompt, 1),
                                                 {.tokens = 9,
                                                  .temperature = 1,
                                                  .top_p = 1,
                                                  .seed = 5,
                                                  .count = 2,
                                                  .vocabulary = 257,
                                                  .log_probabilities = true,
                                                  .stop_ids = {256}});
  const json answer = ask("/v1/completions",
                          {{"prompt", "def f"}, {"max_tokens", 9}, {"seed", 5}, {"n", 2}, {"logprobs", 1}});
  for (size_t i = 0; i < 2; ++i) {
    const json& choice = answer["choices"][i];
    EXPECT_EQ(choice["text"], as_json_text(bytes_of(expected[i].ids)));
    EXPECT_EQ(choice["finish_reason"], expected[i].finish == generate::Finish::kStop ? "stop" : "length");
    ASSERT_EQ(choice["logprobs"]["token_logprobs"].size(), expected[i].ids.size());
    for (size_t t = 0; t < expected[i].ids.size(); ++t)
      EXPECT_DOUBLE_EQ(choice["logprobs"]["token_logprobs"][t].get<double>(),
                       expected[i].log_probabilities[t]);
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(answer["usage"]["completion_tokens"], expected[0].ids.size() + expected[1].ids.size());
  EXPECT_EQ(answer["model"], "first");
  EXPECT_EQ(
      ask("/v1/completions", {{"prompt", prompt}, {"max_tokens", 9}, {"seed", 5}})["choices"][0]["text"],
      answer["choices"][0]["text"]);
}

TEST_F(ServerTest, AStreamIsTheWholeAnswerInPieces) {
  for (const bool chat : {false, true}) {
    json request = {{"max_tokens", 30}, {"seed", 8}, {"n", 2}, {"stop", {"zq"}}};
    if (chat) {
      request["messages"] = json::parse(R"([{"role": "user", "content": "hello"}])");
    } else {
      request["prompt"] = "hello";
    }
    const std::string path = chat ? "/v1/chat/completions" : "/v1/completions";
    const json whole = ask(path, request);
    request["stream"] = true;
    request["stream_options"] = {{"include_usage", true}};
    const HttpAnswer stream = post(path, request.dump());
    EXPECT_EQ(stream.status, 200);
    std::map<int64_t, std::string> texts, reasons;
    json usage;
    for (const json& event : events_of(stream.body)) {
      if (!event["usage"].is_null()) usage = event["usage"];
      for (const json& choice : event["choices"]) {
        const json& text = chat ? choice["delta"].value("content", json("")) : choice["text"];
        texts[choice["index"]] += text.get<std::string>();
        if (!choice["finish_reason"].is_null()) reasons[choice["index"]] = choice["finish_reason"];
      }
    }
    for (const json& choice : whole["choices"]) {
      EXPECT_EQ(texts[choice["index"]], chat ? choice["message"]["content"] : choice["text"]);
      EXPECT_EQ(reasons[choice["index"]], choice["finish_reason"]);
    }
    EXPECT_EQ(usage["completion_tokens"], whole["usage"]["completion_tokens"]);
  }
}

TEST_F(ServerTest, StopStringsCutTheText) {
  json request = {{"prompt", "abc"}, {"max_tokens", 40}, {"seed", 3}, {"ignore_eos", true}};
  // characters of one byte each
  for (int byte = 128; byte < 257; ++byte) request["logit_bias"][std::to_string(byte)] = -100;
  const std::string text = ask("/v1/completions", request)["choices"][0]["text"];
  ASSERT_EQ(text.size(), 40u);
  request["stop"] = {text.substr(17, 3), "no such text"};
  const json stopped = ask("/v1/completions", request);
  const size_t at = text.find(text.substr(17, 3));
  EXPECT_EQ(stopped["choices"][0]["text"], text.substr(0, at));
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(stopped["choices"][0]["stop_reason"], text.substr(17, 3));
  EXPECT_EQ(stopped["usage"]["completion_tokens"], at + 3) << "nothing is written after it";
  request["stream"] = true;
  std::string streamed;
  for (const json& event : events_of(post("/v1/completions", request.dump()).body))
    streamed += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(streamed, text.substr(0, at)) << "what may begin a stop string is held back";
}

TEST_F(ServerTest, MistakesAreAnsweredAndTheServerGoesOn) {
  const std::tuple<const char*, const char*, int, const char*> mistakes[] = {
      {"/v1/completions", "{", 400, "JSON"},
      {"/v1/completions", R"({"prompt": ""})", 200, ""},  // what begins a text is there
      {"/v1/completions", R"({"prompt": "x", "model": "none"})", 404, "does not exist"},
      {"/v1/completions", R"({"prompt": "x", "model": "broken"})", 500, "damaged"},
      {"/v1/completions", R"({"prompt": [300]})", 400, "no token 300"},
      {"/v1/completions", R"({"prompt": "x", "n": 5})", 400, "more sequences"},
      {"/v1/completions", R"({"prompt": "x", "min_tokens": 50})", 400, "min_tokens"},
      {"/v1/completions", R"({"prompt": "x", "logit_bias": {"999": 1}})", 400, "none of the model"},
      {"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}], "model": "second"})", 400,
       "no chat template"},
      {"/v1/nothing", "{}", 404, "nothing at"},
      {"/detokenize", R"({"tokens": [257]})", 400, "no token 257"}};
  for (const auto& [path, body, status, says] : mistakes) {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, status) << path << " " << body << ": " << answer.body;
    EXPECT_THAT(answer.body, HasSubstr(says)) << path << " " << body;
    if (status != 200) {
      EXPECT_TRUE(json::parse(answer.body)["error"].contains("type")) << answer.body;
    }
  }
  const json long_prompt = ask("/v1/completions", {{"prompt", std::string(2001, 'x')}}, 400);
  EXPECT_EQ(long_prompt["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(post("/v1/completions", std::string((1 << 20) + 1, ' ')).status, 413);
  EXPECT_EQ(get("/v1/completions").status, 405);
  EXPECT_EQ(ask("/v1/completions", {{"prompt", "x"}, {"model", "second"}, {"max_tokens", 2}})["model"],
            "second");
}

TEST_F(ServerTest, ListsModelsTokensAndHealth) {
  EXPECT_EQ(json::parse(get("/v1/models").body)["data"][1]["id"], "second");
  EXPECT_EQ(json::parse(get("/v1/models/second").body)["id"], "second");
  EXPECT_EQ(get("/v1/models/third").status, 404);
  EXPECT_EQ(json::parse(get("/health").body)["status"], "ok");
  const json tokens = ask("/tokenize", {{"prompt", "ab"}});
  EXPECT_EQ(tokens["tokens"], json({256, 97, 98}));
  EXPECT_EQ(ask("/detokenize", {{"tokens", {97, 98}}})["prompt"], "ab");
}

// Each vector is the mean of the hidden states, as one pass over that text alone has them.
TEST_F(ServerTest, EmbedsTexts) {
  model::Decoder decoder = filled_decoder(byte_model(), "fp32");
  const json answer = ask("/v1/embeddings", {{"input", {"ab", "longer text"}}});
  const json alone = ask("/v1/embeddings", {{"input", "ab"}, {"encoding_format", "base64"}});
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  const Tensor mean = decoder.hidden(context, id_tensor({256, 97, 98}), layout::make_single(3)).mean(0);
  ASSERT_EQ(answer["data"].size(), 2u);
  ASSERT_EQ(answer["data"][0]["embedding"].size(), static_cast<size_t>(mean.numel()));
  for (int64_t i = 0; i < mean.numel(); ++i)
    EXPECT_NEAR(answer["data"][0]["embedding"][static_cast<size_t>(i)].get<double>(), mean[i].item<double>(),
                1e-5);
  EXPECT_NE(answer["data"][0]["embedding"], answer["data"][1]["embedding"]);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 3 + 12);
  EXPECT_EQ(alone["data"][0]["embedding"].get<std::string>().size(),
            static_cast<size_t>((4 * mean.numel() + 2) / 3 * 4));
  EXPECT_EQ(ask("/v1/embeddings", {{"input", std::vector<int64_t>{}}}, 400)["error"]["param"], "input");
}

TEST_F(ServerTest, CountsWhatItDoes) {
  const json request = {{"prompt", "the same prompt"}, {"max_tokens", 5}, {"seed", 1}, {"ignore_eos", true}};
  const json first = ask("/v1/completions", request), second = ask("/v1/completions", request);
  EXPECT_EQ(first["choices"], second["choices"]);
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], 16) << "the whole prompt was kept";
  ask("/v1/completions", {{"prompt", "x"}, {"n", 0}}, 400);
  EXPECT_EQ(metric("longhaul_serve_requests_total{status=\"200\"}"), 2);
  EXPECT_EQ(metric("longhaul_serve_requests_total{status=\"400\"}"), 1);
  EXPECT_EQ(metric("longhaul_serve_drawn_tokens_total"), 10);
  EXPECT_EQ(metric("longhaul_serve_prompt_tokens_total"), 16);
  EXPECT_EQ(metric("longhaul_serve_cache_hits_total{model=\"first\"}"), 1);
  EXPECT_EQ(metric("longhaul_serve_time_to_first_token_seconds_count"), 2);
  EXPECT_EQ(metric("longhaul_serve_writing{model=\"first\"}"), 0);
}

std::string http_text(const std::string& body) {
  return fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                     body.size(), body);
}

Socket asked(const Server& server, const std::string& text) {
  Socket socket = Socket::connect({"127.0.0.1", server.port()});
  size_t done = 0;
  while (done < text.size()) {
    size_t written = 0;
    EXPECT_NE(socket.write(std::string_view(text).substr(done), written), Socket::Result::kEnd);
    done += written;
    pause_briefly();
  }
  return socket;
}

// A text without an end, whose client leaves: its sequences are gone, whether it was streamed or not.
TEST_F(ServerTest, AClientThatLeavesGivesItsPlaceBack) {
  double left = 0;
  for (const bool stream : {true, false}) {
    {
      Socket socket = asked(server_, http_text(json({{"prompt", "x"},
                                                     {"max_tokens", 100000000},
                                                     {"ignore_eos", true},
                                                     {"n", 4},
                                                     {"stream", stream}})
                                                   .dump()));
      while (metric("longhaul_serve_writing{model=\"first\"}") < 4) pause_briefly();
    }
    while (metric("longhaul_serve_clients_left_total") < left + 1) pause_briefly();
    left += 1;
    EXPECT_EQ(metric("longhaul_serve_writing{model=\"first\"}"), 0);
  }
  EXPECT_EQ(ask("/v1/completions", {{"prompt", "x"}, {"max_tokens", 3}, {"n", 4}})["choices"].size(), 4u);
}

// A newer checkpoint appears while a text is being written: the text is finished first, and the next request
// has the new one.
TEST(ServerFollows, NewerCheckpoints) {
  std::atomic<int64_t> newest{1};
  ServeOptions options{.http = {.longest_body = 1 << 20}, .follow_s = 0};
  options.has_newer = [&](const ModelShelf::Entry&, const LoadedModel& loaded) {
    return loaded.text->step < newest;
  };
  Server server(options, {{"run", "run"}}, [&](const ModelShelf::Entry&) {
    LoadedModel loaded = small_model(false);
    auto text = std::make_shared<ModelText>(*loaded.text);
    text->step = newest;
    text->fingerprint = fmt::format("step {}", text->step);
    loaded.text = text;
    return loaded;
  });
  Worker thread("server");
  thread.post([&] { server.run(); });
  HttpAddress address = http_address(server.url());
  address.path = "/v1/completions";
  const auto fingerprint = [&](const char* body) {
    return json::parse(http_post(address, body, "application/json", 60).body)["system_fingerprint"];
  };
  EXPECT_EQ(fingerprint(R"({"prompt": "x"})"), "step 1");
  newest = 2;
  while (fingerprint(R"({"prompt": "x"})") == "step 1") pause_briefly();
  EXPECT_EQ(fingerprint(R"({"prompt": "x"})"), "step 2");
  server.stop();
  thread.wait();
}

class ShortQueue : public ServerTest {
 protected:
  ShortQueue() : ServerTest({.most_waiting = 1, .longest_request_s = 1e6}) {}
};

TEST_F(ShortQueue, WhatDoesNotFitIsRefusedForNow) {
  const std::string endless =
      http_text(R"({"prompt": "x", "max_tokens": 100000000, "ignore_eos": true, "n": 4, "stream": true})");
  const Socket first = asked(server_, endless);
  while (metric("longhaul_serve_writing{model=\"first\"}") < 4) pause_briefly();
  const Socket second = asked(server_, endless);
  while (metric("longhaul_serve_waiting{model=\"first\"}") < 1) pause_briefly();
  Socket third = asked(server_, endless);
  std::string answer;
  while (third.read(answer) != Socket::Result::kEnd) pause_briefly();
  EXPECT_THAT(answer, HasSubstr(" 429 Too Many Requests"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: "));
  EXPECT_THAT(answer, HasSubstr("rate_limit_error"));
}

class ShortTime : public ServerTest {
 protected:
  ShortTime() : ServerTest({.longest_request_s = 1e-9}) {}
};

TEST_F(ShortTime, ARequestThatTakesTooLongIsEnded) {
  const json error =
      ask("/v1/completions", {{"prompt", "x"}, {"max_tokens", 100000000}, {"ignore_eos", true}}, 503);
  EXPECT_EQ(error["error"]["code"], "timeout");
}

// What has begun is finished, and nothing else is begun.
TEST_F(ServerTest, AtTheEndItFinishesWhatHasBegun) {
  Socket socket = asked(
      server_,
      http_text(R"({"prompt": "x", "max_tokens": 400, "ignore_eos": true, "stream": true, "seed": 1})"));
  while (metric("longhaul_serve_writing{model=\"first\"}") < 1) pause_briefly();
  server_.stop();
  std::string answer;
  while (socket.read(answer) != Socket::Result::kEnd) pause_briefly();
  EXPECT_THAT(answer, HasSubstr("data: [DONE]"));
  EXPECT_THAT(answer, HasSubstr("\"finish_reason\":\"length\""));
  EXPECT_TRUE(answer.ends_with("0\r\n\r\n")) << "the last chunk";
}

}  // namespace
}  // namespace longhaul::serve
