#include "data/chat/parser.h"

#include <algorithm>

namespace longhaul::data::chat {

Parser::Level::Level(Parser& parser) : parser_(parser) {
  if (parser.depth_ >= parser.limits_.depth)
    fail("the template is nested more than {} deep", parser.limits_.depth);
  ++parser.depth_;
}

const Token& Parser::next() {
  const Token& token = look();
  line_ = token.line;
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::take_sign(std::string_view sign) {
  if (!is_sign(sign)) return false;
  next();
  return true;
}

bool Parser::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

void Parser::unexpected(std::string_view wanted) const {
  const Token& token = look();
  line_ = token.line;
  const char* const kinds[] = {
      "text", "{{", "}}", "{%", "%}", "", "a text", "", "", "", "the end of the template"};
  const std::string found = token.text.empty() || token.kind == TokenKind::kText
                                ? kinds[static_cast<size_t>(token.kind)]
                                : "'" + token.text.substr(0, 60) + "'";
  fail("{} was expected, and there is {}", wanted, found);
}

void Parser::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) unexpected(fmt::format("'{}'", sign));
}

void Parser::expect(TokenKind kind, std::string_view what) {
  if (look().kind != kind) unexpected(what);
  next();
}

std::string Parser::name(std::string_view what) {
  if (look().kind != TokenKind::kName) unexpected(what);
  return next().text;
}

Statements Parser::whole() {
  std::string ended_by;
  return until({}, ended_by);
}

Statements Parser::until(const std::vector<std::string_view>& ends, std::string& ended_by) {
  const Level level(*this);
  Statements statements;
  while (look().kind != TokenKind::kEnd) {
    const Token& token = next();
    Statement made{.line = token.line};
    if (token.kind == TokenKind::kText) {
      made.text = MarkedText(token.text, Mark::kTemplate);
      statements.push_back(std::move(made));
    } else if (token.kind == TokenKind::kOutputBegin) {
      made.kind = StatementKind::kOutput;
      made.expression = tuple();
      expect(TokenKind::kOutputEnd, "}}");
      statements.push_back(std::move(made));
    } else {
      const std::string word = name("a word such as set, if or for");
      if (std::ranges::find(ends, word) != ends.end()) {
        ended_by = word;
        return statements;
      }
      statement(word, statements);
    }
  }
  if (!ends.empty()) fail("{{% {} %}} is missing", ends.back());
  return statements;
}

Statements Parser::body(std::string_view end) {
  expect(TokenKind::kBlockEnd, "%}");
  std::string ended_by;
  Statements statements = until({end}, ended_by);
  expect(TokenKind::kBlockEnd, "%}");
  return statements;
}

void Parser::statement(const std::string& word, Statements& into) {
  Statement made{.line = line_};
  if (word == "set") {
    set(made);
  } else if (word == "if") {
    condition(made);
  } else if (word == "for") {
    loop(made);
  } else if (word == "macro") {
    macro(made);
  } else if (word == "call") {
    call_block(made);
  } else if (word == "with") {
    with(made);
  } else if (word == "generation") {
    made.kind = StatementKind::kGeneration;
    generation_ = true;
    made.body = body("endgeneration");
  } else if (word == "filter") {
    made.kind = StatementKind::kFilterBlock;
    made.expression = filters(filter(make(ExpressionKind::kName, {}, kBlockText)));
    made.body = body("endfilter");
  } else if (word == "break" || word == "continue") {
    if (loops_ == 0) fail("{} stands outside of any loop", word);
    made.kind = word == "break" ? StatementKind::kBreak : StatementKind::kContinue;
    expect(TokenKind::kBlockEnd, "%}");
  } else {
    fail("templates of conversations have no statement '{}'", word);
  }
  into.push_back(std::move(made));
}

void Parser::set(Statement& made) {
  made.target = targets(true);
  if (take_sign("=")) {
    made.kind = StatementKind::kSet;
    made.expression = tuple();
    return expect(TokenKind::kBlockEnd, "%}");
  }
  made.kind = StatementKind::kSetBlock;
  if (take_sign("|")) made.expression = filters(filter(make(ExpressionKind::kName, {}, kBlockText)));
  made.body = body("endset");
}

