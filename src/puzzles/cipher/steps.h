// The kinds of ciphers: how their keys are drawn, what they do in both directions, and how a person is told
// of them. Keys are a JSON object. A text that goes in consists of A to Z; what comes out does too, or is a
// row of codes with blanks between them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "puzzles/engine/draw.h"

namespace longhaul::puzzles::cipher {

struct Cipher {
  std::string_view name;  // "affine"
  int64_t tier = 1;       // 1 (easy) to 3
  bool gives_letters = true;
  std::string_view english, chinese;  // what it does, in terms of its keys
  nlohmann::json (*draw)(Draw& draw);
  bool (*is_key)(const nlohmann::json& key);  // whether an object from a file may be its keys
  // None: the text is none that it can treat.
  std::optional<std::string> (*encrypt)(const nlohmann::json& key, const std::string& text);
  std::optional<std::string> (*decrypt)(const nlohmann::json& key, const std::string& text);
};

std::span<const Cipher> ciphers();
std::span<const Cipher> more_ciphers();  // a part of them

}  // namespace longhaul::puzzles::cipher
