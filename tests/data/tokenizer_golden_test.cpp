// Ids of small definitions of every family against a golden file made from Hugging Face `tokenizers`
// (tests/golden/make_tokenizer_golden.py), training against the peer's trainer, round trips and streaming.
// ctest: label=fast timeout=60
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/random.h"
#include "base/threads/parallel.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/commands.h"
#include "data/tokenizer/splitting/unicode.h"
#include "data/tokenizer/stream_encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "support/places.h"

namespace longhaul::data {
namespace {

using Json = nlohmann::json;

const Json& golden() {
  static const Json json = Json::parse(read_text(source_folder() + "/tests/golden/tokenizer_golden.json"));
  return json;
}

std::vector<std::string> golden_texts() { return golden().at("texts").get<std::vector<std::string>>(); }

Tokenizer golden_tokenizer(const Json& item) {
  return Tokenizer::from_json(item.at("definition").dump(), item.at("name").get<std::string>());
}

std::string random_bytes(uint64_t seed, size_t size, bool texty) {
  const RandomStream random(seed, "test/tokenizer");
  std::string text;
  const std::vector<std::string> parts = golden_texts();
  for (uint64_t i = 0; text.size() < size; ++i) {
    if (texty && random.below(3 * i, 4) != 0) {
      const std::string& part = parts[random.below(3 * i + 1, parts.size())];
      if (!part.empty()) text += part.substr(random.below(3 * i + 2, part.size()), 17);
    } else {
      text.push_back(static_cast<char>(random.below(3 * i + 1, 256)));
    }
  }
  return text;
}

TEST(TokenizerGolden, IdsOfEveryFamily) {
  ASSERT_TRUE(golden().at("peer").get<std::string>().starts_with("tokenizers 0.23."));
  ASSERT_GE(golden().at("cases").size(), 12u);
  for (const Json& item : golden().at("cases")) {
    const Tokenizer tokenizer = golden_tokenizer(item);
    const std::vector<std::string> texts = golden_texts();
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.encode(texts[i]), item.at("ids")[i].get<std::vector<int32_t>>())
          << item.at("name") << " text " << i;
      const Json& special = item.at("special_ids").is_null() ? item.at("ids") : item.at("special_ids");
      EXPECT_EQ(tokenizer.encode(texts[i], true), special[i].get<std::vector<int32_t>>())
          << item.at("name") << " text " << i;
    }
  }
}

TEST(TokenizerGolden, TrainingEqualsThePeers) {
  const std::vector<std::string> texts = golden_texts();
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    size_t next = 0;
    const Tokenizer tokenizer = train_bpe(
        [&](std::string& text) {
          if (next == texts.size()) return false;
          text = texts[next++];
          return true;
        },
        {.vocabulary = 400});
    const Json model = Json::parse(tokenizer.definition()).at("model");
    EXPECT_EQ(model.at("vocab"), golden().at("trained_on_texts").at("vocab"));
    EXPECT_EQ(model.at("merges"), golden().at("trained_on_texts").at("merges"));
    EXPECT_EQ(tokenizer.id_of(kEndOfDocument), 0);
    EXPECT_EQ(tokenizer.end_of_document(), 0);
  }
  set_threads(0);
}

bool byte_preserving(const std::string& name) {
  return name == "gpt2" || name == "llama3" || name == "o200k" || name == "starcoder" ||
         name == "added-tokens" || name == "ignore-merges";
}

TEST(TokenizerRoundTrip, AnyBytesComeBack) {
  int checked = 0;
  for (const Json& item : golden().at("cases")) {
    if (!byte_preserving(item.at("name"))) continue;
    const Tokenizer tokenizer = golden_tokenizer(item);
    // lstrip tokens drop spaces
    const bool strips = item.at("name") == "added-tokens" || item.at("name") == "ignore-merges";
    for (uint64_t seed = 0; seed < 20 && !strips; ++seed) {
      const std::string text = random_bytes(seed, 2000, seed % 2 == 1);
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text) << item.at("name") << " seed " << seed;
      ++checked;
    }
  }
  EXPECT_GE(checked, 80);
  const std::string text = random_bytes(99, 3000, false);
  const Tokenizer bytes = Tokenizer::bytes();
  EXPECT_EQ(bytes.decode(bytes.encode(text)), text);
  EXPECT_EQ(bytes.encode(std::string("a\xFF", 2)), (std::vector<int32_t>{97, 255}));
  EXPECT_EQ(bytes.end_of_document(), 256);
  EXPECT_EQ(bytes.vocabulary(), 257);
}

TEST(TokenizerRoundTrip, FallbackBytesComeBack) {
  for (const Json& item : golden().at("cases")) {
    if (item.at("name") != "llama2") continue;
    const Tokenizer tokenizer = golden_tokenizer(item);
    const std::string text = "x \xFF\xFE bad \xE4\xBD good \xE4\xBD\xA0 \xF0\x9F";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    return;
  }
  FAIL() << "no llama2 in the golden file";
}

