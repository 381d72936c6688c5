// The share of a run's cores that others take, from files as the kernel writes them.
#include "base/machine/other_programs.h"

#include <gtest/gtest.h>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

class OtherProgramsTest : public ::testing::Test {
 protected:
  struct Core {
    uint64_t user = 0, idle = 0, waits = 0, stolen = 0;
  };
  void write(const std::vector<Core>& cores, const std::vector<std::pair<int64_t, uint64_t>>& processes) {
    std::string text = "cpu  1 1 1 1 1 1 1 1 0 0\n";
    for (size_t i = 0; i < cores.size(); ++i) {
      const Core& core = cores[i];
      text +=
          fmt::format("cpu{} {} 0 0 {} {} 0 0 {} 0 0\n", i, core.user, core.idle, core.waits, core.stolen);
    }
    write_text_atomically(folder_ / "stat", text + "intr 5 0 0\n");
    for (const auto& [process, ticks] : processes) {
      make_folders(folder_ / std::to_string(process));
      write_text_atomically(folder_ / std::to_string(process) / "stat",
                            fmt::format("{} (a (b) c) R 1 1 1 0 -1 0 0 0 0 0 {} {} 0 0 20 0 1 0 1\n", process,
                                        ticks - ticks / 4, ticks / 4));
    }
  }
  OtherPrograms others(std::vector<int64_t> processes, std::vector<int> cores, double wanted) const {
    return OtherPrograms({.processes = std::move(processes), .cores = std::move(cores), .wanted = wanted},
                         folder_.path());
  }
  TemporaryFolder folder_;
};

TEST_F(OtherProgramsTest, WhatTheRunItselfTakesIsNoOthers) {
  write({{.user = 1000, .idle = 50}, {.user = 2000, .idle = 70}}, {{7, 400}, {8, 100}});
  OtherPrograms share = others({7, 8}, {0, 1}, 2);
  write({{.user = 1200, .idle = 50}, {.user = 2200, .idle = 70}}, {{7, 600}, {8, 300}});
  EXPECT_EQ(share.share(), 0.0);
  // Two seconds of two cores: the run had 100 of 400 ticks, 100 were idle, of which 40 waited for a disk.
  write({{.user = 1400, .idle = 50}, {.user = 2300, .idle = 130, .waits = 40}}, {{7, 650}, {8, 350}});
  EXPECT_DOUBLE_EQ(share.share().value(), 0.5);
}

TEST_F(OtherProgramsTest, CoresThatTheRunLeavesFreeCountFirst) {
  write({{}, {}, {}, {}}, {{7, 0}});
  OtherPrograms one = others({7}, {0, 1, 2, 3}, 1), three = others({7}, {0, 1, 2, 3}, 3),
                more = others({7}, {0, 1, 2, 3}, 9);
  write({{.user = 100}, {.user = 100}, {.idle = 100}, {.user = 50, .stolen = 50}}, {{7, 100}});
  EXPECT_EQ(one.share(), 0.0) << "two and a hypervisor beside it, and a core to spare";
  EXPECT_DOUBLE_EQ(three.share().value(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(more.share().value(), 0.5) << "nobody wants more cores than there are";
}

TEST_F(OtherProgramsTest, CoresOfOthersAreNotLookedAt) {
  write({{}, {}}, {{7, 0}});
  OtherPrograms share = others({7}, {1}, 1);
  write({{.user = 100}, {.user = 80, .idle = 20}}, {{7, 80}});
  EXPECT_EQ(share.share(), 0.0);
}

TEST_F(OtherProgramsTest, LessThanASecondAndAProcessThatEndedTellNothing) {
  write({{.user = 10}}, {{7, 10}});
  OtherPrograms share = others({7}, {0}, 1);
  write({{.user = 109}}, {{7, 10}});
  EXPECT_EQ(share.share(), std::nullopt);
  write({{.user = 110}}, {{7, 60}});
  EXPECT_DOUBLE_EQ(share.share().value(), 0.5) << "since the last one that was told";
  write({{.user = 210}}, {{7, 0}});
  EXPECT_EQ(share.share(), std::nullopt);
  write({{.user = 310}}, {{7, 75}});
  EXPECT_DOUBLE_EQ(share.share().value(), 0.25);
}

TEST_F(OtherProgramsTest, WithoutTheFilesNothingIsKnown) {
  OtherPrograms share = others({7}, {0}, 1);
  EXPECT_EQ(share.share(), std::nullopt);
  write({{.user = 100}}, {});
  OtherPrograms too_many = others({7}, {0, 1}, 1);
  write({{.user = 300}}, {});
  EXPECT_EQ(too_many.share(), std::nullopt) << "a core that the kernel does not list";
}

TEST(OtherPrograms, ThisMachineTellsAShare) {
  OtherPrograms share({.processes = {}, .cores = {0}, .wanted = 1});
  EXPECT_EQ(share.share(), std::nullopt) << "no second has passed";
}

}  // namespace
}  // namespace longhaul
