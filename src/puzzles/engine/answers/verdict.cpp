#include "puzzles/engine/answers/verdict.h"

namespace longhaul::puzzles {

std::string_view name_of(VerdictCode code) {
  switch (code) {
    case VerdictCode::kAccepted:
      return "accepted";
    case VerdictCode::kNoPayload:
      return "no_payload";
    case VerdictCode::kUnreadable:
      return "unreadable";
    case VerdictCode::kShape:
      return "shape";
    case VerdictCode::kGivenChanged:
      return "given_changed";
    case VerdictCode::kRuleBroken:
      return "rule_broken";
  }
  return "unknown";
}

}  // namespace longhaul::puzzles
