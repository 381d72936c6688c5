// The rows of a file of answers, as people have them, before they are tokens. One JSON object a line:
//
//   {"prompt": …, "chosen": …, "rejected": …}     a pair
//   {"chosen": …, "rejected": …}                  a pair whose prompt is what both begin with
//   {"prompt": …, "completion": …, "label": true}       an answer that is good or bad
//   {"prompt": …, "completion": …, "reward": 0.5}       an answer and its reward
//   {"prompt": …, "completions": […], "rewards": […]}   several answers to one prompt
//
// A prompt or an answer is a text, or a list of messages ({"role", "content"}). Rows of one reward whose
// prompts are equal become one row of several answers. Files may be compressed as those of data.source.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::posttrain {

enum class RowForm { kPair, kLabelled, kScored };

struct AnswerRow {
  RowForm form = RowForm::kPair;
  nlohmann::ordered_json prompt;                // text or messages
  std::vector<nlohmann::ordered_json> answers;  // of a pair: chosen, rejected
  std::vector<double> rewards;                  // kScored: of each answer
  bool good = false;                            // kLabelled
  std::string where;                            // "pairs.jsonl:12", of its first row
};

struct AnswerRows {
  std::vector<AnswerRow> rows;
  std::map<std::string, int64_t> unread;  // fields that nothing here reads, and in how many rows they stand
  int64_t bad = 0;                        // rows that were left out
  std::string first_bad;                  // why, of the first
};

// Reads a file, or the .jsonl files of a folder in the order of their names. kData: no rows, or a row that
// cannot be read, with its line, unless bad ones are left out.
AnswerRows read_answer_rows(const std::filesystem::path& path, bool skip_bad_rows);
AnswerRow answer_row(const nlohmann::ordered_json& object, const std::string& where);  // kData, as above

}  // namespace longhaul::posttrain
