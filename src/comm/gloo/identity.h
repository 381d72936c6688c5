// Identity: something that must be the same on all ranks of a world, such as their recipe. Ranks compare
// hashes; the parts are read only when hashes differ, so that the error can name the parts that differ.
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

// The texts that ranks send each other: names and hashes, and the parts of each identity.
std::string hashes_text(const std::vector<Identity>& identities);
std::string parts_text(const std::vector<Identity>& identities);

// The first rank whose hashes differ from those of rank 0, the index of the identity that differs, and how
// many further ranks differ there. `hashes`: hashes_text of each rank.
struct OddRank {
  size_t rank = 0, which = 0;
  int64_t others = 0;
};
std::optional<OddRank> odd_rank(const std::vector<std::string>& hashes);

// The texts that a rank has sent.
struct TextsOfRank {
  std::string hashes, parts;
};
Failure disagreement(const OddRank& odd, const TextsOfRank& first, const TextsOfRank& other);

}  // namespace longhaul::comm