void Parser::condition(Statement& made) {
  made.kind = StatementKind::kIf;
  std::string ended_by = "elif";
  while (ended_by == "elif") {
    Branch branch{.condition = tuple(false), .body = {}};
    expect(TokenKind::kBlockEnd, "%}");
    branch.body = until({"elif", "else", "endif"}, ended_by);
    made.branches.push_back(std::move(branch));
  }
  expect(TokenKind::kBlockEnd, "%}");
  if (ended_by == "endif") return;
  made.otherwise = until({"endif"}, ended_by);
  expect(TokenKind::kBlockEnd, "%}");
}

void Parser::loop(Statement& made) {
  made.kind = StatementKind::kFor;
  made.target = targets(false);
  if (!take_name("in")) unexpected("'in'");
  made.expression = tuple(false);
  if (take_name("if")) made.condition = expression();
  made.recursive = take_name("recursive");
  expect(TokenKind::kBlockEnd, "%}");
  std::string ended_by;
  ++loops_;
  made.body = until({"else", "endfor"}, ended_by);
  --loops_;
  expect(TokenKind::kBlockEnd, "%}");
  if (ended_by == "endfor") return;
  made.otherwise = until({"endfor"}, ended_by);
  expect(TokenKind::kBlockEnd, "%}");
}

std::vector<Parameter> Parser::parameters() {
  std::vector<Parameter> parameters;
  expect_sign("(");
  while (!take_sign(")")) {
    if (!parameters.empty()) {
      expect_sign(",");
      if (take_sign(")")) break;
    }
    Parameter parameter{.name = name("the name of a parameter"), .otherwise = nullptr};
    if (take_sign("=")) parameter.otherwise = expression();
    if (parameter.otherwise == nullptr && !parameters.empty() && parameters.back().otherwise != nullptr) {
      fail("the parameter '{}' without a default comes after one with a default", parameter.name);
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

void Parser::macro(Statement& made) {
  made.kind = StatementKind::kMacro;
  made.name = name("the name of a macro");
  made.parameters = parameters();
  const int64_t outside = std::exchange(loops_, 0);
  made.body = body("endmacro");
  loops_ = outside;
}

void Parser::call_block(Statement& made) {
  made.kind = StatementKind::kCallBlock;
  if (is_sign("(")) made.parameters = parameters();
  made.expression = expression();
  if (made.expression->kind != ExpressionKind::kCall) fail("a call block calls something");
  const int64_t outside = std::exchange(loops_, 0);
  made.body = body("endcall");
  loops_ = outside;
}

void Parser::with(Statement& made) {
  made.kind = StatementKind::kWith;
  while (look().kind != TokenKind::kBlockEnd) {
    if (!made.assignments.empty()) expect_sign(",");
    Target to = target(false, false);
    expect_sign("=");
    made.assignments.emplace_back(std::move(to), expression());
  }
  made.body = body("endwith");
}

Target Parser::target(bool several, bool attributes) {
  const Level level(*this);
  if (several && take_sign("(")) {
    Target made = targets(attributes);
    expect_sign(")");
    return made;
  }
  Target made{.name = name("a name to assign to")};
  static constexpr std::string_view kTaken[] = {"true", "false", "none", "True", "False", "None", "not",
                                                "and",  "or",    "if",   "else", "in",    "is"};
  if (std::ranges::find(kTaken, made.name) != std::end(kTaken)) fail("'{}' cannot be assigned to", made.name);
  if (attributes && take_sign(".")) made.attribute = name("the name of an attribute");
  return made;
}

Target Parser::targets(bool attributes) {
  Target first = target(true, attributes);
  if (!is_sign(",")) return first;
  Target made;
  made.several.push_back(std::move(first));
  while (take_sign(",")) {
    if (look().kind != TokenKind::kName && !is_sign("(")) break;
    if (is_name("in")) break;
    made.several.push_back(target(true, attributes));
  }
  return made;
}

Statements parse_template(const std::string& source, const TemplateLimits& limits, int& line,
                          bool& generation) {
  Parser parser(tokens_of(source, line), limits, line);
  Statements statements = parser.whole();
  generation = parser.generation();
  return statements;
}

}  // namespace longhaul::data::chat
