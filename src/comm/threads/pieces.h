// What moving and adding a collective call comes to once all ranks have arrived, cut into pieces that any thread may carry out in any order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/threads/combine.h"

namespace longhaul::comm {

// What the calls of all ranks, each of which agrees with the first, still contradict each other in: row counts of all_to_all, or memory that
// a rank writes and another one uses. Empty: nothing.
struct Contradiction {
  std::string expected, found;
};
std::optional<Contradiction> contradiction(const std::vector<Call>& calls);

std::vector<Piece> pieces_of(const std::vector<Call>& calls);                   // by rank; none where nothing is left to do
std::vector<Piece> pieces_of_copy(const Tensor& source, const Tensor& target);  // of the same dtype and shape

}  // namespace longhaul::comm
