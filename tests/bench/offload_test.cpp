// The bench of offload compares gradients, counts what is moved, and keeps less where less is kept. Times are
// not tested: the machine may be busy.
#include "bench/models/offload.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tensor/cpu_allocator.h"

namespace longhaul::bench {
namespace {

TEST(BenchOffload, EveryWayHasTheSameGradients) {
  install_cpu_allocator();
  const std::vector<OffloadLine> lines = bench_offload({.preset = "first-run",
                                                        .sequence = 256,
                                                        .rounds = 1,
                                                        .link_gb_per_s = 0,
                                                        .overrides = {"model.layers=5"}});
  std::map<std::string, OffloadLine> by_way;
  for (const OffloadLine& line : lines) {
    EXPECT_TRUE(line.same_gradients) << line.way;
    EXPECT_GT(line.seconds, 0);
    EXPECT_EQ(line.moved_bytes > 0, line.way.starts_with("host")) << line.way;
    EXPECT_EQ(to_json(line)["peak_bytes"], line.peak_bytes);
    by_way[line.way] = line;
  }
  ASSERT_EQ(lines.size(), 8U);
  const OffloadLine& planned = by_way["none, planned"];
  EXPECT_EQ(planned.missed, 0) << "all passes ask for the same";
  EXPECT_GE(planned.block_bytes, planned.live_bytes);
  EXPECT_LE(static_cast<double>(planned.block_bytes), 1.02 * static_cast<double>(planned.live_bytes));
  EXPECT_LE(planned.live_bytes, 2 * by_way["none"].peak_bytes) << "activations, and what operators need";
  EXPECT_LT(by_way["full"].peak_bytes, by_way["selective"].peak_bytes);
  EXPECT_LT(by_way["selective"].peak_bytes, by_way["none"].peak_bytes);
  EXPECT_GE(by_way["tokens"].peak_bytes, by_way["full"].peak_bytes);
  EXPECT_LT(by_way["host, 0"].moved_bytes, by_way["host, 1"].moved_bytes);
  EXPECT_GE(by_way["host, 1"].host_bytes, static_cast<int64_t>(by_way["host, 1"].moved_bytes));
  EXPECT_NE(table_of(lines).text(false).find("same bits"), std::string::npos);
}

TEST(BenchOffload, AFileTakesWhatTheHostHasNoRoomFor) {
  install_cpu_allocator();
  for (const OffloadLine& line : bench_offload({.preset = "first-run",
                                 .sequence = 128,
                                 .rounds = 1,
                                 .link_gb_per_s = 0,
                                 .overrides = {"model.layers=4", "train.offload_memory=1"}})) {
    EXPECT_TRUE(line.same_gradients) << line.way;
    EXPECT_EQ(line.file_bytes, line.moved_bytes) << line.way;
    EXPECT_EQ(line.host_bytes, 0);
  }
}

}  // namespace
}  // namespace longhaul::bench
