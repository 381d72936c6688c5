#include "evaluate/text_scores.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text/utf8.h"
#include "data/chat/characters.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::evaluate {
namespace {

using data::Category;
using Text = std::u32string;
using Words = std::vector<Text>;

Text text_of(std::string_view bytes) {
  Text text;
  const char* const end = bytes.data() + bytes.size();
  for (const char* at = bytes.data(); at < end;) {
    const Decoded next = decode_utf8(at, end);
    text += next.code == kBadByte ? U'\uFFFD' : next.code;
    at += next.length;
  }
  return text;
}

Text small(std::string_view bytes) {
  std::string valid;
  for (const char32_t code : text_of(bytes)) data::append_utf8(valid, code);
  const data::chat::MarkedText marked(std::move(valid), data::chat::Mark::kTemplate);
  return text_of(data::chat::in_case(marked, data::chat::Case::kLower).bytes());
}

bool is_blank(char32_t code) { return data::chat::is_python_space(code); }
bool is_digit(char32_t code) { return data::category_of(code) == Category::kNd; }

// \w of Python's regular expressions, but for '_', which is taken out before.
bool is_word(char32_t code) {
  const Category category = data::category_of(code);
  return (category >= Category::kLu && category <= Category::kLo) ||
         (category >= Category::kNd && category <= Category::kNo);
}

bool is_ascii_punctuation(char32_t code) {
  return code < 128 && code > 32 && !(code >= '0' && code <= '9') &&
         !((code | 32) >= 'a' && (code | 32) <= 'z') && code != 127;
}

bool is_mark_or_symbol(char32_t code) {
  const Category category = data::category_of(code);
  return category >= Category::kPc && category <= Category::kSo;
}

// str.split().
Words words_of(const Text& text) {
  Words words;
  bool inside = false;
  for (const char32_t code : text) {
    if (!is_blank(code)) {
      if (!inside) words.emplace_back();
      words.back() += code;
    }
    inside = !is_blank(code);
  }
  return words;
}

Text without_articles(const Text& text) {
  Text kept;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const Text word = text.substr(at, end - at);
    kept += word == U"a" || word == U"an" || word == U"the" ? Text(U" ") : word;
    if (end < text.size()) kept += text[end++];
    at = end;
  }
  return kept;
}

double f1_of(const Words& said, const Words& expected) {
  std::map<Text, int64_t> left;
  for (const Text& word : expected) ++left[word];
  int64_t both = 0;
  for (const Text& word : said) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++both;
  }
  if (both == 0) return 0;
  const double precision = static_cast<double>(both) / static_cast<double>(said.size()),
               recall = static_cast<double>(both) / static_cast<double>(expected.size());
  return 2 * precision * recall / (precision + recall);
}

Words normal_words(std::string_view bytes) {
  Text text = small(bytes);
  std::erase_if(text, is_ascii_punctuation);
  return words_of(without_articles(text));
}

Words normal_characters(std::string_view bytes) {
  Words characters;
  for (const char32_t code : small(bytes)) {
    if (!is_blank(code) && !is_mark_or_symbol(code)) characters.emplace_back(1, code);
  }
  return characters;
}

// A sentence of nothing but white space has one word, which is empty.
std::vector<Words> sentences_of(const Text& text) {
  std::vector<Words> sentences;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(U'.', at), text.size());
    if (end > at) {
      sentences.push_back(words_of(text.substr(at, end - at)));
      if (sentences.back().empty()) sentences.back().emplace_back();
    }
    at = end + 1;
  }
  return sentences;
}

