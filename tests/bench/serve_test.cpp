// What the benchmarks of serving count and check, on few requests.
// ctest: label=full timeout=600
#include "bench/serving/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::bench::serve_test {
namespace {

double figure(const Result& result, const std::string& name) {
  for (const auto& [found, value] : result.figures) {
    if (found == name) return value;
  }
  ADD_FAILURE() << "no figure " << name;
  return -1;
}

ServeRequest small_request() {
  return {.clients = 3, .prompt = 8, .tokens = 3, .dtype = "fp32", .runs = 1, .memory = int64_t{256} << 20};
}

// Of ten requests one is refused and one left by its client.
TEST(BenchServe, ASoakCountsWhatCameOfEachKind) {
  const Result result = bench_serve_soak(small_request(), 60);
  EXPECT_TRUE(result.correct());
  EXPECT_EQ(figure(result, "answered_400"), 6);
  EXPECT_EQ(figure(result, "answered_200"), 48);
  EXPECT_EQ(figure(result, "left"), 6);
  EXPECT_EQ(figure(result, "unexpected"), 0);
  for (const char* none : {"waiting", "reading", "writing", "parked", "lost_sequences"})
    EXPECT_EQ(figure(result, none), 0) << none;
  EXPECT_GT(figure(result, "resident_bytes_20_percent"), 1 << 20);
  EXPECT_GT(figure(result, "resident_bytes"), 1 << 20);
}

TEST(BenchServe, TurnsAndContextsGiveTheSameTextsAgain) {
  const Result turns = bench_serve_turns(small_request(), 700);
  EXPECT_TRUE(turns.correct());
  EXPECT_GT(figure(turns, "first_turn_ms"), 0);
  EXPECT_GT(figure(turns, "second_turn_ms"), 0);
  const Result contexts = bench_serve_contexts(small_request(), 2048);
  EXPECT_TRUE(contexts.correct());
  EXPECT_GT(figure(contexts, "tokens_per_second_short"), 0);
  EXPECT_GT(figure(contexts, "tokens_per_second_long"), 0);
}

}  // namespace
}  // namespace longhaul::bench::serve_test
