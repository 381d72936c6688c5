// Bytes on the wire are those of the formulas, forward and backward, to the byte.
#include "bench/ranks/communication.h"

#include <gtest/gtest.h>

#include <set>

namespace longhaul::bench {
namespace {

TEST(Communication, BytesOfALayerAreThoseOfTheFormulas) {
  const std::vector<CountedBytes> lines = count_communication();
  std::set<std::string> methods;
  for (const CountedBytes& line : lines) {
    EXPECT_EQ(line.counted, line.by_formula)
        << line.method << ", " << line.pass << ", " << line.tokens << " tokens: " << line.formula;
    EXPECT_GT(line.counted, 0) << line.method;
    methods.insert(line.method);
  }
  EXPECT_EQ(methods.size(), 16u);
}

// By hand: states of 8 heads, 16 key and value channels in fp32; keys and values of 4 heads of 16 in bf16,
// gathered again in the backward pass, whose gradients are summed in fp32.
TEST(Communication, StatesDoNotGrowWithTheRow) {
  for (const CountedBytes& line : count_communication()) {
    if (line.method == "linear: ring") {
      EXPECT_EQ(line.counted, 8192) << line.tokens;
    } else if (line.method == "linear: Ulysses") {  // 8 heads of 16 in bf16, four times, of a quarter's rest
      EXPECT_EQ(line.counted, line.tokens / 4 * 1024 / 4 * 3) << line.tokens;
    } else if (line.method == "softmax: all-gather") {
      EXPECT_EQ(line.counted, line.tokens / 4 * 3 * (line.pass == "forward" ? 256 : 256 + 512))
          << line.tokens;
    }
  }
}

TEST(Communication, PublishedRunsFitTheirMeshes) {
  for (auto& [name, request] : published_runs()) {
    run::DryRunRequest one = request;
    one.ranks = {0};
    EXPECT_TRUE(run::dry_run(one).comparison.agreed()) << name;
  }
}

}  // namespace
}  // namespace longhaul::bench
