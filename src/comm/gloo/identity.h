// Identity: something that must be the same on all ranks of a world, as their recipe. Ranks compare hashes; what a thing consists of is read only where
// hashes differ, so that the error can name what does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/threads/rendezvous.h"

namespace longhaul::comm {

using IdentityParts = std::vector<std::pair<std::string, std::string>>;  // name and value: "optim.lr", "0.25"

struct Identity {
  std::string name, hash;
  IdentityParts parts{};
};

// As ranks tell it to each other: names and hashes, and the parts of each.
std::string hashes_text(const std::vector<Identity>& identities);
std::string parts_text(const std::vector<Identity>& identities);

// The first rank whose hashes are not those of rank 0, which of them, and how many ranks beside it differ there. `hashes`: hashes_text of each rank.
struct OddRank {
  size_t rank = 0, which = 0;
  int64_t others = 0;
};
std::optional<OddRank> odd_rank(const std::vector<std::string>& hashes);

// What a rank has told.
struct TextsOfRank {
  std::string hashes, parts;
};
Failure disagreement(const OddRank& odd, const TextsOfRank& first, const TextsOfRank& other);

}  // namespace longhaul::comm
