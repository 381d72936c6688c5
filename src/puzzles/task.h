// TaskEntry: one kind of puzzle, whole: knobs, generator, prompts, verifier and solver, as plain functions. A
// folder a task (puzzles/sudoku), listed in tasks.cpp; docs/puzzles.md says how to add one.
//
// A puzzle is its `given`: a JSON object with the keys that the public verifier of the task reads, so that
// data sets can be exchanged. Every function is pure. verify() and count_solutions() take a `given` from a
// file too and throw Error (kData, naming what is wrong with it) where it cannot be a puzzle of the task; an
// answer, whatever it holds, never throws. prompt() and canonical() are called with what generate() has made.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/engine/answers/verdict.h"
#include "puzzles/engine/draw.h"
#include "puzzles/engine/knobs.h"
#include "puzzles/engine/prompt.h"
#include "puzzles/engine/search.h"

namespace longhaul::puzzles {

struct Puzzle {
  nlohmann::json given;
  std::string solution;  // a payload that the verifier accepts
};

enum class Uniqueness : uint8_t {
  kProved,    // the generator hands out only puzzles for which count_solutions() has found one solution
  kComputed,  // the answer follows from the puzzle by computation
  kAny,       // any valid answer is accepted, and there may be several
};

struct TaskEntry {
  std::string_view key;    // "sudoku": the public name
  std::string_view title;  // for people
  int64_t version = 1;     // another one whenever the same seed may give another puzzle
  Uniqueness uniqueness = Uniqueness::kProved;
  std::span<const Knob> knobs;

  // None: this attempt failed (not unique, too much work); another Draw may succeed.
  std::optional<Puzzle> (*generate)(const KnobValues& knobs, Draw& draw);
  std::string (*prompt)(const nlohmann::json& given, Language language, int64_t which);
  Verdict (*verify)(const nlohmann::json& given, std::string_view payload);
  // At most `limit` solutions. Null for kComputed and kAny.
  SolutionCount (*count_solutions)(const nlohmann::json& given, int64_t limit, SearchBudget& budget);
  // The same text for puzzles that are one puzzle under the symmetries of the task.
  std::string (*canonical)(const nlohmann::json& given);
  // The puzzle for prompts in a language, where solutions or what public verifiers read are told in words;
  // the verifier takes the words of either language. Null: a puzzle is the same in all.
  Puzzle (*in_language)(Puzzle puzzle, Language language) = nullptr;
  // The `given` of what a public generator wrote: an object with question, answer and metadata (an object),
  // where metadata alone is not enough. Null: metadata is the given.
  nlohmann::json (*from_reference)(const nlohmann::json& object) = nullptr;
  // The puzzles of a public file of the task, its text given; errors (kData) name `where`. Null: there is no
  // such file.
  std::vector<Puzzle> (*read_public_file)(const std::string& text, const std::string& where) = nullptr;
};

}  // namespace longhaul::puzzles
