// The page at `/` in Chromium: its script asks the server, and what it shows is what the server answers.
// ctest: label=full timeout=180
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/net/http.h"
#include "base/threads/worker.h"
#include "generate/engine.h"
#include "serve/server.h"
#include "support/browser.h"
#include "support/models.h"

namespace longhaul::serve {
namespace {

using ::testing::HasSubstr;

// A model with random weights, which writes any bytes.
LoadedModel small_chat_model(const ModelShelf::Entry&) {
  recipe::ModelConfig config = longhaul::testing::hybrid_experts_post_norm();
  config.vocabulary = 257;
  LoadedModel loaded;
  loaded.model.decoder = std::make_unique<model::Decoder>(longhaul::testing::filled_decoder(config, "fp32"));
  loaded.engine = std::make_unique<generate::Engine>(
      *loaded.model.decoder, generate::EngineOptions{.sequences = 2, .bytes = int64_t{32} << 20});
  const auto chat = [](const nlohmann::ordered_json& messages, const nlohmann::ordered_json&,
                       const nlohmann::ordered_json&, bool, bool) {
    return data::Tokenizer::bytes().encode_prompt(messages.back()["content"].get<std::string>());
  };
  loaded.text = std::make_shared<ModelText>(ModelText{.tokenizer = data::Tokenizer::bytes(),
                                                      .chat = chat,
                                                      .limit_of_tokens = 500,
                                                      .step = 3,
                                                      .fingerprint = "test"});
  return loaded;
}

class ChatPage : public ::testing::Test {
 protected:
  ChatPage() : server_(options(), {{"small", "small"}}, small_chat_model) {
    thread_.post([this] { server_.run(); });
  }
  ~ChatPage() override {
    server_.stop();
    thread_.wait();
  }
  void SetUp() override {
    if (!longhaul::testing::Browser::installed()) GTEST_SKIP() << longhaul::testing::Browser::kMissing;
  }
  static ServeOptions options() {
    ServeOptions options;
    options.http.longest_body = 1 << 20;
    options.drain_s = 5;
    return options;
  }
  ProcessResult browse(const std::string& query, int width, const std::string& what) const {
    return browser_.open(server_.url() + query, width, 900, 15000, what);
  }
  // The conversation that a browser then shows; what it complains of, where there is none.
  std::string talk(const std::string& query, int width) const {
    // Chromium's virtual time passes while an answer still comes: then it is asked again.
    ProcessResult dom = browse(query, width, "--dump-dom");
    for (int again = 0; again < 30 && dom.output.find("data-state=\"answered\"") == std::string::npos;
         ++again)
      dom = browse(query, width, "--dump-dom");
    EXPECT_EQ(dom.errors.find("Refused to"), std::string::npos)
        << "the page keeps its own content policy: " << dom.errors;
    const size_t begin = dom.output.find("<main"), end = dom.output.find("<form class=");
    const size_t figures = dom.output.find("<output");
    if (end == std::string::npos) return dom.errors;
    return dom.output.substr(begin, end - begin) +
           dom.output.substr(figures, dom.output.find("</output>") - figures);
  }
  // What the server answers to what the page asks, "hello", in a choice's object.
  nlohmann::json asked(bool chat, int64_t seed) const {
    HttpAddress address = http_address(server_.url());
    address.path = chat ? "/v1/chat/completions" : "/v1/completions";
    nlohmann::json body = {
        {"max_tokens", 12}, {"temperature", 0.8}, {"top_p", 0.95}, {"seed", seed}, {"experts", true}};
    if (chat) {
      body["messages"] = nlohmann::json::parse(R"([{"role": "user", "content": "hello"}])");
    } else {
      body["prompt"] = "hello";
    }
    const HttpAnswer answer = http_post(address, body.dump(), "application/json", 60, 1 << 20);
    return nlohmann::json::parse(answer.body)["choices"][0];
  }
  // The page's settings, with a seed that ends no text early.
  std::string settings() const {
    int64_t seed = 1;
    while (asked(false, seed)["finish_reason"] != "length" || asked(true, seed)["finish_reason"] != "length")
      ++seed;
    return "?tokens=12&seed=" + std::to_string(seed);
  }
  static int64_t seed_in(const std::string& settings) {
    return std::stoll(settings.substr(settings.rfind('=') + 1));
  }
  static std::string as_html(std::string text) {
    std::string html;
    for (const char c : text)
      html += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return html;
  }

