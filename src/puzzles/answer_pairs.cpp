#include "puzzles/answer_pairs.h"

#include <algorithm>
#include <map>
#include <optional>

namespace longhaul::puzzles {
namespace {

using nlohmann::ordered_json;

// The question of the row: the texts of its messages.
std::string asked(const ReadRecord& record) {
  std::string text;
  for (const ordered_json& message : record.columns.at("prompt"))
    text += message.at("content").get<std::string>();
  return text;
}

std::optional<std::string> wrong_answer(const std::vector<ReadRecord>& records,
                                        const std::vector<size_t>& of_task, size_t place, int64_t tried) {
  const ReadRecord& puzzle = records[of_task[place]];
  for (size_t away = 1; away < of_task.size() && static_cast<int64_t>(away) <= tried; ++away) {
    const std::string& other = records[of_task[(place + away) % of_task.size()]].answer;
    if (!other.empty() && other != puzzle.answer && !verdict_on_payload(puzzle, other).accepted())
      return other;
  }
  return std::nullopt;
}

ordered_json pair_of(const ReadRecord& record, const std::string& wrong, const PairForm& form) {
  const auto said = [&](const std::string& answer) -> ordered_json {
    const std::string tagged = "<answer>" + answer + "</answer>";
    if (form.messages) return ordered_json::array({{{"role", "assistant"}, {"content", tagged}}});
    return answer + form.after;
  };
  const ordered_json prompt =
      form.messages ? record.columns.at("prompt") : ordered_json(asked(record) + form.before);
  return {{"prompt", prompt}, {"chosen", said(record.answer)}, {"rejected", said(wrong)}};
}

}  // namespace

AnswerPairs make_answer_pairs(const std::vector<ReadRecord>& records, const PairForm& form,
                              const std::function<void(const ordered_json& pair)>& give, int64_t tried) {
  std::map<const TaskEntry*, std::vector<size_t>> tasks;
  std::vector<size_t> places;
  for (size_t i = 0; i < records.size(); ++i) {
    std::vector<size_t>& of_task = tasks[records[i].task];
    places.push_back(of_task.size());
    of_task.push_back(i);
  }
  AnswerPairs pairs;
  for (size_t i = 0; i < records.size(); ++i) {
    const ReadRecord& record = records[i];
    if (record.answer.empty() || !record.columns.contains("prompt")) {
      ++pairs.without_answer;
      continue;
    }
    const auto wrong = wrong_answer(records, tasks.at(record.task), places[i], tried);
    pairs.without_wrong += wrong ? 0 : 1;
    if (!wrong) continue;
    give(pair_of(record, *wrong, form));
    ++pairs.made;
  }
  return pairs;
}

}  // namespace longhaul::puzzles
