// How well a written text agrees with an expected one, 0 to 1: the measures with which LongBench
// (arXiv 2308.14508) judges its tasks, with the arithmetic of its program and of the Python packages that it
// calls. Texts are UTF-8; a byte that is none counts as U+FFFD. Pure functions.
//
// Chinese texts are cut into characters. LongBench cuts them into words with the dictionary of jieba, so its
// figures for Chinese tasks differ from these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::evaluate {

// F1 of the words that both have, each as often as both have it: in small letters, without ASCII punctuation
// and without the words a, an and the.
double word_f1(std::string_view said, std::string_view expected);
// F1 of the characters, in small letters, without punctuation, symbols and white space.
double character_f1(std::string_view said, std::string_view expected);

// The F of ROUGE-L as the package rouge 1.0.1 has it: sentences end at '.', and what counts are the different
// words that stand in a longest common subsequence of any two sentences, over the different words of each
// text. 0 where a text has no sentence.
double rouge_l(std::string_view said, std::string_view expected);
double rouge_l_of_characters(std::string_view said, std::string_view expected);

// 1 / (how many of the classes the text names), if the expected one is among them. A class that is only a
// part of the expected one's name does not count as named.
double class_score(std::string_view said, std::string_view expected, const std::vector<std::string>& classes);

// The share of the numbers in the text that are the expected one.
double number_score(std::string_view said, std::string_view expected);

// The first line of code (no line with a backtick, '#' or "//") beside the expected one: the ratio of
// difflib.SequenceMatcher, rounded to hundredths as fuzzywuzzy 0.18 does.
double code_score(std::string_view said, std::string_view expected);

// "Paragraph 7" → "7", where `before` is "Paragraph "; empty: there is no such number.
std::string number_after(std::string_view text, std::string_view before);

}  // namespace longhaul::evaluate
