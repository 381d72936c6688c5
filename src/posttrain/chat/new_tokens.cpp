#include "posttrain/chat/new_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace longhaul::posttrain {

namespace {

[[noreturn]] void refuse_token(const std::string& expected, const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = "a new token cannot be added to the tokenizer",
               .expected = expected,
               .found = found,
               .where = "chat.new_tokens",
               .hint = R"(chat.new_tokens="<|im_start|>,<|im_end|>")"});
}

}  // namespace

GrownTokenizer with_special_tokens(const data::Tokenizer& tokenizer, const std::vector<std::string>& tokens) {
  std::vector<std::string> added;
  for (const std::string& token : tokens) {
    if (token.empty()) refuse_token("the text of a token", "an empty one");
    const auto id = tokenizer.id_of(token);
    if (id && !tokenizer.is_special(*id))
      refuse_token("a token that the tokenizer lacks, or has as a special one", token);
    if (!id && std::ranges::find(added, token) == added.end()) added.push_back(token);
  }
  if (added.empty()) return {tokenizer, {}};
  auto definition = nlohmann::ordered_json::parse(tokenizer.definition());
  auto& list = definition["added_tokens"];
  if (!list.is_array()) list = nlohmann::ordered_json::array();
  int64_t id = tokenizer.vocabulary();
  for (const std::string& token : added) {
    list.push_back({{"id", id++},
                    {"content", token},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  }
  return {data::Tokenizer::from_json(definition.dump(), "the tokenizer with chat.new_tokens"), added};
}

}  // namespace longhaul::posttrain
