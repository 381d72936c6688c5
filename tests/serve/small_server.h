// A server with a small model of bytes, asked over real sockets. "first" chats, "second" does not, and
// "broken" cannot be opened.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/net/http.h"
#include "base/net/network.h"
#include "base/text/text.h"
#include "base/threads/worker.h"
#include "serve/server.h"
#include "support/models.h"

namespace longhaul::serve {

using namespace longhaul::testing;
using nlohmann::json;

inline recipe::ModelConfig byte_model() {
  recipe::ModelConfig config = hybrid_pre_norm_tied();
  config.vocabulary = 257;  // bytes and the end of a document
  return config;
}

// "role:content\n" of each message, and the assistant's name at the end.
inline std::vector<int32_t> plain_chat(const nlohmann::ordered_json& messages, const nlohmann::ordered_json&,
                                       const nlohmann::ordered_json&, bool begins, bool) {
  std::string text;
  for (const auto& message : messages)
    text += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + "\n";
  return data::Tokenizer::bytes().encode_prompt(text + (begins ? "assistant:" : ""));
}

inline LoadedModel small_model(bool chats, const recipe::ModelConfig& config = byte_model()) {
  LoadedModel loaded;
  loaded.model.decoder = std::make_unique<model::Decoder>(filled_decoder(config, "fp32"));
  loaded.engine = std::make_unique<generate::Engine>(
      *loaded.model.decoder, generate::EngineOptions{.sequences = 4,
                                                     .prompts_tokens = 512,
                                                     .bytes = int64_t{64} << 20,
                                                     .prefix_bytes = int64_t{16} << 20,
                                                     .keeps_prompts = true});
  loaded.text = std::make_shared<ModelText>(
      ModelText{.tokenizer = data::Tokenizer::bytes(),
                .chat = chats ? ChatEncoder(plain_chat) : ChatEncoder(),
                .tool_form = openai::ToolForm::kTagged,
                .grammars = std::make_shared<grammar::GrammarCache>(data::Tokenizer::bytes()),
                .limit_of_tokens = std::min<int64_t>(2000, loaded.engine->limit_of_tokens()),
                .step = 3,
                .fingerprint = "test"});
  return loaded;
}

// The answers of a stream.
inline std::vector<json> events_of(const std::string& body) {
  std::vector<json> events;
  EXPECT_TRUE(body.ends_with("data: [DONE]\n\n")) << body;
  for (const std::string_view line : split(body, '\n')) {
    if (line.starts_with("data: {")) events.push_back(json::parse(line.substr(6)));
  }
  return events;
}

class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(ServeOptions options = {})
      : server_(with_bodies(std::move(options)),
                {{"first", "first"}, {"second", "second"}, {"broken", "broken"}},
                [](const ModelShelf::Entry& entry) {
                  if (entry.name == "broken")
                    throw Error({.code = ExitCode::kCheckpoint, .what = "the checkpoint is damaged"});
                  return small_model(entry.name == "first");
                }) {
    thread_.post([this] { server_.run(); });
  }
  ~ServerTest() override {
    server_.stop();
    thread_.wait();
  }
  static ServeOptions with_bodies(ServeOptions options) {
    options.http.longest_body = 1 << 20;
    options.drain_s = 20;
    return options;
  }
  HttpAnswer post(const std::string& path, const std::string& body) const {
    HttpAddress address = http_address(server_.url());
    address.path = path;
    return http_post(address, body, "application/json", 60, 16 << 20);
  }
  json ask(const std::string& path, const json& body, int status = 200) const {
    const HttpAnswer answer = post(path, body.dump());
    EXPECT_EQ(answer.status, status) << answer.body;
    return json::parse(answer.body);
  }
  HttpAnswer get(const std::string& path) const { return http_get(http_address(server_.url()), path, 60); }
  double metric(const std::string& name) const {
    for (const std::string_view line : split(get("/metrics").body, '\n')) {
      if (line.starts_with(name)) return std::stod(std::string(line.substr(line.rfind(' '))));
    }
    return -1;
  }
  Server server_;
  Worker thread_{"server"};
};

}  // namespace longhaul::serve
