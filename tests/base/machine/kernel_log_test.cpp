#include "base/machine/kernel_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(KernelLog, RecordsFromNowOnThatAreTheKernels) {
  const TemporaryFolder folder;
  const auto say = [&](const char* text) { std::ofstream(folder / "kmsg", std::ios::app) << text; };
  say("6,1,1,-;before\n");
  KernelLog log(folder / "kmsg");
  EXPECT_EQ(log.problem(), "");
  EXPECT_THAT(log.next(), IsEmpty());
  say("3,2,2,-;of level 3; with a semicolon\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:01.0\n30,3,3,-;of a "
      "daemon\n7,4,4,-;beg");
  EXPECT_THAT(log.next(), ElementsAre("of level 3; with a semicolon"));
  say("un\nno prefix\n;\n");
  EXPECT_THAT(log.next(), ElementsAre("begun"));
  EXPECT_THAT(log.next(), IsEmpty());
}

TEST(KernelLog, WhatCannotBeReadSaysWhy) {
  KernelLog log("/nowhere/kmsg");
  EXPECT_THAT(log.problem(), HasSubstr("/nowhere/kmsg: No such file or directory"));
  EXPECT_THAT(log.next(), IsEmpty());
}

// Whatever this machine's kernel says meanwhile, the call comes back.
TEST(KernelLog, OfThisMachine) {
  KernelLog log;
  log.next();
  if (!log.problem().empty()) GTEST_SKIP() << log.problem();
}

}  // namespace
}  // namespace longhaul
