// Public records of some tasks hold the right answer and nothing that it could be computed from: their
// verifiers compare. Answers to them are compared here, as our own verifier of the task would read both:
// neither order, where it does not count, nor spelling matters.
//
//   if (const PublicAnswer* public_answer = public_answer_of("cipher"); public_answer != nullptr &&
//   !metadata.contains(public_answer->own_key)) …
//
// Pure; nothing is evaluated.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "puzzles/engine/answers/verdict.h"

namespace longhaul::puzzles {

struct PublicAnswer {
  std::string_view task;
  std::string_view own_key;  // that the `given` of each puzzle of ours has
  std::string_view kind;     // what an answer must be: "letters of options, separated by commas"
  // One text for all answers that are the same; none: it is no answer.
  std::optional<std::string> (*form)(std::string_view answer);
};

// Null: public records of the task hold its puzzle.
const PublicAnswer* public_answer_of(std::string_view task);

// The field "answer" of a public record as a text; kData where it is no answer of the task.
std::string read_public_answer(const PublicAnswer& of, const nlohmann::json& answer);
Verdict verdict_by(const PublicAnswer& of, const std::string& right, std::string_view payload);

}  // namespace longhaul::puzzles
