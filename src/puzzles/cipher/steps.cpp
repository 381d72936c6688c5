#include "puzzles/cipher/steps.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "puzzles/cipher/keys.h"

namespace longhaul::puzzles::cipher {
namespace {

constexpr std::string_view kSquareOf36 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", kSides = "ADFGVX";

std::string affine_code(const Key& key, char letter, size_t) {
  const auto& alphabet = key["alphabet"].get_ref<const std::string&>();
  const auto number = static_cast<int64_t>(alphabet.find(letter));
  return {alphabet[static_cast<size_t>((key["a"].get<int64_t>() * number + key["b"].get<int64_t>()) % 26)]};
}
std::string substitution_code(const Key& key, char letter, size_t) {
  return {key["alphabet"].get_ref<const std::string&>()[number_of(letter)]};
}
std::string tap_code(const Key& key, char letter, size_t) {
  constexpr std::array<std::string_view, 8> kGroups = {"ABC", "DEF",  "GHI", "JKL",
                                                       "MNO", "PQRS", "TUV", "WXYZ"};
  size_t group = 0;
  while (kGroups[group].find(letter) == std::string_view::npos) ++group;
  return fmt::format("{}^{}", key["digits"][group].get<int64_t>(), kGroups[group].find(letter) + 1);
}
std::string multiple_code(const Key& key, char letter, size_t) {
  return std::to_string(letter * key["factor"].get<int64_t>());
}
std::string key_word_code(const Key& key, char letter, size_t at) {
  const auto& word = key["word"].get_ref<const std::string&>();
  return {shifted(letter, static_cast<int64_t>(number_of(word[at % word.size()])))};
}
std::string disc_code(const Key& key, char letter, size_t at) {
  const auto turns = static_cast<int64_t>(at) / key["period"].get<int64_t>();
  return {shifted(letter, key["start"].get<int64_t>() + turns * key["turn"].get<int64_t>())};
}
std::string square_code(const Key& key, char letter, size_t) {
  const size_t at = key["square"].get_ref<const std::string&>().find(letter);
  return at == std::string::npos ? "00" : fmt::format("{}{}", at / 5 + 1, at % 5 + 1);
}
std::string xor_code(const Key& key, char letter, size_t at) {
  const Key& bytes = key["bytes"];
  return fmt::format("{:02X}", static_cast<int64_t>(letter) ^ bytes[at % bytes.size()].get<int64_t>());
}
std::string power_code(const Key& key, char letter, size_t) {
  const auto n = key["n"].get<int64_t>();
  int64_t value = 1;
  for (int64_t i = 0; i < key["e"].get<int64_t>(); ++i)
    value = value * (static_cast<int64_t>(number_of(letter)) + 1) % n;
  return std::to_string(value);
}

// ---- transpositions: which letter of the text stands at each place of the result
// -------------------------------------------

// What stands in the columns of rows as wide as the order is long, the column numbered 1 first.
std::vector<size_t> columns_in_order(const Key& key, size_t length) {
  const auto order = key["order"].get<std::vector<int64_t>>();
  std::vector<size_t> places;
  for (size_t number = 1; number <= order.size(); ++number) {
    const auto column =
        static_cast<size_t>(std::ranges::find(order, static_cast<int64_t>(number)) - order.begin());
    for (size_t at = column; at < length; at += order.size()) places.push_back(at);
  }
  return places;
}
// What stands on the rails of a zigzag, in the order of the rails that the key tells.
std::vector<size_t> rails_in_order(const Key& key, size_t length) {
  const auto order = key["order"].get<std::vector<int64_t>>();
  const size_t rails = order.size(), round = rails == 1 ? 1 : 2 * (rails - 1);
  std::vector<size_t> places;
  for (const int64_t rail : order) {
    for (size_t at = 0; at < length; ++at) {
      const size_t step = at % round, on = step < rails ? step : round - step;
      if (static_cast<int64_t>(on) + 1 == rail) places.push_back(at);
    }
  }
  return places;
}

// ---- ciphers that take letters apart
// ---------------------------------------------------------------------------------------

Text encrypt_bifid(const Key& key, const std::string& text) {
  const auto& square = key["square"].get_ref<const std::string&>();
  std::vector<size_t> numbers(2 * text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t at = square.find(text[i]);
    if (at == std::string::npos) return std::nullopt;  // J
    numbers[i] = at / 5;
    numbers[text.size() + i] = at % 5;
  }
  std::string out;
  for (size_t i = 0; i < numbers.size(); i += 2) out += square[numbers[i] * 5 + numbers[i + 1]];
  return out;
}
Text decrypt_bifid(const Key& key, const std::string& text) {
  const auto& square = key["square"].get_ref<const std::string&>();
  std::vector<size_t> numbers;
  for (const char c : text) {
    const size_t at = square.find(c);
    if (at == std::string::npos) return std::nullopt;
    numbers.insert(numbers.end(), {at / 5, at % 5});
  }
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) out += square[numbers[i] * 5 + numbers[text.size() + i]];
  return out;
}
Text encrypt_adfgvx(const Key& key, const std::string& text) {
  const auto& square = key["square"].get_ref<const std::string&>();
  std::string pairs;
  for (const char c : text) {
    const size_t at = square.find(c);
    pairs += {kSides[at / 6], kSides[at % 6]};
  }
  return encrypt_places<columns_in_order>(key, pairs);
}
Text decrypt_adfgvx(const Key& key, const std::string& text) {
  const std::string pairs = decrypt_places<columns_in_order>(key, text).value();
  if (pairs.size() % 2 != 0 || pairs.find_first_not_of(kSides) != std::string::npos) return std::nullopt;
  std::string out;
  for (size_t i = 0; i < pairs.size(); i += 2)
    out += key["square"].get_ref<const std::string&>()[kSides.find(pairs[i]) * 6 + kSides.find(pairs[i + 1])];
  return out.find_first_of("0123456789") == std::string::npos ? Text(out) : std::nullopt;
}

// n = p q, e without common factors with (p - 1)(q - 1), and d with e d = 1 modulo it.
Key drawn_power_key(Draw& draw) {
  constexpr std::array<int64_t, 8> kPrimes = {7, 11, 13, 17, 19, 23, 29, 31};
  const size_t first = draw.below(kPrimes.size() - 1);
  const int64_t p = kPrimes[first], q = kPrimes[first + 1 + draw.below(kPrimes.size() - 1 - first)],
                order = (p - 1) * (q - 1);
  int64_t e = draw.between(3, 17);
  while (std::gcd(e, order) != 1) ++e;
  int64_t d = 1;
  while (e * d % order != 1) ++d;
  return {{"n", p * q}, {"e", e}, {"d", d}};
}
bool is_power_key(const Key& key) {
  if (!is_number(key, "n", 27, 10'000) || !is_number(key, "e", 1, 1000) || !is_number(key, "d", 1, 10'000))
    return false;
  std::vector<std::string> codes;
  for (const char letter : kLetters) codes.push_back(power_code(key, letter, 0));
  std::ranges::sort(codes);
  return std::ranges::adjacent_find(codes) == codes.end();
}

const Cipher kCiphers[] = {
    {"substitution", 1, true,
     "Each letter is replaced: A by the first letter of alphabet, B by the second one, and so on to Z. To "
     "decrypt, replace them the other way round.",
     "每个字母都被替换：A 换成 alphabet 的第一个字母，B 换成第二个，依此类推直到 Z。解密时反向替换。",
     [](Draw& draw) -> Key {
       return {{"alphabet", shuffled(kLetters, draw)}};
     },
     [](const Key& key) { return is_shuffle_of(key, "alphabet", kLetters); },
     encrypt_letters<substitution_code, false>, decrypt_letters<substitution_code, false>},
    {"affine", 1, true,
     "The letters are numbered from 0 to 25 in the order in which alphabet lists them. The letter with "
     "the number n is replaced by the one with the "
     "number (a * n + b) mod 26. To decrypt, find for each letter the one that it replaces.",
     "字母按 alphabet 中的次序编号为 0 到 25。编号为 n 的字母换成编号为 (a * n + b) mod 26 "
     "的字母。解密时，找出每个字母所替换的那个字母。",
     [](Draw& draw) -> Key {
       constexpr std::array<int64_t, 11> kFactors = {3, 5, 7, 9, 11, 15, 17, 19, 21, 23, 25};
       return {{"alphabet", shuffled(kLetters, draw)},
               {"a", kFactors[draw.below(kFactors.size())]},
               {"b", draw.between(0, 25)}};
     },
     [](const Key& key) {
       return is_shuffle_of(key, "alphabet", kLetters) && is_number(key, "a", 1, 25) &&
              is_number(key, "b", 0, 25) && std::gcd(key["a"].get<int64_t>(), int64_t{26}) == 1;
     },
     encrypt_letters<affine_code, false>, decrypt_letters<affine_code, false>},
    {"multi_tap", 1, false,
     "The groups ABC, DEF, GHI, JKL, MNO, PQRS, TUV and WXYZ lie on the keys of a telephone: digits lists "
     "the digit of each group in this order. A letter "
     "becomes the digit of its group, the sign ^ and its place in the group (from 1), such as 7^2; codes "
     "stand with blanks between them. To decrypt, "
     "read the letters back.",
     "ABC、DEF、GHI、JKL、MNO、PQRS、TUV、WXYZ 这些组位于电话按键上：digits "
     "按此次序列出每组的数字。一个字母变成其组的数字、符号 ^ 和它在组中的位置（从 1 起），"
     "例如 7^2；各个代码之间用空格隔开。解密时读回字母。",
     [](Draw& draw) -> Key {
       std::vector<int64_t> digits = {2, 3, 4, 5, 6, 7, 8, 9};
       draw.shuffle(digits);
       return {{"digits", digits}};
     },
     [](const Key& key) {
       if (!is_list_of_numbers(key, "digits", 8, 0, 9)) return false;
       auto digits = key["digits"].get<std::vector<int64_t>>();
       std::ranges::sort(digits);
       return std::ranges::adjacent_find(digits) == digits.end();
     },
     encrypt_letters<tap_code, true>, decrypt_letters<tap_code, true>},
    {"multiple", 1, false,
     "Each letter becomes its ASCII code (65 for A to 90 for Z) times factor; the numbers stand with "
     "blanks between them. To decrypt, divide them by factor.",
     "每个字母变成它的 ASCII 码（A 为 65，直到 Z 为 90）乘以 factor；各个数之间用空格隔开。解密时除以 "
     "factor。",
     [](Draw& draw) -> Key {
       return {{"factor", draw.between(2, 40)}};
     },
     [](const Key& key) { return is_number(key, "factor", 1, 10'000); }, encrypt_letters<multiple_code, true>,
     decrypt_letters<multiple_code, true>},
    {"key_word", 2, true,
     "word is written below the text again and again. Each letter moves forward in the alphabet from A to "
     "Z by the number of the letter below it (A is 0, B "
     "is 1, to 25 for Z), and from Z on to A again. To decrypt, move the letters backward.",
     "把 word 反复写在文本下面。每个字母在 A 到 Z 的字母表中向前移动其下方字母的编号（A 为 0，B 为 1，直到 Z "
     "为 25），过了 Z 再从 A 继续。解密时向后移动。",
     [](Draw& draw) -> Key {
       return {{"word", drawn_key_word(draw)}};
     },
     [](const Key& key) {
       return has_text(key, "word") && !key["word"].get<std::string>().empty() &&
              key["word"].get<std::string>().find_first_not_of(kLetters) == std::string::npos;
     },
     encrypt_letters<key_word_code, false>, decrypt_letters<key_word_code, false>},
    {"disc", 2, true,
     "Letters move forward in the alphabet from A to Z, and from Z on to A again: the first period "
     "letters by start, the next period letters by start + turn, the "
     "next ones by start + 2 * turn, and so on. To decrypt, move the letters backward.",
     "字母在 A 到 Z 的字母表中向前移动，过了 Z 再从 A 继续：最先的 period 个字母移动 start，接下来的 period "
     "个字母移动 start + turn，再接下来的移动 "
     "start + 2 * turn，依此类推。"
     "解密时向后移动。",
     [](Draw& draw) -> Key {
       return {{"start", draw.between(0, 25)}, {"period", draw.between(1, 5)}, {"turn", draw.between(1, 25)}};
     },
     [](const Key& key) {
       return is_number(key, "start", 0, 25) && is_number(key, "period", 1, 100) &&
              is_number(key, "turn", 0, 25);
     },
     encrypt_letters<disc_code, false>, decrypt_letters<disc_code, false>},
    {"columns", 2, true,
     "The text is written in rows of as many letters as order has numbers (the last row may be shorter). "
     "order numbers the columns from left to right. The columns are "
     "read from top to bottom, the one with the number 1 first, then the one with the number 2, and so "
     "on. To decrypt, fill the columns in this order and read "
     "the rows.",
     "把文本按行书写，每行的字母数等于 order 中数的个数（最后一行可以较短）。order "
     "从左到右给各列编号。各列从上到下读出，先读编号为 1 的列，再读编号为 2 的列，依此类推。"
     "解密时按此次序填满各列，再按行读出。",
     [](Draw& draw) -> Key {
       return {{"order", drawn_order(draw.between(3, 6), draw)}};
     },
     is_order, encrypt_places<columns_in_order>, decrypt_places<columns_in_order>},
    {"rails", 2, true,
     "There are as many rails, one below the other and numbered from 1 at the top, as order has numbers. "
     "The text is written in a zigzag, one letter on each rail from the "
     "top rail down to the lowest, then up again to the top one, and so on. The rails are read from left "
     "to right, in the order in which order lists them. To "
     "decrypt, find the places of the zigzag, fill them rail by rail in that order, and read along the "
     "zigzag.",
     "有若干条上下排列的轨道，从上到下编号从 1 开始，条数等于 order "
     "中数的个数。文本按之字形书写，每条轨道一个字母，从最上面的轨道到最下面的，再回到最上面的，依此类推。"
     "各轨道从左到右读出，次序如 order 所列。解密时先找出之字形的位置，按该次序逐轨填入，再沿之字形读出。",
     [](Draw& draw) -> Key {
       return {{"order", drawn_order(draw.between(2, 5), draw)}};
     },
     is_order, encrypt_places<rails_in_order>, decrypt_places<rails_in_order>},
    {"square", 2, false,
     "square fills a table of 5 rows and 5 columns, row by row. A letter becomes the number of its row "
     "and the number of its column (both from 1), such as 34; J, which is "
     "not in the table, becomes 00. The codes stand with blanks between them. To decrypt, read the "
     "letters back.",
     "square 逐行填满一个 5 行 5 列的表。一个字母变成它的行号和列号（都从 1 起），例如 34；不在表中的 J 变成 "
     "00。各个代码之间用空格隔开。解密时读回字母。",
     [](Draw& draw) -> Key {
       return {{"square", shuffled(kSquareLetters, draw)}};
     },
     [](const Key& key) { return is_shuffle_of(key, "square", kSquareLetters); },
     encrypt_letters<square_code, true>, decrypt_letters<square_code, true>},
    {"xor", 2, false,
     "Each letter's ASCII code (65 for A to 90 for Z) is combined by bitwise exclusive or with a number "
     "of bytes: the first letter with the first number, and so on, from the "
     "beginning again after the last one. The results stand as two hexadecimal digits each (0 to 9, A to "
     "F) with blanks between them. To decrypt, do the same "
     "with the results.",
     "每个字母的 ASCII 码（A 为 65，直到 Z 为 90）与 bytes "
     "中的一个数按位异或：第一个字母用第一个数，依此类推，用完最后一个再从头开始。结果各写成两位十六进制数字"
     "（0 到 9、A "
     "到 F），"
     "之间用空格隔开。解密时对结果做同样的运算。",
     [](Draw& draw) -> Key {
       std::vector<int64_t> bytes;
       for (int64_t i = draw.between(2, 4); i > 0; --i) bytes.push_back(draw.between(1, 255));
       return {{"bytes", bytes}};
     },
     [](const Key& key) {
       return key.contains("bytes") && key["bytes"].is_array() && !key["bytes"].empty() &&
              is_list_of_numbers(key, "bytes", key["bytes"].size(), 0, 255);
     },
     encrypt_letters<xor_code, true>, decrypt_letters<xor_code, true>},
    {"bifid", 3, true,
     "square fills a table of 5 rows and 5 columns, row by row (it has no J, and neither has the text). "
     "The row numbers of all letters of the text are written down one after "
     "the other, and after them the column numbers of all letters. This list of numbers is cut into "
     "pairs, and each pair, as row and column, names a letter of the "
     "table. To decrypt, write down row and column of each letter, one pair after the other; the first "
     "half of the list are the rows, the second half the columns "
     "of the text's letters.",
     "square 逐行填满一个 5 行 5 列的表（其中没有 "
     "J，文本中也没有）。依次写下文本所有字母的行号，再写下所有字母的列号。把这串数两个两个分开，每一对作为行"
     "和列指出表中的一个字母。"
     "解密时依次写下每个字母的行号和列号；这串数的前一半是原文字母的行号，后一半是列号。",
     [](Draw& draw) -> Key {
       return {{"square", shuffled(kSquareLetters, draw)}};
     },
     [](const Key& key) { return is_shuffle_of(key, "square", kSquareLetters); }, encrypt_bifid,
     decrypt_bifid},
    {"adfgvx", 3, true,
     "square fills a table of 6 rows and 6 columns, row by row; rows and columns are named A, D, F, G, V, "
     "X in this order. Each letter becomes the name of its row and the "
     "name of its column. The text that results is written in rows of as many letters as order has "
     "numbers (the last row may be shorter); order numbers the columns "
     "from left to right, and they are read from top to bottom, number 1 first, then number 2, and so on. "
     "To decrypt, undo both parts.",
     "square 逐行填满一个 6 行 6 列的表；行和列依次名为 "
     "A、D、F、G、V、X。每个字母变成它的行名和列名。所得文本按行书写，每行的字母数等于 order "
     "中数的个数（最后一行可以较短）；"
     "order 从左到右给各列编号，各列从上到下读出，先读编号 1，再读编号 2，依此类推。解密时把两部分逆向进行。",
     [](Draw& draw) -> Key {
       return {{"square", shuffled(kSquareOf36, draw)}, {"order", drawn_order(draw.between(3, 6), draw)}};
     },
     [](const Key& key) { return is_shuffle_of(key, "square", kSquareOf36) && is_order(key); },
     encrypt_adfgvx, decrypt_adfgvx},
    {"power", 3, false,
     "Each letter has a number, from 1 for A to 26 for Z. The number x becomes x to the power of e, "
     "modulo n; the results stand with blanks between them. To decrypt, raise "
     "each result to the power of d, modulo n.",
     "每个字母有一个编号，A 为 1，直到 Z 为 26。编号 x 变成 x 的 e 次方除以 n "
     "的余数；各个结果之间用空格隔开。解密时取每个结果的 d 次方除以 n 的余数。",
     drawn_power_key, is_power_key, encrypt_letters<power_code, true>, decrypt_letters<power_code, true>},
};

}  // namespace

std::span<const Cipher> ciphers() {
  static const std::vector<Cipher> all = [] {
    std::vector<Cipher> both(std::begin(kCiphers), std::end(kCiphers));
    both.insert(both.end(), more_ciphers().begin(), more_ciphers().end());
    return both;
  }();
  return all;
}

}  // namespace longhaul::puzzles::cipher
