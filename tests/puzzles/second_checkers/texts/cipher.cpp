#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "puzzles/second_checkers/checkers.h"

namespace longhaul::puzzles {

namespace {

using PlainKeys = std::map<std::string, std::string>;

std::vector<long> plain_numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<long> numbers;
  for (long number = 0; in >> number;) numbers.push_back(number);
  return numbers;
}

// Columns sorted by their numbers, from a table with a text for each column.
std::string plain_columns(const std::string& text, const std::string& order) {
  const std::vector<long> numbers = plain_numbers(order);
  std::map<long, std::string> columns;
  for (size_t i = 0; i < text.size(); ++i) columns[numbers[i % numbers.size()]] += text[i];
  std::string out;
  for (const auto& [number, column] : columns) out += column;
  return out;
}

std::string plain_rails(const std::string& text, const std::string& order) {
  const std::vector<long> numbers = plain_numbers(order);
  std::vector<std::string> rails(numbers.size());
  long rail = 0, step = 1;
  for (const char c : text) {
    rails[static_cast<size_t>(rail)] += c;
    if (rail + step < 0 || rail + step >= static_cast<long>(rails.size())) step = -step;
    rail += step;
  }
  std::string out;
  for (const long number : numbers) out += rails[static_cast<size_t>(number) - 1];
  return out;
}

std::string spaced(const std::vector<std::string>& codes) {
  std::string out;
  for (const std::string& code : codes) out += (out.empty() ? "" : " ") + code;
  return out;
}

std::string plain_bifid(const std::string& text, const std::string& square) {
  std::string digits;
  for (const char c : text) digits += std::to_string(square.find(c) / 5);
  for (const char c : text) digits += std::to_string(square.find(c) % 5);
  std::string out;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    out += square[static_cast<size_t>((digits[i] - '0') * 5 + (digits[i + 1] - '0'))];
  return out;
}

// Tables of five rows, as lists of rows that may be moved.
std::vector<std::string> plain_table(const std::string& square) {
  std::vector<std::string> rows;
  for (size_t i = 0; i < square.size(); i += 5) rows.push_back(square.substr(i, 5));
  return rows;
}
std::pair<size_t, size_t> plain_place(const std::vector<std::string>& rows, char letter) {
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].find(letter) != std::string::npos) return {r, rows[r].find(letter)};
  }
  return {99, 99};
}

std::string plain_moving(const std::string& text, const std::string& square) {
  std::vector<std::string> rows = plain_table(square);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i > 0 && i % 5 == 0) std::swap(rows[(i / 5 - 1) % 4], rows[(i / 5 - 1) % 4 + 1]);
    const auto [r, c] = plain_place(rows, text[i]);
    if (r == 99) return "?";
    out += rows[(r + 1) % 5][(c + 1) % 5];
  }
  return out;
}

std::string plain_four(const std::string& text, const std::string& right, const std::string& below) {
  const auto plain = plain_table("ABCDEFGHIKLMNOPQRSTUVWXYZ"), to_right = plain_table(right),
             to_below = plain_table(below);
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    const auto [r1, c1] = plain_place(plain, text[i]);
    const auto [r2, c2] = plain_place(plain, text[i + 1]);
    if (r1 == 99 || r2 == 99) return "?";
    out += std::string(1, to_right[r1][c2]) + to_below[r2][c1];
  }
  return text.size() % 2 == 0 ? out : "?";
}

std::string plain_morbit(const std::string& text, const std::vector<long>& digits) {
  std::istringstream words(
      ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- "
      "-.-- --..");
  std::vector<std::string> code;
  for (std::string word; words >> word;) code.push_back(word);
  std::string signs;
  for (size_t i = 0; i < text.size(); ++i)
    signs += (i == 0 ? "" : "/") + code[static_cast<size_t>(text[i] - 'A')];
  if (signs.size() % 2 == 1) signs += "/";
  const std::string alphabet = ".-/";
  std::string out;
  for (size_t i = 0; i < signs.size(); i += 2)
    out += std::to_string(digits[alphabet.find(signs[i]) * 3 + alphabet.find(signs[i + 1])]);
  return out;
}

