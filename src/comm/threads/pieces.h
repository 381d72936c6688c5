// Cuts the copying and adding of a collective call, once all ranks have arrived, into pieces that any
// thread may carry out in any order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/threads/combine.h"

namespace longhaul::comm {

// Finds contradictions between the calls of all ranks, each of which agrees with the first: in the row
// counts of all_to_all, or memory that one rank writes and another one uses. Empty: none.
struct Contradiction {
  std::string expected, found;
};
std::optional<Contradiction> contradiction(const std::vector<Call>& calls);

// calls: by rank. No pieces when nothing is left to do.
std::vector<Piece> pieces_of(const std::vector<Call>& calls);
// The tensors have the same dtype and shape.
std::vector<Piece> pieces_of_copy(const Tensor& source, const Tensor& target);

}  // namespace longhaul::comm
