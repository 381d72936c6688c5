// Texts that the engine draws from a small model under a grammar.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "generate/engine.h"
#include "grammar/grammar_cache.h"
#include "grammar/json_schema.h"
#include "support/models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;
using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::ElementsAre;

recipe::ModelConfig model_of_bytes() {
  recipe::ModelConfig config = hybrid_pre_norm_tied();
  config.vocabulary = 257;
  return config;
}

struct Ended {
  std::string text;
  Finish finish{};
};

std::vector<Ended> texts_of(Engine& engine, const GenerateSettings& settings, const std::string& prompt) {
  std::vector<Ended> ended(static_cast<size_t>(settings.count));
  engine.submit({.prompt = {prompt.begin(), prompt.end()},
                 .settings = settings,
                 .on_end = [&](int64_t sequence, const Generation& made) {
                   if (made.error) std::rethrow_exception(made.error);
                   ended[static_cast<size_t>(sequence)] = {{made.ids.begin(), made.ids.end()}, made.finish};
                 }});
  while (engine.step()) {
  }
  return ended;
}

TEST(EngineWithAGrammar, UntrainedModelWritesTextsOfTheSchema) {
  model::Decoder decoder = filled_decoder(model_of_bytes(), "fp32");
  grammar::GrammarCache cache{data::Tokenizer::bytes()};
  const auto person = cache.get("s", [] {
    return grammar::json_schema_grammar(ordered_json::parse(R"({"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
        "required": ["name", "age"], "additionalProperties": false})"));
  });
  const GenerateSettings settings{.tokens = 400,
                                  .temperature = 1,
                                  .top_p = 1,
                                  .seed = 5,
                                  .count = 6,
                                  .stop_ids = {256},
                                  .grammar = person};
  Engine engine(decoder, {});
  const std::vector<Ended> ended = texts_of(engine, settings, "who? ");
  for (const Ended& each : ended) {
    const json made = json::parse(each.text, nullptr, false);
    ASSERT_TRUE(made.is_object()) << each.text;
    EXPECT_EQ(each.finish, Finish::kStop);
    EXPECT_EQ(made.size(), 2U);
    EXPECT_LE(made.at("age").get<uint64_t>(), 120U);
  }
  EXPECT_NE(ended[0].text, ended[1].text);
  // The same alone, one after the other, as everything of the engine is; and the grammar ends them where no
  // token does.
  for (size_t i = 0; i < ended.size(); ++i) {
    GenerateSettings alone = settings;
    alone.count = 1;
    alone.stop_ids.clear();
    alone.seed = settings.seed + i;
    Engine other(decoder, {});
    EXPECT_EQ(texts_of(other, alone, "who? ")[0].text, ended[i].text);
  }
}

TEST(EngineWithAGrammar, AnErrorOfOneSequenceLeavesTheOthers) {
  model::Decoder decoder = filled_decoder(model_of_bytes(), "fp32");
  // No token has the bytes that the grammar wants after the first.
  std::vector<std::string> bytes(257);
  bytes['{'] = "{";
  const auto poor = std::make_shared<grammar::TokenGrammar>(
      grammar::json_object_grammar(), std::make_shared<const grammar::TokenBytes>(bytes));
  Engine engine(decoder, {});
  std::vector<Finish> finishes;
  const auto on_end = [&](int64_t, const Generation& made) { finishes.push_back(made.finish); };
  engine.submit({.prompt = {1, 2}, .settings = {.tokens = 5, .grammar = poor}, .on_end = on_end});
  engine.submit({.prompt = {1, 2}, .settings = {.tokens = 5}, .on_end = on_end});
  while (engine.step()) {
  }
  EXPECT_THAT(finishes, ElementsAre(Finish::kError, Finish::kTokens));
}

}  // namespace
}  // namespace longhaul::generate
