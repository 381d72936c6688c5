// The words of a template: text outside of tags, with white space already cut as Jinja cuts it (trim_blocks,
// lstrip_blocks, "-" and "+" in tags), and the tokens within {{ }} and {% %}. {# comments #} are left out and
// {% raw %} blocks are text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/chat/budget.h"

namespace longhaul::data::chat {

enum class TokenKind {
  kText,  // outside of tags
  kOutputBegin,
  kOutputEnd,  // {{ }}
  kBlockBegin,
  kBlockEnd,  // {% %}
  kName,
  kString,
  kInteger,
  kFloat,
  kSign,  // operators and brackets: text says which
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string: its value
  int64_t integer = 0;
  double number = 0;
  int line = 1;
};

// A mistake in the template: Failure, and `line` is set to where it stands.
std::vector<Token> tokens_of(std::string source, int& line);

}  // namespace longhaul::data::chat
