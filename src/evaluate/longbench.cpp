#include "evaluate/longbench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "evaluate/question_lines.h"
#include "evaluate/text_scores.h"

namespace longhaul::evaluate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Contexts of v2 have up to two million words.
constexpr JsonRules kLongBenchRules{.what = "unusable question",
                                    .hint = "docs/guides/evaluate.md has the fields of LongBench's files",
                                    .string_bytes = size_t{1} << 28};

// Prompt: the words before the context, those between it and the input, and those behind the input.
struct Prompt {
  const char *before, *between, *behind;
};
constexpr Prompt
    kQuestion = {"Read this text. A question about it follows.\n\n",
                 "\n\nAnswer the question by what the text says, in as few words as possible and "
                 "without explaining.\n\nQuestion: ",
                 "\nAnswer:"},
    kPaper = {"Read this scientific article. A question about it follows.\n\n",
              "\n\nAnswer the question by what the article says, in a phrase or one sentence. Say "
              "yes or no where that is asked, and unanswerable where the article does not "
              "tell.\n\nQuestion: ",
              "\nAnswer:"},
    kChineseQuestion = {"请阅读下文，然后回答问题。\n\n",
                        "\n\n请根据上文用尽量短的话回答，不要解释。\n\n问题：", "\n答案："},
    kReport = {"Read these texts and sum up on about one page what they say.\n\n", "\n\n",
               "\nSummary on one page:"},
    kMeeting = {"Read the record of this meeting. A request about it follows.\n\n",
                "\n\nAnswer the request by what was said, in a few sentences.\n\nRequest: ", "\nAnswer:"},
    kChineseMeeting = {"请阅读下面的会议记录，并写一段总结。\n\n", "\n\n", "\n总结："},
    kExamples = {"Go on as in these examples.\n\n", "\n", ""},
    kChineseExamples = {"请按照下面的例子继续。\n\n", "\n", ""},
    kCount = {"Here are paragraphs, some of them more than once.\n\n",
              "\n\nHow many different paragraphs are there? Say the number alone.\n", "\nNumber: "},
    kRetrieval = {"Here are numbered paragraphs. A summary of one of them follows.\n\n",
                  "\n\nSummary: ", "\n\nWhich paragraph is it of? Answer in the form: Paragraph 1\nAnswer: "},
    kChineseRetrieval = {"下面是若干编号的段落，之后是其中一段的摘要。\n\n", "\n\n摘要：",
                         "\n\n摘要出自哪一段？请按此格式回答：段落1\n答案："},
    kCode = {"Write the next line of this code.\n", "", "Next line:\n"};

using Measure = double (*)(std::string_view said, std::string_view expected,
                           const std::vector<std::string>& classes);
template <double (*score)(std::string_view, std::string_view)>
double plain(std::string_view said, std::string_view expected, const std::vector<std::string>&) {
  return score(said, expected);
}
constexpr std::string_view kParagraph = "Paragraph ", kChineseParagraph = "段落";
double retrieval(std::string_view said, std::string_view expected, const std::vector<std::string>&) {
  const std::string number = number_after(expected, kParagraph);
  return number_score(said, number.empty() ? number_after(expected, kChineseParagraph) : number);
}