  TemporaryFolder folder_;
  longhaul::testing::Browser browser_;
  Server server_;
  Worker thread_{"server"};
};

TEST_F(ChatPage, ShowsWhatTheServerAnswers) {
  const std::string query = settings();
  for (const bool chat : {false, true}) {
    const nlohmann::json choice = asked(chat, seed_in(query));
    const std::string expected = as_html(chat ? choice["message"]["content"] : choice["text"]),
                      shown = talk(query + "&ask=hello&form=" + (chat ? "chat" : "text"), 500);
    EXPECT_THAT(shown, HasSubstr("<h2>assistant</h2><div>" + expected + "</div>")) << chat;
    EXPECT_THAT(shown, HasSubstr("12 tokens, "));
  }
}

TEST_F(ChatPage, ShowsTokensOneByOneAndMistakesAsText) {
  const std::string tokens = talk(settings() + "&form=text&likely_on=1&ask=hello", 1200),
                    span = "<span class=\"token\"";
  size_t spans = 0;
  for (size_t at = tokens.find(span); at != std::string::npos; at = tokens.find(span, at + 1)) ++spans;
  EXPECT_EQ(spans, 12U);
  const std::string refused = talk("?temperature=9&form=text&ask=%3Cb%3Ehello", 1200);
  EXPECT_THAT(refused, HasSubstr("<h2>error</h2>")) << "hotter than any text";
  EXPECT_THAT(refused, HasSubstr("&lt;b&gt;hello")) << "never HTML";
}

// With `focus` a word is looked at as the keyboard does it: its experts are those that the server tells, in
// words, with a bar beside them that is only for the eye.
TEST_F(ChatPage, ShowsTheExpertsBehindAWord) {
  const std::string query = settings();
  for (const bool chat : {false, true}) {
    const std::string shown =
        talk(query + "&experts_on=1&focus=3&likely_on=1&ask=hello&form=" + (chat ? "chat" : "text"), 1200);
    const nlohmann::json token = asked(chat, seed_in(query))["experts"][3];
    for (const auto& layer : token["layers"]) {
      const double share = 100 * layer["weights"][0].get<double>() /
                           (layer["weights"][0].get<double>() + layer["weights"][1].get<double>());
      EXPECT_THAT(shown,
                  HasSubstr(fmt::format("<th scope=\"row\">layer {}</th><td>expert {}: {:.0f} %, expert ",
                                        layer["layer"].get<int>(), layer["experts"][0].get<int>(), share)));
    }
    EXPECT_THAT(shown, HasSubstr("<caption>Experts</caption>"));
    EXPECT_THAT(shown, HasSubstr("<caption>Likely tokens</caption>"));
    EXPECT_THAT(shown, HasSubstr("<div class=\"share\" aria-hidden=\"true\">"));
    EXPECT_THAT(shown, HasSubstr("role=\"status\" aria-label=\"What stands behind a word\""));
  }
}

// LONGHAUL_PICTURES=FOLDER: pictures to look at.
TEST_F(ChatPage, PicturesHaveTheirSize) {
  const char* const wanted = std::getenv("LONGHAUL_PICTURES");
  const std::filesystem::path pictures = wanted != nullptr ? std::filesystem::path(wanted) : folder_.path();
  for (const int width : {1200, 500}) {
    const auto picture = pictures / ("chat-" + std::to_string(width) + ".png");
    ASSERT_EQ(browse(settings() + "&likely_on=1&experts_on=1&focus=2&ask=hello", width,
                     "--screenshot=" + picture.string())
                  .status,
              0);
    const std::string png = read_text(picture);
    ASSERT_GT(png.size(), 8'000U) << "not an empty page";
    const auto at = [&](size_t i) { return static_cast<unsigned char>(png[i]); };
    EXPECT_EQ(at(18) * 256 + at(19), width);
  }
}

}  // namespace
}  // namespace longhaul::serve
