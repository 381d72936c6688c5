// Adapters of one base as models of a server: their names, their texts, and what they do not do.
#include "layout/adapters.h"
#include "model/served_adapters.h"
#include "small_server.h"

namespace longhaul::serve {
namespace {

class AdapterServer : public ::testing::Test {
 protected:
  AdapterServer()
      : server_(options(), {{"base", "base"}, {"law", "law", "base"}, {"code", "code", "base"}},
                [](const ModelShelf::Entry& entry) {
                  EXPECT_EQ(entry.name, "base") << "adapters are opened with their base";
                  LoadedModel loaded = small_model(true);
                  // Beside the keys of all layers, so large that texts change.
                  for (const double size : {3.0, -3.0}) {
                    std::map<std::string, model::ServedAdapters::Matrix> matrices;
                    for (const layout::ParameterSpec& spec : layout::parameters(byte_model())) {
                      if (layout::last_word(spec.tensor.name) != "key") continue;
                      const auto& shape = spec.tensor.global_shape;
                      matrices[spec.tensor.name] = {.down_ri = at::ones({1, shape[1]}),
                                                    .up_or = at::full({shape[0], 1}, size),
                                                    .scale = 1};
                    }
                    loaded.model.decoder->parameters().served()->add(matrices);
                  }
                  return loaded;
                }) {
    thread_.post([this] { server_.run(); });
  }
  ~AdapterServer() override {
    server_.stop();
    thread_.wait();
  }
  static ServeOptions options() {
    ServeOptions small;
    small.http.longest_body = 1 << 20;
    small.drain_s = 20;
    return small;
  }
  HttpAnswer post(const std::string& path, const json& body) const {
    HttpAddress address = http_address(server_.url());
    address.path = path;
    return http_post(address, body.dump(), "application/json", 60, 16 << 20);
  }
  std::string text_of(const char* model) const {
    const HttpAnswer answer =
        post("/v1/completions",
             {{"model", model}, {"prompt", "a prompt"}, {"max_tokens", 24}, {"temperature", 0}});
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["choices"][0]["text"].dump();
  }
  Server server_;
  Worker thread_{"server"};
};

TEST_F(AdapterServer, EachIsAModelOfItsOwn) {
  const json models = json::parse(http_get(http_address(server_.url()), "/v1/models", 60).body);
  ASSERT_EQ(models["data"].size(), 3U);
  EXPECT_EQ(models["data"][1]["id"], "law");
  EXPECT_EQ(models["data"][1]["parent"], "base");
  EXPECT_FALSE(models["data"][0].contains("parent"));
  const std::string base = text_of("base"), law = text_of("law"), code = text_of("code");
  EXPECT_NE(base, law);
  EXPECT_NE(base, code);
  EXPECT_NE(law, code);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(text_of("code"), code);
    EXPECT_EQ(text_of("base"), base);
    EXPECT_EQ(text_of("law"), law);
  }
}

TEST_F(AdapterServer, EmbeddingsAreOfTheBase) {
  const HttpAnswer refused = post("/v1/embeddings", {{"model", "law"}, {"input", "a text"}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("ask for those of its base"), std::string::npos) << refused.body;
  EXPECT_EQ(post("/v1/embeddings", {{"model", "base"}, {"input", "a text"}}).status, 200);
}

}  // namespace
}  // namespace longhaul::serve
