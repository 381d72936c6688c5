// The JSON limits of a tokenizer.json, and the errors for one that is malformed or uses an unsupported part.
#pragma once

#include <string>

#include "base/text/json.h"

namespace longhaul::data {

inline constexpr int64_t kMostDefinitionBytes = int64_t{256} << 20;
inline constexpr JsonRules kDefinitionRules = {
    .what = "malformed tokenizer definition", .hint = "", .depth = 64, .string_bytes = kMostDefinitionBytes};

[[noreturn]] inline void refuse_unsupported(const JsonView& part, std::string found, std::string expected) {
  throw Error({.code = ExitCode::kData,
               .what = "this tokenizer definition uses a part that is not supported",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = part.where(),
               .hint = "docs/formats/tokenizer.md lists what is read"});
}

}  // namespace longhaul::data
