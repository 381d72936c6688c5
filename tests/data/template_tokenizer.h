// Tokenizers of one id a byte whose other tokens and template a test chooses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace longhaul::data {

inline nlohmann::json added_token(int32_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

inline nlohmann::json template_piece(const std::string& name) {
  return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}};
}

// Ids 0 to 255 are bytes, 256 is `end`, and 257 on are `more`; the template has tokens of `front` and `back`
// around the text.
inline Tokenizer bytes_with(const std::string& end, const std::vector<std::string>& more,
                            const std::vector<std::string>& front = {},
                            const std::vector<std::string>& back = {}) {
  using nlohmann::json;
  json definition = json::parse(Tokenizer::bytes().definition());
  json& vocab = definition["model"]["vocab"];
  vocab.erase(std::string(kEndOfDocument));
  vocab[end] = 256;
  definition["added_tokens"] = {added_token(256, end)};
  for (size_t i = 0; i < more.size(); ++i)
    definition["added_tokens"].push_back(added_token(static_cast<int32_t>(257 + i), more[i]));
  if (!front.empty() || !back.empty()) {
    json single = json::array(), special = json::object();
    for (const std::string& name : front) single.push_back(template_piece(name));
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    for (const std::string& name : back) single.push_back(template_piece(name));
    for (const auto* names : {&front, &back}) {
      for (const std::string& name : *names) {
        int32_t id = name == end ? 256 : -1;
        for (size_t i = 0; i < more.size(); ++i) id = more[i] == name ? static_cast<int32_t>(257 + i) : id;
        special[name] = {{"id", name}, {"ids", {id}}, {"tokens", {name}}};
      }
    }
    definition["post_processor"] = {{"type", "TemplateProcessing"},
                                    {"single", single},
                                    {"pair", json::array()},
                                    {"special_tokens", special}};
  }
  return Tokenizer::from_json(definition.dump(), "t.json");
}

}  // namespace longhaul::data