struct DataSet {
  std::string_view name;
  const Prompt* prompt;
  Measure measure;
  int64_t answer_tokens;
  bool first_line = false;  // only the first line of an answer counts
  bool never_as_chat = false;
};
constexpr DataSet kDataSets[] = {{"narrativeqa", &kQuestion, plain<word_f1>, 128},
                                 {"qasper", &kPaper, plain<word_f1>, 128},
                                 {"multifieldqa_en", &kQuestion, plain<word_f1>, 64},
                                 {"multifieldqa_zh", &kChineseQuestion, plain<character_f1>, 64},
                                 {"hotpotqa", &kQuestion, plain<word_f1>, 32},
                                 {"2wikimqa", &kQuestion, plain<word_f1>, 32},
                                 {"musique", &kQuestion, plain<word_f1>, 32},
                                 {"dureader", &kChineseQuestion, plain<rouge_l_of_characters>, 128},
                                 {"gov_report", &kReport, plain<rouge_l>, 512},
                                 {"qmsum", &kMeeting, plain<rouge_l>, 512},
                                 {"multi_news", &kReport, plain<rouge_l>, 512},
                                 {"vcsum", &kChineseMeeting, plain<rouge_l_of_characters>, 512},
                                 {"trec", &kExamples, class_score, 64, true, true},
                                 {"triviaqa", &kExamples, plain<word_f1>, 32, true, true},
                                 {"samsum", &kExamples, plain<rouge_l>, 128, true, true},
                                 {"lsht", &kChineseExamples, class_score, 64, true, true},
                                 {"passage_count", &kCount, plain<number_score>, 32},
                                 {"passage_retrieval_en", &kRetrieval, retrieval, 32},
                                 {"passage_retrieval_zh", &kChineseRetrieval, retrieval, 32},
                                 {"lcc", &kCode, plain<code_score>, 64, false, true},
                                 {"repobench-p", &kCode, plain<code_score>, 64, false, true}};

const DataSet* data_set_named(std::string_view name) {
  const auto found = std::ranges::find(kDataSets, name, &DataSet::name);
  return found == std::end(kDataSets) ? nullptr : found;
}

std::vector<std::string> texts_of(const JsonView& list) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < list.array_size(); ++i) texts.push_back(list.at(i).string());
  return texts;
}

double score_in(const DataSet& set, std::string_view said, const std::vector<std::string>& answers,
                const std::vector<std::string>& classes) {
  if (set.first_line) {
    said.remove_prefix(std::min(said.find_first_not_of('\n'), said.size()));
    said = said.substr(0, said.find('\n'));
  }
  double best = 0;
  for (const std::string& answer : answers) best = std::max(best, set.measure(said, answer, classes));
  return best;
}

// LongBench-E's names end in "_e", as its configurations do.
const DataSet& set_of(const JsonView& line) {
  std::string name = line.at("dataset").string();
  if (data_set_named(name) == nullptr && name.ends_with("_e")) name.resize(name.size() - 2);
  const DataSet* const set = data_set_named(name);
  line.at("dataset").require(set != nullptr,
                             fmt::format("one of {}", fmt::join(longbench_data_sets(), ", ")));
  return *set;
}

LongBenchItem item_of_v1(const JsonView& line) {
  const DataSet& set = set_of(line);
  const std::vector<std::string> answers = texts_of(line.at("answers"));
  line.at("answers").require(!answers.empty(), "at least one answer");
  std::vector<std::string> classes;
  if (set.measure == &class_score) {
    classes = texts_of(line.at("all_classes"));
    line.at("all_classes").require(!classes.empty(), "the names of all classes");
  }
  if (set.measure == &retrieval) {
    for (size_t i = 0; i < answers.size(); ++i)
      line.at("answers").at(i).require(!number_after(answers[i], kParagraph).empty() ||
                                           !number_after(answers[i], kChineseParagraph).empty(),
                                       "the number of a paragraph: Paragraph 7");
  }
  const int64_t words = line.at("length").integer(0, int64_t{1} << 40);
  const std::string prompt = set.prompt->before + line.at("context").string() + set.prompt->between +
                             line.at("input").string() + set.prompt->behind;
  return {.asked = {.turns = {{"user", prompt}},
                    .never_as_chat = set.never_as_chat,
                    .answer_tokens = set.answer_tokens,
                    .score = [&set, answers, classes](
                                 const std::string& said) { return score_in(set, said, answers, classes); }},
          .group = std::string(set.name),
          .length = longbench_lengths(1)[words < 4000   ? 0
                                         : words < 8000 ? 1
                                                        : 2]};
}