std::string plain_collon(std::string text, const std::string& square, size_t group) {
  const std::vector<std::string> rows = plain_table(square);
  std::string out;
  while (!text.empty()) {
    const std::string part = text.substr(0, group);
    text = text.substr(part.size());
    for (const bool first : {true, false}) {
      for (const char letter : part) {
        const auto [r, c] = plain_place(rows, letter);
        if (r == 99) return "?";
        out += first ? rows[r][0] : rows[4][c];
      }
    }
  }
  return out;
}

std::string plain_path(const std::string& text, size_t width) {
  std::vector<std::string> columns(width);
  size_t column = 0, count = 0;
  bool forward = true;
  for (const char letter : text) {
    columns[column] += letter;
    if (++count % width == 0) {
      forward = !forward;
    } else {
      column = forward ? column + 1 : column - 1;
    }
  }
  std::string out;
  for (const std::string& one : columns) out += one;
  return out;
}

// One step as the description tells it, told apart by its first words.
std::string plain_step(const std::string& told, PlainKeys& keys, const std::string& text) {
  const auto number = [&](const char* name) { return std::stol(keys[name]); };
  const std::string abc = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (told.starts_with("The text is written in rows")) return plain_columns(text, keys["order"]);
  if (told.starts_with("There are as many rails")) return plain_rails(text, keys["order"]);
  if (told.find("The row numbers of all letters") != std::string::npos)
    return plain_bifid(text, keys["square"]);
  if (told.find("two rows of the table change places") != std::string::npos)
    return plain_moving(text, keys["square"]);
  if (told.find("the first letter of its row is written down") != std::string::npos)
    return plain_collon(text, keys["square"], static_cast<size_t>(number("group")));
  if (told.starts_with("There are four tables")) return plain_four(text, keys["right"], keys["below"]);
  if (told.starts_with("The text is written in the international Morse code"))
    return plain_morbit(text, plain_numbers(keys["order"]));
  if (told.starts_with("The text is written along a winding path"))
    return plain_path(text, static_cast<size_t>(number("width")));
  if (told.starts_with("square fills a table of 6 rows")) {
    std::string pairs;
    for (const char c : text) {
      const size_t at = keys["square"].find(c);
      pairs += std::string("ADFGVX").substr(at / 6, 1) + std::string("ADFGVX").substr(at % 6, 1);
    }
    return plain_columns(pairs, keys["order"]);
  }
  std::string letters;
  std::vector<std::string> codes;
  for (size_t i = 0; i < text.size(); ++i) {
    const long n = text[i] - 'A';
    if (told.starts_with("Each letter is replaced")) letters += keys["alphabet"][static_cast<size_t>(n)];
    if (told.starts_with("The alphabet from A to Z is read backward"))
      letters += abc[static_cast<size_t>((25 - n + number("shift")) % 26)];
    if (told.starts_with("An alphabet is made of the letters of word")) {
      std::string alphabet;
      for (const char c : keys["word"] + abc)
        alphabet += alphabet.find(c) == std::string::npos ? std::string(1, c) : "";
      letters += alphabet[static_cast<size_t>(n)];
    }
    if (told.starts_with("numbers lists a number"))
      codes.push_back(std::to_string(plain_numbers(keys["numbers"])[static_cast<size_t>(n)]));
    if (told.find("gives a number k") != std::string::npos) {
      const long k = (keys["word"][i % keys["word"].size()] - 'A') / 2;
      letters += abc[static_cast<size_t>(n < 13 ? 13 + (n + k) % 13 : (n - 13 - k + 13) % 13)];
    }
    if (told.starts_with("Three wheels")) {
      const std::string wheel = keys["wheel" + std::to_string(i % 3 + 1)];
      letters += (wheel + wheel)[wheel.find(text[i]) + static_cast<size_t>(number("steps"))];
    }
    if (told.starts_with("The ASCII code of each letter")) {
      const bool bits = told.find("binary digits") != std::string::npos;
      const std::vector<long> bytes = plain_numbers(keys[bits ? "byte" : "bytes"]),
                              order = plain_numbers(keys["order"]);
      const long value = (n + 65) ^ bytes[i % bytes.size()];
      std::string code;
      for (const long place : order) code += std::to_string(value / (1 << (8 - place)) % 2);
      if (!bits)
        code = {keys["box"][static_cast<size_t>(value / 16)], keys["box"][static_cast<size_t>(value % 16)]};
      codes.push_back(code);
    }
    if (told.starts_with("The letters are numbered")) {
      const auto place = static_cast<long>(keys["alphabet"].find(text[i]));
      letters += keys["alphabet"][static_cast<size_t>((number("a") * place + number("b")) % 26)];
    }
    if (told.starts_with("word is written below") && told.find("gives a number k") == std::string::npos)
      letters += abc[static_cast<size_t>((n + keys["word"][i % keys["word"].size()] - 'A') % 26)];
    if (told.starts_with("Letters move forward"))
      letters += abc[static_cast<size_t>(
          (n + number("start") + static_cast<long>(i) / number("period") * number("turn")) % 26)];
    if (told.starts_with("The groups ABC")) {
      // PQRS and WXYZ have four letters.
      const long group = n < 15   ? n / 3
                         : n < 19 ? 5
                         : n < 22 ? 6
                                  : 7,
                 first = group < 6    ? group * 3
                         : group == 6 ? 19
                                      : 22;
      codes.push_back(std::to_string(plain_numbers(keys["digits"])[static_cast<size_t>(group)]) + "^" +
                      std::to_string(n - first + 1));
    }
    if (told.starts_with("Each letter becomes its ASCII"))
      codes.push_back(std::to_string((n + 65) * number("factor")));
    if (told.starts_with("square fills a table of 5 rows and 5 columns, row by row. A letter")) {
      const size_t at = keys["square"].find(text[i]);
      codes.push_back(at == std::string::npos ? "00" : std::to_string((at / 5 + 1) * 10 + at % 5 + 1));
    }
    if (told.starts_with("Each letter's ASCII code")) {
      const std::vector<long> bytes = plain_numbers(keys["bytes"]);
      std::ostringstream hex;
      hex << std::hex << std::uppercase << 256 + ((n + 65) ^ bytes[i % bytes.size()]);
      codes.push_back(hex.str().substr(1));
    }
    if (told.starts_with("Each letter has a number")) {
      long value = 1, power = n + 1;
      for (long e = number("e"); e > 0; e /= 2, power = power * power % number("n")) {
        if (e % 2 == 1) value = value * power % number("n");
      }
      codes.push_back(std::to_string(value));
    }
  }
  return codes.empty() ? letters : spaced(codes);
}

}  // namespace

// Whatever is asked for, the plain text is encrypted by the prompt's steps: the answer is right if both texts
// belong together.
bool plain_cipher(const nlohmann::json& given, const std::string& text) {
  std::vector<std::pair<std::string, PlainKeys>> steps;
  std::string given_text;
  bool encrypt = false;
  for (const std::string& line : plain_prompt_lines("cipher", given)) {
    if (line.starts_with("Step ")) steps.push_back({line.substr(line.find(": ") + 2), {}});
    if (line.starts_with("Text: ")) given_text = line.substr(6);
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos && !steps.empty() && equals < 12)
      steps.back().second[line.substr(0, equals)] = line.substr(equals + 3);
    encrypt = encrypt || line.find("You are to encrypt") != std::string::npos ||
              line.find("task is to encrypt") != std::string::npos;
  }
  std::string answer = text;
  std::erase_if(answer, [](char c) { return c == '[' || c == ']' || c == '"'; });
  std::string plain = encrypt ? given_text : answer, code = encrypt ? answer : given_text;
  if (plain.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos) return false;
  for (auto& [told, keys] : steps) plain = plain_step(told, keys, plain);
  return plain == code;
}

}  // namespace longhaul::puzzles
