// Who differs from rank 0, and what is said of it.
#include "comm/gloo/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::comm {
namespace {

std::vector<Identity> identities(const std::string& recipe, const IdentityParts& parts,
                                 const std::string& program = "1") {
  return {{"program", program, {{"version", "0.1"}}}, {"recipe", recipe, parts}};
}
TextsOfRank texts_of(const std::vector<Identity>& identities) {
  return {hashes_text(identities), parts_text(identities)};
}

// What `others` are told beside rank 0.
ErrorFields said_of(const std::vector<Identity>& first, const std::vector<std::vector<Identity>>& others) {
  std::vector<std::string> hashes = {hashes_text(first)};
  for (const auto& other : others) hashes.push_back(hashes_text(other));
  const auto odd = odd_rank(hashes);
  return odd ? disagreement(*odd, texts_of(first), texts_of(others.at(odd->rank - 1))).fields
             : ErrorFields{.what = "nobody"};
}

TEST(Identity, TheFirstOddRankIsNamedAndTheOthersCounted) {
  const auto same = identities("a", {{"optim.lr", "0.25"}}), odd = identities("b", {{"optim.lr", "0.5"}}),
             program = identities("a", {{"optim.lr", "0.25"}}, "2");
  EXPECT_EQ(said_of(same, {same, same}).what, "nobody");
  EXPECT_EQ(said_of(same, {same, odd}).what, "rank 2 has another recipe than rank 0");
  EXPECT_EQ(said_of(same, {odd, program, same, odd}).what,
            "rank 1 has another recipe than rank 0; so has 1 more");
  EXPECT_EQ(said_of(same, {odd, odd, odd}).what, "rank 1 has another recipe than rank 0; so have 2 more");
  // The same parts are no explanation.
  EXPECT_EQ(said_of(same, {program}).what, "rank 1 has another program than rank 0");
  EXPECT_EQ(said_of(same, {program}).expected, "on rank 0: program 1");
  EXPECT_EQ(said_of(same, {program}).found, "on rank 1: program 2");
}

TEST(Identity, FourKeysAreShownAndTheRestCounted) {
  IdentityParts first, other;
  for (const char letter : {'a', 'b', 'c', 'd', 'e', 'f', 'g'}) {
    first.emplace_back(std::string(1, letter), "1");
    other.emplace_back(std::string(1, letter), letter == 'b' ? "1" : "2");
  }
  other.erase(other.begin());
  const ErrorFields said = said_of(identities("1", first), {identities("2", other)});
  EXPECT_EQ(said.expected, "on rank 0: a = 1\n            c = 1\n            d = 1\n            e = 1");
  EXPECT_EQ(said.found,
            "on rank 1: a = none\n            c = 2\n            d = 2\n            e = 2\n            and 2 "
            "more that differ");
}

// A list of a hundred names that differ in the last.
TEST(Identity, LongValuesAreCutToWhereTheyDiffer) {
  const std::string long_value(1000, 'x');
  const ErrorFields said = said_of(identities("1", {{"data.source", long_value + "/here" + long_value}}),
                                   {identities("2", {{"data.source", long_value + "/there"}})});
  EXPECT_EQ(said.expected,
            "on rank 0: data.source = …" + std::string(19, 'x') + "/here" + std::string(36, 'x') + "…");
  EXPECT_EQ(said.found, "on rank 1: data.source = …" + std::string(19, 'x') + "/there");
}

}  // namespace
}  // namespace longhaul::comm
