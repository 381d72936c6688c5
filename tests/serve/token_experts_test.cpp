// The experts of each token over HTTP. ctest: label=fast timeout=120
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/small_server.h"

namespace longhaul::serve {
namespace {

recipe::ModelConfig byte_mixture() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.vocabulary = 257;
  return config;
}

class ExpertsServer : public ::testing::Test {
 protected:
  ExpertsServer()
      : server_(own_options(), {{"mixture", "mixture"}, {"dense", "dense"}},
                [](const ModelShelf::Entry& entry) {
                  return small_model(true, entry.name == "mixture" ? byte_mixture() : byte_model());
                }) {
    thread_.post([this] { server_.run(); });
  }
  ~ExpertsServer() override {
    server_.stop();
    thread_.wait();
  }
  static ServeOptions own_options() {
    ServeOptions options;
    options.http.longest_body = 1 << 20;
    options.drain_s = 20;
    return options;
  }
  HttpAnswer post(const std::string& path, const json& body) const {
    HttpAddress address = http_address(server_.url());
    address.path = path;
    return http_post(address, body.dump(), "application/json", 60, 16 << 20);
  }

  Server server_;
  Worker thread_{"server"};
};

// The engine of its own says the same; and so does a stream, whose pieces follow each other.
TEST_F(ExpertsServer, TellsThemWholeAndInPieces) {
  const LoadedModel loaded = small_model(true, byte_mixture());
  const auto ids = data::Tokenizer::bytes().encode_prompt("def f");
  std::vector<std::pair<int64_t, double>> first_layer;
  generate::Request direct{
      .prompt = {ids.begin(), ids.end()},
      .settings = {.tokens = 6, .temperature = 1, .top_p = 1, .seed = 5, .vocabulary = 257}};
  direct.settings.experts = true;
  direct.on_token = [&](const generate::Drawn& drawn) {
    first_layer.push_back(drawn.experts.front().chosen.front());
    return true;
  };
  loaded.engine->submit(std::move(direct));
  while (loaded.engine->step()) {
  }
  for (const bool chat : {false, true}) {
    json request = {{"max_tokens", 6}, {"seed", 5}, {"ignore_eos", true}, {"experts", true}};
    if (chat) {
      request["messages"] = json::parse(R"([{"role": "user", "content": "hello"}])");
    } else {
      request["prompt"] = "def f";
    }
    const std::string path = chat ? "/v1/chat/completions" : "/v1/completions";
    const json told = json::parse(post(path, request).body)["choices"][0]["experts"];
    ASSERT_EQ(told.size(), 6U);
    for (size_t t = 0; t < told.size(); ++t) {
      ASSERT_EQ(told[t]["layers"].size(), 3U);
      EXPECT_EQ(told[t]["layers"][2]["layer"], 2);
      if (chat) continue;
      EXPECT_EQ(told[t]["layers"][0]["experts"][0], first_layer[t].first) << t;
      EXPECT_EQ(told[t]["layers"][0]["weights"][0], first_layer[t].second) << t;
    }
    request["stream"] = true;
    json pieces = json::array();
    for (const json& event : events_of(post(path, request).body)) {
      for (const json& choice : event["choices"])
        for (const json& token : choice["experts"]) pieces.push_back(token);
    }
    EXPECT_EQ(pieces, told);
  }
}

TEST_F(ExpertsServer, RefusesThemWhereThereAreNoneAndGoesOn) {
  json request = {{"model", "dense"}, {"prompt", "x"}, {"max_tokens", 2}, {"experts", true}};
  const HttpAnswer refused = post("/v1/completions", request);
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, ::testing::HasSubstr("a model without experts"));
  request["experts"] = "yes";
  EXPECT_EQ(post("/v1/completions", request).status, 400);
  request["experts"] = false;
  const HttpAnswer answered = post("/v1/completions", request);
  EXPECT_EQ(answered.status, 200);
  EXPECT_FALSE(json::parse(answered.body)["choices"][0].contains("experts"));
}

}  // namespace
}  // namespace longhaul::serve