TEST(TokenizerStream, ChunksGiveTheIdsOfTheWhole) {
  for (const Json& item : golden().at("cases")) {
    const Tokenizer tokenizer = golden_tokenizer(item);
    std::string text;
    for (int i = 0; i < 400; ++i) {
      for (const std::string& part : golden_texts()) text += part + (i % 3 == 0 ? " " : "\n");
      text += random_bytes(static_cast<uint64_t>(i), 200, true);
    }
    const std::vector<int32_t> whole = tokenizer.encode(text, true);
    for (const size_t chunk : {size_t{4099}, size_t{100000}, text.size()}) {
      StreamEncoder stream(tokenizer, true, 64 << 20);
      std::vector<int32_t> ids;
      for (size_t at = 0; at < text.size(); at += chunk)
        stream.feed(std::string_view(text).substr(at, chunk), ids);
      stream.finish(ids);
      ASSERT_TRUE(ids == whole) << item.at("name") << " chunk " << chunk;
      EXPECT_TRUE(stream.exact());
    }
  }
}

TEST(TokenizerStream, EveryCutThatIsCalledSafeIsSafe) {
  for (const Json& item : golden().at("cases")) {
    const Tokenizer tokenizer = golden_tokenizer(item);
    int cuts = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const std::string text = random_bytes(seed, 300, true);
      const std::string follow = random_bytes(seed + 1000, 50, true);
      // Only complete characters are asked about, as StreamEncoder does.
      std::string asked = text.substr(0, 200 + seed);
      while (!asked.empty() && static_cast<uint8_t>(asked.back()) >= 0x80) asked.pop_back();
      const int64_t cut = tokenizer.last_safe_cut(asked);
      if (cut <= 0) continue;
      ++cuts;
      const std::string whole = asked + follow;
      std::vector<int32_t> parts;
      tokenizer.encode_part(std::string_view(whole).substr(0, static_cast<size_t>(cut)),
                            {.first = true, .last = false}, parts, true);
      tokenizer.encode_part(std::string_view(whole).substr(static_cast<size_t>(cut)),
                            {.first = false, .last = true}, parts, true);
      ASSERT_EQ(parts, tokenizer.encode(whole, true))
          << item.at("name") << " seed " << seed << " cut " << cut;
    }
    EXPECT_GT(cuts, 30) << item.at("name");
  }
}

TEST(TokenizerStream, AForcedCutKeepsEveryByteAndSaysSo) {
  const Tokenizer tokenizer = golden_tokenizer(golden().at("cases")[0]);
  const std::string text(1 << 20, 'a');
  StreamEncoder stream(tokenizer, false, 100000);
  std::vector<int32_t> ids;
  for (size_t at = 0; at < text.size(); at += 5000) stream.feed(std::string_view(text).substr(at, 5000), ids);
  stream.finish(ids);
  EXPECT_FALSE(stream.exact());
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(TokenizerModel, OneHugeWordTakesNoQuadraticTime) {
  // 4 MB without a word end: quadratic merging would need hours.
  const Tokenizer tokenizer = golden_tokenizer(golden().at("cases")[0]);
  const std::string text(4 << 20, 'a');
  const std::vector<int32_t> ids = tokenizer.encode(text);
  EXPECT_LT(ids.size(), text.size());
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(TokenizerUnicode, NormalizationFollowsThePeersTables) {
  EXPECT_EQ(nfc("e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(nfc("\xE1\x84\x80\xE1\x85\xA1"), "\xEA\xB0\x80");  // Hangul
  EXPECT_EQ(nfc("\xE2\x84\xAB"), "\xC3\x85");                  // Angstrom sign
  EXPECT_EQ(nfc("q\xCC\x87\xCC\xA3"), "q\xCC\xA3\xCC\x87");    // reordered marks
  EXPECT_EQ(nfc("a\xFF\xCC\x81"), "a\xFF\xCC\x81");            // a bad byte stands between
  // U+1ABF is too new for the peer to reorder
  EXPECT_EQ(nfc("e\xE1\xAA\xBF\xCC\x81"), "e\xE1\xAA\xBF\xCC\x81");
  EXPECT_EQ(class_of(0x1C89), CharClass::kLetter);  // Unicode 16
  EXPECT_EQ(class_of(0x10D40), CharClass::kNumber);
  EXPECT_EQ(class_of(0x180E), CharClass::kOther);
  EXPECT_EQ(class_of(0x85), CharClass::kSpace);
}

TEST(TokenizerCommands, IdsAreReadInEveryWritingAndOthersRefused) {
  const std::vector<int32_t> ids{1, 22, 333};
  for (const char* text :
       {"[1,22,333]", "{\"file\":\"x\",\"ids\":[1, 22, 333]}\n", "1 22 333\n", " 1,22\n333"})
    EXPECT_EQ(read_ids(text, "t"), ids);
  for (const char* text : {"[1,-2]", "[1.5]", "{\"id\":1}", "1 x", "[1", "99999999999999"})
    EXPECT_THROW(read_ids(text, "t"), Error) << text;
}

}  // namespace
}  // namespace longhaul::data
