// Mappings of experts over emulated links: what is sent, what it should take, and that all give one result.
// Ranks are processes, which only the program can start (tests/cli/rank_benches_test.cpp); here the
// formulas.
#include "bench/ranks/folding.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace longhaul::bench {
namespace {

TEST(Folding, MappingsAreNamed) {
  FoldingRow row{.experts = 8, .chosen = 2, .ep = 8};
  EXPECT_EQ(row.mapping(), "cp8 ep8, folded");
  EXPECT_EQ(row.nodes(), "1 of 8");
  row.ranks_of_node = 1;
  EXPECT_EQ(row.mapping(), "cp8 ep8, not folded");
  row.ranks_of_node = 4, row.ep = 2, row.etp = 4;
  EXPECT_EQ(row.mapping(), "etp4 ep2");
  EXPECT_EQ(row.nodes(), "2 of 4");
}

TEST(Folding, WhatDoesNotComeOutEvenIsRefused) {
  EXPECT_NO_THROW(require_even({}));
  EXPECT_THROW(require_even({.tokens = 24}), Error);
  EXPECT_THROW(require_even({.intermediate = 72}), Error);
}

}  // namespace
}  // namespace longhaul::bench
