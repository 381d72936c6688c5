// Ciphers: known texts, and both directions of each kind.
#include "puzzles/cipher/cipher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "puzzles/cipher/steps.h"
#include "puzzles/maker.h"

namespace longhaul::puzzles::cipher {
namespace {

const Cipher& cipher_named(std::string_view name) {
  return *std::ranges::find(ciphers(), name, &Cipher::name);
}

TEST(Cipher, KnownTexts) {
  const std::string abc = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", square = "ABCDEFGHIKLMNOPQRSTUVWXYZ",
                    six = abc + "0123456789";
  const struct {
    const char* name;
    nlohmann::json key;
    const char *text, *code;
  } kKnown[] = {{"substitution", {{"alphabet", "ZYXWVUTSRQPONMLKJIHGFEDCBA"}}, "HELLO", "SVOOL"},  // Atbash
                {"affine", {{"alphabet", abc}, {"a", 5}, {"b", 8}}, "AFFINE", "IHHWVC"},
                // the usual example of Vigenère's cipher
                {"key_word", {{"word", "LEMON"}}, "ATTACKATDAWN", "LXFOPVEFRNHR"},
                {"disc", {{"start", 1}, {"period", 2}, {"turn", 1}}, "AAAAA", "BBCCD"},
                {"columns", {{"order", {3, 1, 2}}}, "ABCDEFGH", "BEHCFADG"},
                // the usual example of a rail fence
                {"rails", {{"order", {1, 2, 3}}}, "WEAREDISCOVEREDFLEEATONCE", "WECRLTEERDSOEEFEAOCAIVDEN"},
                {"rails", {{"order", {2, 1, 3}}}, "ABCDE", "BDAEC"},
                {"square", {{"square", square}}, "BAZJ", "12 11 55 00"},
                {"multi_tap", {{"digits", {2, 3, 4, 5, 6, 7, 8, 9}}}, "ASZV", "2^1 7^4 9^4 8^3"},
                {"multiple", {{"factor", 3}}, "AZ", "195 270"},
                {"xor", {{"bytes", {1, 255}}}, "ABA", "40 BD 40"},
                // Wikipedia's example
                {"bifid", {{"square", "BGWKZQPNDSIOAXEFCLUMTHYVR"}}, "FLEEATONCE", "UAEOLWRINS"},
                // AA and VD, the second column first
                {"adfgvx", {{"square", six}, {"order", {2, 1}}}, "AZ", "ADAV"},
                {"power", {{"n", 33}, {"e", 3}, {"d", 7}}, "BC", "8 27"},
                {"reverse_shift", {{"shift", 3}}, "ABZ", "CBD"},
                // the usual example of a key word for an alphabet
                {"key_alphabet", {{"word", "ZEBRAS"}}, "ABCDEFGHIJ", "ZEBRASCDFG"},
                {"numbers",
                 {{"numbers", {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                               23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 99}}},
                 "AZB",
                 "10 99 11"},
                {"porta", {{"word", "ABCYZ"}}, "AAAAAM", "NNOZZZ"},
                {"porta", {{"word", "CD"}}, "NOZ", "MAL"},
                {"wheels",
                 {{"steps", 1}, {"wheel1", abc}, {"wheel2", "ZYXWVUTSRQPONMLKJIHGFEDCBA"}, {"wheel3", abc}},
                 "AAZZ",
                 "BZAA"},
                {"path", {{"width", 3}}, "ABCDEFGH", "AFGBEHCD"},  // ABC, then FED, then GH
                {"bits", {{"byte", 0}, {"order", {8, 7, 6, 5, 4, 3, 2, 1}}}, "AB", "10000010 01000010"},
                {"bits", {{"byte", 255}, {"order", {1, 2, 3, 4, 5, 6, 7, 8}}}, "A", "10111110"},
                // after five letters the second row is the first
                {"moving_square", {{"square", square}}, "AEZABABZ", "GFAGHMNF"},
                {"four_square",
                 {{"right", "EXAMPLBCDFGHIKNOQRSTUVWYZ"}, {"below", "KEYWORDABCFGHILMNPQSTUVXZ"}},
                 "HELPMEOBIWANKENOBI",
                 "FYNFNEHWBXAFFOKHMD"},
                {"morbit", {{"order", {9, 5, 8, 4, 2, 1, 3, 6, 7}}}, "ON", "214"},
                {"collon", {{"square", square}, {"group", 2}}, "AZB", "AVVZAW"},
                {"boxes", {{"bytes", {0, 255}}, {"box", "FEDCBA9876543210"}}, "AA", "BE 41"}};
  for (const auto& known : kKnown) {
    const Cipher& cipher = cipher_named(known.name);
    ASSERT_TRUE(cipher.is_key(known.key)) << known.name;
    EXPECT_EQ(cipher.encrypt(known.key, known.text), known.code) << known.name;
    EXPECT_EQ(cipher.decrypt(known.key, known.code), known.text) << known.name;
  }
}

TEST(Cipher, EveryKindGoesBothWaysWithDrawnKeys) {
  EXPECT_EQ(ciphers().size(), 25u);
  for (const Cipher& cipher : ciphers()) {
    for (uint64_t i = 0; i < 40; ++i) {
      Draw draw({.task = "keys", .index = i});
      const nlohmann::json key = cipher.draw(draw);
      std::string text;
      for (uint64_t n = 1 + draw.below(20); n > 0; --n) text += "ABCDEFGHIKLMNOPQRSTUVWXYZ"[draw.below(25)];
      if (cipher.name == "four_square" && text.size() % 2 == 1) text += 'A';  // it takes pairs
      ASSERT_TRUE(cipher.is_key(key)) << cipher.name << key.dump();
      const auto code = cipher.encrypt(key, text);
      ASSERT_TRUE(code) << cipher.name;
      EXPECT_EQ(cipher.decrypt(key, *code), text) << cipher.name << key.dump();
      const bool letters = code->find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
      EXPECT_EQ(letters, cipher.gives_letters) << cipher.name;
    }
  }
}

TEST(Cipher, AnswersMayStandWithoutBracketsAndInLowerCase) {
  const nlohmann::json given = {
      {"direction", "encrypt"}, {"text", "AZ"}, {"steps", {{{"cipher", "multiple"}, {"factor", 3}}}}};
  const auto code = [&](const char* answer) { return kTask.verify(given, answer).code; };
  for (const char* right : {"[[\"195 270\"]]", "[['195 270']]", "[[195  270]]", " 195 270 "})
    EXPECT_EQ(code(right), VerdictCode::kAccepted) << right;
  for (const char* wrong : {"[[\"195 271\"]]", "[[\"270 195\"]]"})
    EXPECT_EQ(code(wrong), VerdictCode::kRuleBroken) << wrong;
  for (const char* wrong : {"[[\"195\"]]", "195270"}) EXPECT_EQ(code(wrong), VerdictCode::kShape) << wrong;
  for (const char* bad : {"", "[[]]", "[[\"\"]]", "195,270", "[[195 270", "[[\"__import__('os')\"]]"})
    EXPECT_EQ(code(bad), VerdictCode::kUnreadable) << bad;
  const nlohmann::json back = {
      {"direction", "decrypt"},
      {"text", "SVOOL"},
      {"steps", {{{"cipher", "substitution"}, {"alphabet", "ZYXWVUTSRQPONMLKJIHGFEDCBA"}}}}};
  EXPECT_TRUE(kTask.verify(back, "[[\"hello\"]]").accepted());
  EXPECT_FALSE(kTask.verify(back, "[[\"HELLP\"]]").accepted());
}

TEST(Cipher, KeysOfOthersAreChecked) {
  const auto with = [](nlohmann::json step) {
    return nlohmann::json{{"direction", "encrypt"}, {"text", "ABC"}, {"steps", {std::move(step)}}};
  };
  for (const nlohmann::json& step :
       {nlohmann::json{{"cipher", "none"}},
        nlohmann::json{{"cipher", "affine"}, {"alphabet", "ABC"}, {"a", 5}, {"b", 1}},
        nlohmann::json{{"cipher", "affine"}, {"alphabet", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}, {"a", 13}, {"b", 1}},
        nlohmann::json{{"cipher", "columns"}, {"order", {1, 3}}},
        nlohmann::json{{"cipher", "disc"}, {"start", 1}, {"period", 0}, {"turn", 1}},
        nlohmann::json{{"cipher", "xor"}, {"bytes", nlohmann::json::array()}},
        nlohmann::json{{"cipher", "power"}, {"n", 26}, {"e", 2}, {"d", 2}},
        nlohmann::json{{"cipher", "key_word"}, {"word", ""}},
        nlohmann::json{{"cipher", "multi_tap"}, {"digits", {2, 2, 3, 4, 5, 6, 7, 8}}}})
    EXPECT_THROW(kTask.verify(with(step), "X"), Error) << step.dump();
}

}  // namespace
}  // namespace longhaul::puzzles::cipher
