// Reads files of multiple-choice questions as they are usually found: JSON Lines exported from the data
// sets that lm-evaluation-harness reads, one question in each line, with their own field names. Prompts are
// those of the harness's task files (0.4.9).
//
//   hellaswag    activity_label, ctx_a, ctx_b, endings, label        arc         question, choices {text,
//                label}, answerKey
//   piqa         goal, sol1, sol2, label                             openbookqa  question_stem, choices
//                {text, label}, answerKey
//   mmlu         question, choices (4), answer, subject (optional)   winogrande  sentence with _, option1,
//                option2, answer
//   boolq        passage, question, label or answer                  longhaul    context, choices, gold
//
// Bad lines are kData errors that name file, line and field.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluate/choice.h"

namespace longhaul::evaluate {

std::vector<std::string> choice_formats();
// The format that has the first line's fields; kData when none has them.
std::string format_by_fields(const std::filesystem::path& file);
// Reads the first `limit` items (0: all).
std::vector<ChoiceItem> read_choices(const std::filesystem::path& file, const std::string& format,
                                     int64_t limit = 0);

}  // namespace longhaul::evaluate