// The words of a longest common subsequence; of several the one that the package walks to.
void add_common(const Words& x, const Words& y, std::set<Text>& common) {
  const size_t columns = y.size() + 1;
  std::vector<int32_t> length((x.size() + 1) * columns);
  for (size_t i = 1; i <= x.size(); ++i) {
    for (size_t j = 1; j <= y.size(); ++j)
      length[i * columns + j] = x[i - 1] == y[j - 1]
                                    ? length[(i - 1) * columns + j - 1] + 1
                                    : std::max(length[(i - 1) * columns + j], length[i * columns + j - 1]);
  }
  for (size_t i = x.size(), j = y.size(); i > 0 && j > 0;) {
    if (x[i - 1] == y[j - 1]) {
      common.insert(x[i - 1]);
      --i, --j;
    } else if (length[(i - 1) * columns + j] > length[i * columns + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
}

double rouge_l_of(const Text& said, const Text& expected) {
  const std::vector<Words> hypothesis = sentences_of(said), reference = sentences_of(expected);
  if (hypothesis.empty() || reference.empty()) return 0;
  std::set<Text> common;
  for (const Words& own : reference) {
    for (const Words& other : hypothesis) add_common(own, other, common);
  }
  const auto different = [](const std::vector<Words>& sentences) {
    std::set<Text> words;
    for (const Words& sentence : sentences) words.insert(sentence.begin(), sentence.end());
    return static_cast<double>(words.size());
  };
  const double recall = static_cast<double>(common.size()) / different(reference),
               precision = static_cast<double>(common.size()) / different(hypothesis);
  return 2.0 * (precision * recall / (precision + recall + 1e-8));
}

Text spaced(std::string_view bytes) {
  Text text;
  for (const char32_t code : text_of(bytes)) (text += code) += U' ';
  return text;
}

// difflib.SequenceMatcher(None, a, b): matching blocks are the longest first, then those on both sides of it.
// Of a b of 200 characters or more, those that are more than a hundredth of it begin no block.
class Matcher {
 public:
  Matcher(const Text& a, const Text& b) : a_(a), b_(b) {
    for (size_t j = 0; j < b.size(); ++j) places_[b[j]].push_back(static_cast<int64_t>(j));
    if (b.size() < 200) return;
    const size_t most = b.size() / 100 + 1;
    std::erase_if(places_, [&](const auto& each) { return each.second.size() > most; });
  }
  double ratio() const {
    const auto all = static_cast<double>(a_.size() + b_.size());
    return all == 0 ? 1 : 2.0 * static_cast<double>(matched()) / all;
  }

 private:
  struct Block {
    int64_t a, b, size;
  };
  struct Part {
    int64_t a, a_end, b, b_end;
  };
  int64_t matched() const {
    int64_t sum = 0;
    std::vector<Part> parts = {{0, static_cast<int64_t>(a_.size()), 0, static_cast<int64_t>(b_.size())}};
    while (!parts.empty()) {
      const Part part = parts.back();
      parts.pop_back();
      const Block block = longest(part);
      if (block.size == 0) continue;
      sum += block.size;
      if (part.a < block.a && part.b < block.b) parts.push_back({part.a, block.a, part.b, block.b});
      if (block.a + block.size < part.a_end && block.b + block.size < part.b_end)
        parts.push_back({block.a + block.size, part.a_end, block.b + block.size, part.b_end});
    }
    return sum;
  }
  bool same(int64_t i, int64_t j) const { return a_[static_cast<size_t>(i)] == b_[static_cast<size_t>(j)]; }
  Block longest(const Part& part) const {
    Block best{part.a, part.b, 0};
    std::map<int64_t, int64_t> length;  // of the block that ends at a's last character and at this one of b
    for (int64_t i = part.a; i < part.a_end; ++i) {
      std::map<int64_t, int64_t> next;
      if (const auto found = places_.find(a_[static_cast<size_t>(i)]); found != places_.end()) {
        for (const int64_t j : found->second) {
          if (j < part.b) continue;
          if (j >= part.b_end) break;
          const auto before = length.find(j - 1);
          const int64_t size = next[j] = (before == length.end() ? 0 : before->second) + 1;
          if (size > best.size) best = {i - size + 1, j - size + 1, size};
        }
      }
      length = std::move(next);
    }
    while (best.a > part.a && best.b > part.b && same(best.a - 1, best.b - 1))
      --best.a, --best.b, ++best.size;
    while (best.a + best.size < part.a_end && best.b + best.size < part.b_end &&
           same(best.a + best.size, best.b + best.size))
      ++best.size;
    return best;
  }

  const Text &a_, &b_;
  std::map<char32_t, std::vector<int64_t>> places_;  // in b
};

Text digits_from(const Text& text, size_t at) {
  Text digits;
  while (at < text.size() && is_digit(text[at])) digits += text[at++];
  return digits;
}

}  // namespace

double word_f1(std::string_view said, std::string_view expected) {
  return f1_of(normal_words(said), normal_words(expected));
}

double character_f1(std::string_view said, std::string_view expected) {
  return f1_of(normal_characters(said), normal_characters(expected));
}

double rouge_l(std::string_view said, std::string_view expected) {
  return rouge_l_of(text_of(said), text_of(expected));
}

double rouge_l_of_characters(std::string_view said, std::string_view expected) {
  return rouge_l_of(spaced(said), spaced(expected));
}

double class_score(std::string_view said, std::string_view expected,
                   const std::vector<std::string>& classes) {
  std::vector<std::string> named;
  for (const std::string& name : classes) {
    if (said.find(name) != std::string_view::npos) named.push_back(name);
  }
  // As the program does it: the name behind one that is taken out is not looked at.
  for (size_t i = 0; i < named.size(); ++i) {
    const std::string name = named[i];
    if (name != expected && expected.find(name) != std::string_view::npos)
      named.erase(std::ranges::find(named, name));
  }
  const bool right = std::ranges::find(named, expected) != named.end();
  return right ? 1.0 / static_cast<double>(named.size()) : 0;
}

double number_score(std::string_view said, std::string_view expected) {
  const Text text = text_of(said), wanted = text_of(expected);
  int64_t numbers = 0, right = 0;
  for (size_t at = 0; at < text.size();) {
    const Text digits = digits_from(text, at);
    if (!digits.empty()) {
      ++numbers;
      right += digits == wanted ? 1 : 0;
    }
    at += std::max<size_t>(1, digits.size());
  }
  return numbers == 0 ? 0 : static_cast<double>(right) / static_cast<double>(numbers);
}

double code_score(std::string_view said, std::string_view expected) {
  std::string_view line;
  size_t at = std::min(said.find_first_not_of('\n'), said.size());
  while (at <= said.size()) {
    const size_t end = std::min(said.find('\n', at), said.size());
    const std::string_view own = said.substr(at, end - at);
    at = end + 1;
    if (own.find_first_of("`#") != std::string_view::npos || own.find("//") != std::string_view::npos)
      continue;
    line = own;
    break;
  }
  const Text first = text_of(line), wanted = text_of(expected);
  if (first == wanted) return 1;
  if (first.empty() || wanted.empty()) return 0;
  return std::nearbyint(100 * Matcher(first, wanted).ratio()) / 100;
}

std::string number_after(std::string_view text, std::string_view before) {
  for (size_t at = text.find(before); at != std::string_view::npos; at = text.find(before, at + 1)) {
    std::string digits;
    for (const char32_t code : digits_from(text_of(text.substr(at + before.size())), 0))
      data::append_utf8(digits, code);
    if (!digits.empty()) return digits;
  }
  return {};
}

}  // namespace longhaul::evaluate
