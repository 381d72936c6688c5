#include "control/blocklist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "control/host_history.h"

namespace longhaul::control {
namespace {

using ::testing::ElementsAre;

TEST(Blocklist, BlocksUntilItsTimeIsOver) {
  Blocklist list;
  list.block({.host = "n7", .boot_id = "b1", .reason = "Xid 79", .until_s = 100});
  EXPECT_EQ(list.standing("n7", "b1", 99), Standing::kBlocked);
  EXPECT_EQ(list.standing("n7", "b1", 100), Standing::kFree);
  EXPECT_EQ(list.standing("n8", "b1", 0), Standing::kFree);
  EXPECT_THAT(list.hosts(99), ElementsAre("n7"));
  EXPECT_TRUE(list.hosts(100).empty());
}

TEST(Blocklist, AMachineThatWasStartedAnewIsCheckedFirst) {
  Blocklist list;
  list.block({.host = "n7", .boot_id = "b1", .reason = "r"});
  EXPECT_EQ(list.standing("n7", "b2", 1e12), Standing::kCheckFirst);
  EXPECT_EQ(list.standing("n7", "", 1e12), Standing::kBlocked) << "nobody knows whether it was";
  list.block({.host = "n8", .reason = "r"});
  EXPECT_EQ(list.standing("n8", "b2", 0), Standing::kBlocked);
}

TEST(Blocklist, TheLongerOfTwoEntriesCounts) {
  Blocklist list;
  list.block({.host = "n7", .reason = "long", .until_s = 100});
  list.block({.host = "n7", .reason = "short", .until_s = 50});
  EXPECT_EQ(list.find("n7", 75)->reason, "long");
  list.block({.host = "n7", .reason = "for good"});
  EXPECT_EQ(list.find("n7", 1e15)->reason, "for good");
  EXPECT_TRUE(list.lift("n7"));
  EXPECT_FALSE(list.lift("n7"));
  EXPECT_EQ(list.find("n7", 0), nullptr);
}

TEST(Blocklist, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  Blocklist list;
  const BlockedHost one{.host = "n7",
                        .boot_id = "b",
                        .node = "node-1",
                        .reason = "says \"no\"\n",
                        .generation = 4,
                        .since_s = 10.5,
                        .until_s = 100};
  const BlockedHost other{.host = "n8", .reason = "for good"};
  list.block(one), list.block(other);
  list.write(folder / "control/blocked.json");
  EXPECT_THAT(Blocklist::read(folder / "control/blocked.json").entries(0), ElementsAre(one, other));
  EXPECT_TRUE(Blocklist::read(folder / "nothing.json").entries(0).empty());
}

TEST(Blocklist, WhatIsNoListIsRefused) {
  const TemporaryFolder folder;
  for (const char* text :
       {"", "[]", "{}", "{\"blocked\": 3}", "{\"blocked\": [{\"host\": \"\", \"reason\": \"\"}]}",
        "{\"blocked\": [{\"host\": \"n\"}]}",
        "{\"blocked\": [{\"host\": \"n\", \"reason\": \"r\", \"until\": \"now\"}]}", "{\"blocked\": ["}) {
    write_text_atomically(folder / "list.json", text);
    EXPECT_THROW(Blocklist::read(folder / "list.json"), Error) << text;
  }
}

TEST(HostHistory, CountsSignalsOfFourWeeks) {
  const double now = 100 * 86400.0;
  std::vector<HostRecord> records;
  for (const double day : {71.9, 80.0, 90.0})
    records.push_back({day * 86400, "n1", HostEvent::kExcluded, "r"});
  EXPECT_EQ(lemon_score(records, "n1", now).signals, 0) << "the first is older than 28 days";
  records.push_back({99 * 86400.0, "n1", HostEvent::kExcluded, "r"});
  EXPECT_EQ(lemon_score(records, "n1", now).signals, 1);
  EXPECT_FALSE(lemon_score(records, "n1", now).lemon());
  records.push_back({99 * 86400.0, "n1", HostEvent::kTicket, ""});
  EXPECT_TRUE(lemon_score(records, "n1", now).lemon());
  EXPECT_EQ(lemon_score(records, "n2", now).signals, 0);
}

TEST(HostHistory, ARateNeedsRuns) {
  std::vector<HostRecord> records = {{1, "n", HostEvent::kOneNodeFailure, ""}};
  EXPECT_EQ(lemon_score(records, "n", 2).signals, 1) << "the failure, not its rate of one in one";
  for (int i = 0; i < 4; ++i) records.push_back({1, "n", HostEvent::kOneNodeSuccess, ""});
  EXPECT_EQ(lemon_score(records, "n", 2).signals, 2);
  EXPECT_DOUBLE_EQ(lemon_score(records, "n", 2).one_node_failure_rate, 0.2);
  records.push_back({1, "n", HostEvent::kOneNodeSuccess, ""});
  EXPECT_EQ(lemon_score(records, "n", 2).signals, 1);
}

TEST(HostHistory, LemonsAreUsedLast) {
  std::vector<HostRecord> records;
  for (const char* host : {"b", "d"}) {
    records.push_back({1, host, HostEvent::kTicket, ""});
    records.push_back({1, host, HostEvent::kOneNodeFailure, ""});
  }
  for (int i = 0; i < 3; ++i) records.push_back({1, "b", HostEvent::kDeviceError, ""});
  records.push_back({1, "a", HostEvent::kTicket, ""});  // one signal: no lemon
  EXPECT_THAT(order_of_use({"b", "d", "c", "a"}, records, 2), ElementsAre("c", "a", "d", "b"));
}

TEST(HostHistory, AFileOfItIsReadAsFarAsItCanBe) {
  const TemporaryFolder folder;
  const auto file = folder / "hosts/history.jsonl";
  EXPECT_TRUE(read_records(file).empty());
  append_record(file, {.time_s = 5.5, .host = "n1", .event = HostEvent::kManyNodeFailure, .run = "runs/a"});
  File torn = File::open(file, File::Mode::kAppend);
  torn.write(
      std::string("{\"time\": 6, \"ho\nnot json\n{\"time\": 7, \"host\": \"n1\", \"event\": \"unknown\"}\n"));
  torn.close();
  append_record(file, {.time_s = 8, .host = "n2", .event = HostEvent::kTicket});
  const auto records = read_records(file);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].event, HostEvent::kManyNodeFailure);
  EXPECT_EQ(records[0].run, "runs/a");
  EXPECT_EQ(records[1].host, "n2");
}

}  // namespace
}  // namespace longhaul::control