LongBenchItem item_of_v2(const JsonView& line) {
  std::string prompt =
      fmt::format("Read this text. A question about it follows.\n\n{}\n\nQuestion: {}\n",
                  trimmed(line.at("context").string()), trimmed(line.at("question").string()));
  for (const char letter : {'A', 'B', 'C', 'D'})
    prompt += fmt::format("({}) {}\n", letter, trimmed(line.at(fmt::format("choice_{}", letter)).string()));
  prompt += "Which one is right? Answer in the form: The correct answer is (A)\n";
  const std::string answer = line.at("answer").string();
  line.at("answer").require(answer.size() == 1 && answer[0] >= 'A' && answer[0] <= 'D', "A, B, C or D");
  const auto one_of = [&](const char* field, const std::vector<std::string>& names) {
    std::string text = line.at(field).string();
    line.at(field).require(std::ranges::find(names, text) != names.end(),
                           fmt::format("{}", fmt::join(names, ", ")));
    return text;
  };
  const std::string difficulty = one_of("difficulty", {"easy", "hard"}),
                    length = one_of("length", longbench_lengths(2));
  return {
      .asked = {.turns = {{"user", prompt}},
                .lead = "The correct answer is (",
                .answer_tokens = 128,
                .score = [letter = answer[0]](
                             const std::string& said) { return chosen_letter(said) == letter ? 1.0 : 0.0; }},
      .group = difficulty,
      .length = length};
}

// v2's own file is one list.
bool is_list(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '[';
}

class Reader {
 public:
  void add(const json& object, const std::string& where) {
    const JsonView line(object, where + ":", kLongBenchRules);
    const int version = object.is_object() && object.contains("choice_A") ? 2 : 1;
    if (made_.items.empty()) made_.version = version;
    line.require(version == made_.version, fmt::format("a question of LongBench {}, as those before it",
                                                       made_.version == 1 ? "v1" : "v2"));
    made_.items.push_back(version == 1 ? item_of_v1(line) : item_of_v2(line));
    made_.items.back().asked.where = where;
  }
  LongBench take() { return std::move(made_); }

 private:
  LongBench made_;
};

}  // namespace

LongBench read_longbench(const fs::path& path, int64_t limit) {
  Reader reader;
  for (const fs::path& file : question_files(path, {".jsonl", ".json"})) {
    const std::string whole = read_text(file), text(without_byte_order_mark(whole));
    if (!is_list(text)) {
      for (const QuestionLine& line : question_lines(file, limit))
        reader.add(parse_json(line.text, line.where, kLongBenchRules), line.where);
      continue;
    }
    const json list = parse_json(text, file.string(), kLongBenchRules);
    const JsonView view(list, file.string() + ":", kLongBenchRules);
    view.require(view.array_size() > 0, "at least one question");
    for (size_t i = 0; i < list.size() && (limit == 0 || static_cast<int64_t>(i) < limit); ++i)
      reader.add(list[i], fmt::format("{}:/{}", file.string(), i));
  }
  return reader.take();
}

std::vector<std::string> longbench_data_sets() {
  std::vector<std::string> names;
  for (const DataSet& set : kDataSets) names.emplace_back(set.name);
  return names;
}

std::vector<std::string> longbench_lengths(int version) {
  return version == 1 ? std::vector<std::string>{"0-4k", "4-8k", "8k+"}
                      : std::vector<std::string>{"short", "medium", "long"};
}

char chosen_letter(std::string_view said) {
  std::string text(said);
  std::erase(text, '*');
  constexpr std::string_view kSays = "The correct answer is ";
  const auto after = [&](std::string_view open, std::string_view close) {
    for (size_t at = text.find(kSays); at != std::string::npos; at = text.find(kSays, at + 1)) {
      const std::string_view rest = std::string_view(text).substr(at + kSays.size());
      if (!rest.starts_with(open) || rest.size() <= open.size()) continue;
      const char letter = rest[open.size()];
      if (letter >= 'A' && letter <= 'D' && rest.substr(open.size() + 1).starts_with(close)) return letter;
    }
    return '\0';
  };
  const char in_brackets = after("(", ")");
  return in_brackets != 0 ? in_brackets : after("", "");
}

double longbench_score(std::string_view data_set, std::string_view said,
                       const std::vector<std::string>& answers, const std::vector<std::string>& classes) {
  const DataSet* const set = data_set_named(data_set);
  LONGHAUL_ASSERT(set != nullptr, "data set {}", data_set);
  return score_in(*set, said, answers, classes);
}

}  // namespace longhaul::evaluate
