// Verdict: what a verifier says of an answer. `code` is one of a small set that data can be counted by;
// `text` is for a person and names the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace longhaul::puzzles {

enum class VerdictCode : uint8_t {
  kAccepted,
  kNoPayload,     // no answer between the tags
  kUnreadable,    // the answer is not written as the prompt asks
  kShape,         // it is, and has other rows, columns or items than the puzzle
  kGivenChanged,  // what the puzzle gave stands otherwise in it
  kRuleBroken,
};

struct Verdict {
  VerdictCode code = VerdictCode::kAccepted;
  std::string text = {};

  bool accepted() const { return code == VerdictCode::kAccepted; }
  bool operator==(const Verdict&) const = default;
};

std::string_view name_of(VerdictCode code);  // "rule_broken"

}  // namespace longhaul::puzzles
