#include <array>
#include <set>

#include "puzzles/cipher/keys.h"

namespace longhaul::puzzles::cipher {
namespace {

const std::string& text_in(const Key& key, const char* name) {
  return key[name].get_ref<const std::string&>();
}
bool is_key_word(const Key& key) {
  return has_text(key, "word") && !text_in(key, "word").empty() && text_in(key, "word").size() <= 26 &&
         text_in(key, "word").find_first_not_of(kLetters) == std::string::npos;
}

// ---- letter by letter
// ------------------------------------------------------------------------------------------------------

std::string reverse_code(const Key& key, char letter, size_t) {
  return {shifted('A', 25 - static_cast<int64_t>(number_of(letter)) + key["shift"].get<int64_t>())};
}

std::string key_alphabet_code(const Key& key, char letter, size_t) {
  std::string alphabet;
  for (const char c : text_in(key, "word") + std::string(kLetters)) {
    if (alphabet.find(c) == std::string::npos) alphabet += c;
  }
  return {alphabet[number_of(letter)]};
}

std::string numbers_code(const Key& key, char letter, size_t) {
  return std::to_string(key["numbers"][number_of(letter)].get<int64_t>());
}

Key drawn_numbers(Draw& draw) {
  std::vector<int64_t> numbers(90);
  std::iota(numbers.begin(), numbers.end(), int64_t{10});
  draw.shuffle(numbers);
  numbers.resize(26);
  return {{"numbers", numbers}};
}
bool are_numbers(const Key& key) {
  if (!is_list_of_numbers(key, "numbers", 26, 0, 999)) return false;
  const auto numbers = key["numbers"].get<std::vector<int64_t>>();
  return std::set<int64_t>(numbers.begin(), numbers.end()).size() == numbers.size();
}

std::string porta_code(const Key& key, char letter, size_t at) {
  const std::string& word = text_in(key, "word");
  const size_t by = number_of(word[at % word.size()]) / 2, number = number_of(letter);
  return {kLetters[number < 13 ? 13 + (number + by) % 13 : (number - by) % 13]};
}

constexpr std::array<const char*, 3> kWheels = {"wheel1", "wheel2", "wheel3"};
std::string wheels_code(const Key& key, char letter, size_t at) {
  const std::string& wheel = text_in(key, kWheels[at % kWheels.size()]);
  return {wheel[(wheel.find(letter) + static_cast<size_t>(key["steps"].get<int64_t>())) % 26]};
}

// After each five letters two neighbouring rows of the square change places.
std::string moving_square_code(const Key& key, char letter, size_t at) {
  const std::string& square = text_in(key, "square");
  const size_t place = square.find(letter);
  if (place == std::string::npos) return "";
  std::array<size_t, 5> rows = {0, 1, 2, 3, 4};
  for (size_t change = 0; change < at / 5; ++change) std::swap(rows[change % 4], rows[change % 4 + 1]);
  const auto row = static_cast<size_t>(std::ranges::find(rows, place / 5) - rows.begin());
  return {square[rows[(row + 1) % 5] * 5 + (place % 5 + 1) % 5]};
}
Text encrypt_moving_square(const Key& key, const std::string& text) {
  if (text.find('J') != std::string::npos) return std::nullopt;
  return encrypt_letters<moving_square_code, false>(key, text);
}

std::string bits_code(const Key& key, char letter, size_t) {
  const int64_t byte = static_cast<int64_t>(letter) ^ key["byte"].get<int64_t>();
  std::string bits;
  for (const Key& place : key["order"]) bits += (byte >> (8 - place.get<int64_t>()) & 1) != 0 ? '1' : '0';
  return bits;
}

std::string boxes_code(const Key& key, char letter, size_t at) {
  const Key& bytes = key["bytes"];
  const int64_t byte = static_cast<int64_t>(letter) ^ bytes[at % bytes.size()].get<int64_t>();
  const std::string& box = text_in(key, "box");
  return {box[static_cast<size_t>(byte / 16)], box[static_cast<size_t>(byte % 16)]};
}

// ---- transposition
// -----------------------------------------------------------------------------------------------------------

std::vector<size_t> path_in_columns(const Key& key, size_t length) {
  const auto width = static_cast<size_t>(key["width"].get<int64_t>());
  std::vector<size_t> places;
  for (size_t column = 0; column < width; ++column) {
    for (size_t row = 0; row * width < length; ++row) {
      const size_t at = row * width + (row % 2 == 0 ? column : width - 1 - column);
      if (at < length) places.push_back(at);
    }
  }
  return places;
}

// ---- pairs and parts of letters
// ----------------------------------------------------------------------------------------------

// Pairs of letters in the plain square become pairs in the squares at its right and below it.
Text four_square(const Key& key, const std::string& text, bool encrypt) {
  if (text.size() % 2 != 0 || text.find('J') != std::string::npos) return std::nullopt;
  const std::string plain(kSquareLetters);
  const std::string &from_one = encrypt ? plain : text_in(key, "right"),
                    &from_two = encrypt ? plain : text_in(key, "below");
  const std::string &to_one = encrypt ? text_in(key, "right") : plain,
                    &to_two = encrypt ? text_in(key, "below") : plain;
  std::string out;
  for (size_t i = 0; i < text.size(); i += 2) {
    const size_t one = from_one.find(text[i]), two = from_two.find(text[i + 1]);
    out += to_one[one / 5 * 5 + two % 5];
    out += to_two[two / 5 * 5 + one % 5];
  }
  return out;
}

constexpr std::array<std::string_view, 26> kMorse = {
    ".-", "-...", "-.-.", "-..",  ".",   "..-.", "--.", "....", "..",   ".---", "-.-",  ".-..", "--",
    "-.", "---",  ".--.", "--.-", ".-.", "...",  "-",   "..-",  "...-", ".--",  "-..-", "-.--", "--.."};
constexpr std::array<std::string_view, 9> kSignPairs = {"..", ".-", "./", "-.", "--", "-/", "/.", "/-", "//"};

Text encrypt_morbit(const Key& key, const std::string& text) {
  std::string signs;
  for (const char c : text) signs += (signs.empty() ? "" : "/") + std::string(kMorse[number_of(c)]);
  if (signs.size() % 2 != 0) signs += '/';
  std::string out;
  for (size_t i = 0; i < signs.size(); i += 2) {
    const auto pair =
        std::ranges::find(kSignPairs, std::string_view(signs).substr(i, 2)) - kSignPairs.begin();
    out += std::to_string(key["order"][static_cast<size_t>(pair)].get<int64_t>());
  }
  return out;
}
Text decrypt_morbit(const Key& key, const std::string& text) {
  const auto order = key["order"].get<std::vector<int64_t>>();
  std::string signs, out;
  for (const char c : text) {
    const auto pair = std::ranges::find(order, int64_t{c - '0'}) - order.begin();
    if (pair == static_cast<int64_t>(order.size())) return std::nullopt;
    signs += kSignPairs[static_cast<size_t>(pair)];
  }
  if (signs.ends_with('/')) signs.pop_back();
  for (const std::string& letter : words_between(signs, '/')) {
    const auto found = std::ranges::find(kMorse, letter) - kMorse.begin();
    if (found == static_cast<int64_t>(kMorse.size())) return std::nullopt;
    out += kLetters[static_cast<size_t>(found)];
  }
  return out;
}

// The first letter of each letter's row and the last letter of its column, in groups: all of the first kind,
// then all of the second.
Text encrypt_collon(const Key& key, const std::string& text) {
  const std::string& square = text_in(key, "square");
  const auto group = static_cast<size_t>(key["group"].get<int64_t>());
  std::string out;
  for (size_t begin = 0; begin < text.size(); begin += group) {
    std::string firsts, lasts;
    for (const char c : text.substr(begin, group)) {
      const size_t at = square.find(c);
      if (at == std::string::npos) return std::nullopt;  // J
      firsts += square[at / 5 * 5];
      lasts += square[20 + at % 5];
    }
    out += firsts + lasts;
  }
  return out;
}
Text decrypt_collon(const Key& key, const std::string& text) {
  const std::string& square = text_in(key, "square");
  const auto group = static_cast<size_t>(key["group"].get<int64_t>());
  std::string out;
  if (text.size() % 2 != 0) return std::nullopt;
  for (size_t begin = 0; begin < text.size(); begin += 2 * group) {
    const size_t letters = std::min(group, (text.size() - begin) / 2);
    for (size_t i = 0; i < letters; ++i) {
      const size_t row = square.find(text[begin + i]), column = square.find(text[begin + letters + i]);
      if (row == std::string::npos || column == std::string::npos || row % 5 != 0 || column < 20)
        return std::nullopt;
      out += square[row + column - 20];
    }
  }
  return out;
}

Key drawn_bytes(Draw& draw, int64_t least, int64_t most) {
  std::vector<int64_t> bytes;
  for (int64_t i = draw.between(least, most); i > 0; --i) bytes.push_back(draw.between(1, 255));
  return bytes;
}

const Cipher kMore[] = {
    {"reverse_shift", 1, true,
     "The alphabet from A to Z is read backward, so that A becomes Z, B becomes Y, and so on to Z, which "
     "becomes A; then each letter moves forward "
     "in the alphabet by shift, and from Z on to A again. To decrypt, move the letters backward by shift and "
     "read the alphabet backward again.",
     "把 A 到 Z 的字母表反过来读：A 变成 Z，B 变成 Y，直到 Z 变成 A；然后每个字母在字母表中向前移动 "
     "shift，过了 Z 再从 A 继续。解密时先向后移动 shift，再反读字母表。",
     [](Draw& draw) -> Key {
       return {{"shift", draw.between(1, 25)}};
     },
     [](const Key& key) { return is_number(key, "shift", 0, 25); }, encrypt_letters<reverse_code, false>,
     decrypt_letters<reverse_code, false>},
    {"key_alphabet", 1, true,
     "An alphabet is made of the letters of word, each where it comes first, and after them of all other "
     "letters from A to Z. A becomes the first "
     "letter of this alphabet, B the second one, and so on. To decrypt, replace them the other way round.",
     "用 word 的字母（每个字母只在第一次出现时取用）以及其后从 A 到 Z 的其他所有字母组成一个字母表。A "
     "换成这个字母表的第一个字母，B 换成第二个，依此类推。解密时反向替换。",
     [](Draw& draw) -> Key {
       return {{"word", drawn_key_word(draw)}};
     },
     is_key_word, encrypt_letters<key_alphabet_code, false>, decrypt_letters<key_alphabet_code, false>},
    {"numbers", 1, false,
     "numbers lists a number for each letter from A to Z. Each letter becomes its number; the numbers stand "
     "with blanks between them. To decrypt, read "
     "the letters back.",
     "numbers 依次列出 A 到 Z 每个字母的数。每个字母变成它的数；各个数之间用空格隔开。解密时读回字母。",
     drawn_numbers, are_numbers, encrypt_letters<numbers_code, true>, decrypt_letters<numbers_code, true>},
    {"porta", 2, true,
     "word is written below the text again and again. The letter below a letter of the text gives a number "
     "k: A and B give 0, C and D give 1, and so on "
     "to Y and Z, which give 12. The letters of each half of the alphabet are numbered from 0 to 12, A to M "
     "and N to Z. A letter of the first half "
     "with the number n becomes the letter of the second half with the number (n + k) mod 13, and a letter "
     "of the second half with the number n becomes "
     "the letter of the first half with the number (n - k) mod 13. To decrypt, do the same.",
     "把 word 反复写在文本下面。文本某字母下方的字母给出一个数 k：A 和 B 为 0，C 和 D 为 1，依此类推，Y 和 Z "
     "为 12。字母表两半 A 到 M 和 N 到 Z 的字母各编号 0 到 12。"
     "前一半中编号为 n 的字母变成后一半中编号为 (n + k) mod 13 的字母，后一半中编号为 n "
     "的字母变成前一半中编号为 (n - k) mod 13 的字母。解密时做同样的事。",
     [](Draw& draw) -> Key {
       return {{"word", drawn_key_word(draw)}};
     },
     is_key_word, encrypt_letters<porta_code, false>, decrypt_letters<porta_code, false>},
    {"wheels", 2, true,
     "Three wheels, wheel1, wheel2 and wheel3, each hold all letters in a circle, in the order given. The "
     "first letter of the text is looked up on wheel1, "
     "the second on wheel2, the third on wheel3, the fourth on wheel1 again, and so on. A letter becomes the "
     "one that follows it on its wheel by as many "
     "places as steps says. To decrypt, go as many places back.",
     "三个转轮 wheel1、wheel2、wheel3 各按给出的次序把所有字母排成一圈。文本的第一个字母在 wheel1 "
     "上找，第二个在 wheel2 上，第三个在 wheel3 上，第四个又在 wheel1 上，依此类推。"
     "一个字母变成在其转轮上位于它之后 steps 个位置的字母。解密时往回数同样多的位置。",
     [](Draw& draw) -> Key {
       Key key = {{"steps", draw.between(1, 25)}};
       for (const char* wheel : kWheels) key[wheel] = shuffled(kLetters, draw);
       return key;
     },
     [](const Key& key) {
       return is_number(key, "steps", 0, 25) && std::ranges::all_of(kWheels, [&](const char* wheel) {
                return is_shuffle_of(key, wheel, kLetters);
              });
     },
     encrypt_letters<wheels_code, false>, decrypt_letters<wheels_code, false>},
    {"path", 2, true,
     "The text is written along a winding path: in rows of width letters, the first row from left to right, "
     "the second from right to left, the third from "
     "left to right again, and so on; places of the last row that no letter reaches stay empty. Then the "
     "columns are read from top to bottom, the leftmost "
     "first, without the empty places. To decrypt, find the places that are filled, fill them column by "
     "column, and read along the path.",
     "文本沿着来回的路径书写：每行 width "
     "个字母，第一行从左到右，第二行从右到左，第三行又从左到右，依此类推；最后一行没有字母的位置空着。然后从"
     "最左边的列开始，从上到下读各列，跳过空位。"
     "解密时先找出被填的位置，逐列填入，再沿路径读出。",
     [](Draw& draw) -> Key {
       return {{"width", draw.between(3, 7)}};
     },
     [](const Key& key) { return is_number(key, "width", 1, 100); }, encrypt_places<path_in_columns>,
     decrypt_places<path_in_columns>},
    {"bits", 2, false,
     "The ASCII code of each letter (65 for A to 90 for Z) is combined by bitwise exclusive or with byte and "
     "written as eight binary digits, which are "
     "numbered from 1 at the left. They are written down anew in the order in which order lists their "
     "numbers. These groups of eight digits stand with "
     "blanks between them. To decrypt, put the digits back into their places and do the exclusive or once "
     "more.",
     "每个字母的 ASCII 码（A 为 65，直到 Z 为 90）与 byte 按位异或，写成八位二进制数字，从左起编号为 1 到 "
     "8。然后按 order 所列编号的次序重新写下这些数字。这些八位一组的数字之间用空格隔开。"
     "解密时把数字放回原位，再异或一次。",
     [](Draw& draw) -> Key {
       return {{"byte", draw.between(1, 255)}, {"order", drawn_order(8, draw)}};
     },
     [](const Key& key) {
       return is_number(key, "byte", 0, 255) && is_order(key) && key["order"].size() == 8;
     },
     encrypt_letters<bits_code, true>, decrypt_letters<bits_code, true>},
    {"moving_square", 3, true,
     "square fills a table of 5 rows and 5 columns, row by row (it has no J, and neither has the text). Each "
     "letter becomes the one that stands one row "
     "below it and one column to its right; the top row counts as below the lowest one, and the left column "
     "as right of the last one. After each five "
     "letters of the text two rows of the table change places: first the rows 1 and 2, the next time 2 and "
     "3, then 3 and 4, then 4 and 5, then 1 and 2 "
     "again, and so on (counted from the top as they lie then). To decrypt, go one row up and one column to "
     "the left in "
     "the same tables.",
     "square 逐行填满一个 5 行 5 列的表（其中没有 "
     "J，文本中也没有）。每个字母变成位于它下一行、右一列的字母；最上面的行算作最下面的行的下一行，最左边的列"
     "算作最右边的列的右一列。"
     "文本每过五个字母，表中有两行互换位置：第一次是第 1 和第 2 行，下一次是第 2 和第 3 行，然后第 3 和第 4 "
     "行，第 4 和第 5 行，之后又是第 1 和第 2 "
     "行，依此类推（按当时的位置从上往下数）。解密时在同样的表中向上一行、向左一列。",
     [](Draw& draw) -> Key {
       return {{"square", shuffled(kSquareLetters, draw)}};
     },
     [](const Key& key) { return is_shuffle_of(key, "square", kSquareLetters); }, encrypt_moving_square,
     decrypt_letters<moving_square_code, false>},
    {"four_square", 3, true,
     "There are four tables of 5 rows and 5 columns, filled row by row: the upper left and the lower right "
     "one hold the letters from A to Z without J, the "
     "upper right one holds right and the lower left one below. The text, which has no J, is cut into pairs. "
     "The first letter of a pair is found in the "
     "upper left table, the second in the lower right one. The pair becomes the letter of the upper right "
     "table in the first letter's row and the second "
     "letter's column, followed by the letter of the lower left table in the second letter's row and the "
     "first letter's column. To decrypt, find the "
     "letters of a pair in the upper right and the lower left table, and read those of the other two tables "
     "at the other corners of the rectangle.",
     "有四个逐行填满的 5 行 5 列的表：左上和右下的表为不含 J 的 A 到 Z，右上的表为 right，左下的表为 "
     "below。文本中没有 J，两个字母一组分开。每组的第一个字母在左上表中找，第二个在右下表中找。"
     "这一组变成右上表中第一个字母所在行、第二个字母所在列的字母，后面接左下表中第二个字母所在行、第一个字母"
     "所在列的字母。解密时在右上表和左下表中找出一组的两个字母，读出矩形另两角上的字母。",
     [](Draw& draw) -> Key {
       return {{"right", shuffled(kSquareLetters, draw)}, {"below", shuffled(kSquareLetters, draw)}};
     },
     [](const Key& key) {
       return is_shuffle_of(key, "right", kSquareLetters) && is_shuffle_of(key, "below", kSquareLetters);
     },
     [](const Key& key, const std::string& text) { return four_square(key, text, true); },
     [](const Key& key, const std::string& text) { return four_square(key, text, false); }},
    {"morbit", 3, false,
     "The text is written in the international Morse code with the sign / between letters; if the number of "
     "signs is odd, one more / follows. The signs are "
     "cut into pairs. order lists the digits that stand for the pairs .. .- ./ -. -- -/ /. /- // in this "
     "order; the digits follow each other without "
     "blanks. To decrypt, write the pairs for the digits and read the Morse code.",
     "用国际摩尔斯电码写出文本，字母之间用符号 / 隔开；如果符号的总数为奇数，末尾再加一个 "
     "/。把符号两个两个分开。order 依次列出代表 .. .- ./ -. -- -/ /. /- // 这些对的数字；"
     "各数字连着写，中间没有空格。解密时写出各数字代表的符号对，再读摩尔斯电码。",
     [](Draw& draw) -> Key {
       return {{"order", drawn_order(9, draw)}};
     },
     [](const Key& key) { return is_order(key) && key["order"].size() == 9; }, encrypt_morbit,
     decrypt_morbit},
    {"collon", 3, true,
     "square fills a table of 5 rows and 5 columns, row by row (it has no J, and neither has the text). The "
     "text is cut into groups of group letters (the last "
     "one may be shorter). For each letter of a group the first letter of its row is written down, and after "
     "these, for each letter of the group, the last "
     "letter of its column; then comes the next group. To decrypt, cut into groups of twice as many letters; "
     "the first half of a group tells the rows and the "
     "second half the columns.",
     "square 逐行填满一个 5 行 5 列的表（其中没有 J，文本中也没有）。文本每 group "
     "个字母分成一组（最后一组可以较短）。对一组中的每个字母，依次写下它所在行的第一个字母，然后再依次写下每"
     "个字母"
     "所在列的最后一个字母；接着是下一组。解密时按两倍的字母数分组；每组的前一半给出行，后一半给出列。",
     [](Draw& draw) -> Key {
       return {{"square", shuffled(kSquareLetters, draw)}, {"group", draw.between(2, 6)}};
     },
     [](const Key& key) {
       return is_shuffle_of(key, "square", kSquareLetters) && is_number(key, "group", 1, 100);
     },
     encrypt_collon, decrypt_collon},
    {"boxes", 3, false,
     "The ASCII code of each letter (65 for A to 90 for Z) is combined by bitwise exclusive or with a number "
     "of bytes: the first letter with the first number, "
     "and so on, from the beginning again after the last one. The result is written as two hexadecimal "
     "digits (0 to 9, A to F), and each digit is replaced by "
     "one of box: 0 by the first, 1 by the second, to F by the last. The pairs of digits stand with blanks "
     "between them. To decrypt, replace the digits the "
     "other way round and do the exclusive or once more.",
     "每个字母的 ASCII 码（A 为 65，直到 Z 为 90）与 bytes "
     "中的一个数按位异或：第一个字母用第一个数，依此类推，用完最后一个再从头开始。结果写成两位十六进制数字（0"
     " 到 9、A 到 F），每位数字换成 box 中"
     "的一个：0 换成第一个，1 换成第二个，直到 F "
     "换成最后一个。每两位数字之间用空格隔开。解密时反向替换数字，再异或一次。",
     [](Draw& draw) -> Key {
       return {{"bytes", drawn_bytes(draw, 2, 8)}, {"box", shuffled("0123456789ABCDEF", draw)}};
     },
     [](const Key& key) {
       return key.contains("bytes") && key["bytes"].is_array() && !key["bytes"].empty() &&
              is_list_of_numbers(key, "bytes", key["bytes"].size(), 0, 255) &&
              is_shuffle_of(key, "box", "0123456789ABCDEF");
     },
     encrypt_letters<boxes_code, true>, decrypt_letters<boxes_code, true>},
};

}  // namespace

std::span<const Cipher> more_ciphers() { return kMore; }

}  // namespace longhaul::puzzles::cipher
