// The tree of a template, and the grammar that the parser reads: Jinja 3.1, without what chat templates may
// not do (include, import, extends, block) and what they do not do (autoescape, translations).
//
//   template   = { text | "{{" tuple "}}" | statement }
//   statement  = "{%" "set" targets "=" tuple "%}"
//              | "{%" "set" target { filter } "%}" template "{%" "endset" "%}"
//              | "{%" "if" tuple "%}" … { "{%" "elif" tuple "%}" … } [ "{%" "else" "%}" … ] "{%" "endif" "%}"
//              | "{%" "for" targets "in" tuple [ "if" expression ] [ "recursive" ] "%}" …
//                [ "{%" "else" "%}" … ] "{%" "endfor" "%}"
//              | "{%" "macro" name "(" [ name [ "=" expression ] { "," … } ] ")" "%}" … "{%" "endmacro" "%}"
//              | "{%" "call" [ "(" parameters ")" ] call "%}" … "{%" "endcall" "%}"
//              | "{%" "filter" filters "%}" … "{%" "endfilter" "%}"
//              | "{%" "with" [ name "=" expression { "," … } ] "%}" … "{%" "endwith" "%}"
//              | "{%" "generation" "%}" … "{%" "endgeneration" "%}"
//              | "{%" ( "break" | "continue" ) "%}"
//   tuple      = expression { "," expression } [ "," ]
//   expression = or [ "if" or [ "else" expression ] ]
//   or         = and { "or" and }            and = not { "and" not }            not = "not" not | comparison
//   comparison = sum { ( "==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not" "in" ) sum }
//   sum        = joined { ( "+" | "-" ) joined }               joined = product { "~" product }
//   product    = power { ( "*" | "/" | "//" | "%" ) power }    power  = unary { "**" unary }
//   unary      = ( "-" | "+" ) unary | primary { postfix } { "|" filter | "is" [ "not" ] test | call }
//   primary    = name | string { string } | number | "(" tuple ")" | "[" … "]" | "{" key ":" value, … "}"
//   postfix    = "." name | "[" index "]" | "[" [ from ] ":" [ to ] [ ":" [ step ] ] "]" | call
//   call       = "(" [ expression | name "=" expression | "*" expression | "**" expression ] { "," … } ")"
//   filter     = name [ call ]               test = name [ call | primary { postfix } ]
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/value.h"

namespace longhaul::data::chat {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

enum class ExpressionKind {
  kConstant,     // constant
  kName,         // name
  kTuple,        // parts
  kList,         // parts
  kDict,         // parts: key, value, key, value …
  kAttribute,    // parts[0].name
  kItem,         // parts[0][parts[1]]
  kSlice,        // parts[0][parts[1]:parts[2]:parts[3]]; null where nothing is said
  kCall,         // parts[0](call)
  kFilter,       // parts[0] | name(call)
  kTest,         // parts[0] is name(call)
  kNegative,     // -parts[0]
  kPositive,     // +parts[0]
  kNot,          // not parts[0]
  kOperation,    // parts[0] name parts[1]: arithmetic, "~"
  kComparisons,  // parts[0] signs[0] parts[1] signs[1] parts[2] …
  kAnd,
  kOr,         // parts[0], parts[1]
  kCondition,  // parts[1] if parts[0] else parts[2] (null: nothing)
};

struct CallArguments {
  std::vector<ExpressionPointer> by_place;
  std::vector<std::pair<std::string, ExpressionPointer>> by_name;
  ExpressionPointer rest_by_place, rest_by_name;  // *rest, **rest
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  int line = 0;
  int64_t depth = 1;
  std::string name;
  Value constant;
  std::vector<ExpressionPointer> parts;
  std::vector<std::string> signs;
  CallArguments call;
};

// What a value is assigned to: a name, an attribute of a namespace, or several of them.
struct Target {
  std::string name, attribute;  // attribute: of the namespace `name`
  std::vector<Target> several;
};

struct Parameter {
  std::string name;
  ExpressionPointer otherwise;  // null: none
};

struct Statement;
using Statements = std::vector<Statement>;

enum class StatementKind {
  kText,         // text
  kOutput,       // {{ expression }}
  kSet,          // target = expression
  kSetBlock,     // target = body, through `expression` (filters of an empty name "") if there is one
  kIf,           // branches, else otherwise
  kFor,          // target in expression if condition
  kMacro,        // name(parameters): body
  kCallBlock,    // expression, a call, with body as caller(parameters)
  kFilterBlock,  // body through `expression`
  kWith,         // assignments: body
  kGeneration,   // body
  kBreak,
  kContinue,
};

struct Branch;
struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  MarkedText text;
  std::string name;
  ExpressionPointer expression, condition;
  Target target;
  bool recursive = false;
  std::vector<Parameter> parameters;
  std::vector<std::pair<Target, ExpressionPointer>> assignments;
  std::vector<Branch> branches;
  Statements body, otherwise;
};
struct Branch {
  ExpressionPointer condition;
  Statements body;
};

// The name under which the filters of a block find the block's text.
inline constexpr const char* kBlockText = " ";

// A mistake is a Failure; `line` is set to where it stands. `generation`: whether there are such blocks.
Statements parse_template(const std::string& source, const TemplateLimits& limits, int& line,
                          bool& generation);

}  // namespace longhaul::data::chat
