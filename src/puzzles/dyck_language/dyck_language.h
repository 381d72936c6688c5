// Dyck language: a sequence of brackets has lost its end; the whole sequence is asked for, completed with as
// few brackets as can be. given: {"prefix": "([<", "full_sequence": "([<>])"}. The public verifier reads
// full_sequence. Source: docs/puzzles.md#dyck_language.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "puzzles/task.h"

namespace longhaul::puzzles::dyck_language {

inline constexpr std::string_view kOpeners = "([{<", kClosers = ")]}>";

// The brackets that are still open, innermost last; none: a closer comes that does not match, or another
// character.
std::optional<std::string> open_brackets(std::string_view sequence);
std::string closers_of(std::string_view open);  // that close these, innermost first

// A sequence of `length` brackets of `kinds` kinds at whose end `open` are open; shapes have equal chances.
std::string random_prefix(int64_t kinds, int64_t length, int64_t open, Draw& draw);

std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::dyck_language
