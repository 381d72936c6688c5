#include "puzzles/engine/given.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace longhaul::puzzles {

void refuse_given(std::string_view task, std::string expected) {
  throw Error({.code = ExitCode::kData, .what = fmt::format("unusable puzzle of {}", task), .expected = std::move(expected)});
}

}  // namespace longhaul::puzzles
