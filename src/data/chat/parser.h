// Parser of a template's tokens; the grammar is in syntax.h. Expressions are in parse_expressions.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/chat/lexer.h"
#include "data/chat/syntax.h"

namespace longhaul::data::chat {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const TemplateLimits& limits, int& line)
      : tokens_(std::move(tokens)), limits_(limits), line_(line) {}

  Statements whole();
  bool generation() const { return generation_; }

 private:
  // One level of nesting more, as long as it lives.
  class Level {
   public:
    explicit Level(Parser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  const Token& look(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next();
  bool is_sign(std::string_view sign, size_t ahead = 0) const {
    return look(ahead).kind == TokenKind::kSign && look(ahead).text == sign;
  }
  bool is_name(std::string_view name, size_t ahead = 0) const {
    return look(ahead).kind == TokenKind::kName && look(ahead).text == name;
  }
  bool take_sign(std::string_view sign);
  bool take_name(std::string_view name);
  void expect_sign(std::string_view sign);
  void expect(TokenKind kind, std::string_view what);
  std::string name(std::string_view what);
  [[noreturn]] void unexpected(std::string_view wanted) const;

  // Statements up to a tag with one of these names, which is taken; its name goes to `ended_by`.
  Statements until(const std::vector<std::string_view>& ends, std::string& ended_by);
  Statements body(std::string_view end);  // of a tag whose words were read, up to "end…"
  void statement(const std::string& word, Statements& into);
  void set(Statement& made);
  void condition(Statement& made);
  void loop(Statement& made);
  void macro(Statement& made);
  void call_block(Statement& made);
  void with(Statement& made);
  std::vector<Parameter> parameters();
  Target target(bool several, bool attributes);
  Target targets(bool attributes);

  ExpressionPointer make(ExpressionKind kind, std::vector<ExpressionPointer> parts, std::string name = "");
  ExpressionPointer finished(ExpressionPointer made);  // with its depth, which is bounded
  ExpressionPointer tuple(bool with_condition = true);
  bool ends_tuple() const;
  ExpressionPointer expression();
  ExpressionPointer either();
  ExpressionPointer both();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer joined();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters = true);
  ExpressionPointer primary();
  ExpressionPointer constant(Value value);
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer postfixes(ExpressionPointer of);
  ExpressionPointer subscript(ExpressionPointer of);
  ExpressionPointer filters(ExpressionPointer of);  // with tests and calls
  ExpressionPointer filter(ExpressionPointer of);   // one, whose "|" was taken
  ExpressionPointer test(ExpressionPointer of);
  ExpressionPointer call(ExpressionPointer of);
  CallArguments arguments();

  std::vector<Token> tokens_;
  const TemplateLimits& limits_;
  int& line_;
  size_t at_ = 0;
  int64_t depth_ = 0, loops_ = 0;
  bool generation_ = false;
};

}  // namespace longhaul::data::chat
