// `longhaul diagnose`, started as a user starts it: on one machine, on processes that stand for nodes, and
// with faults that are planted. ctest: label=multi timeout=300
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "cli/started_program.h"
#include "control/blocklist.h"
#include "control/checks/self_check.h"

namespace longhaul::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Diagnose : public StartedProgram {};

TEST_F(Diagnose, OneMachineWithinItsMinute) {
  const ProcessResult result = run({"diagnose", "--json", "--folder", path("."), "--limit",
                                    "memory_bytes=5e7", "--limit", "disk_bytes=4e6"});
  const auto report = control::SelfCheckReport::from_json(json::parse(result.output), "the report");
  EXPECT_EQ(report.results.size(), control::all_checks().size());
  EXPECT_LT(report.seconds, control::kPreFlight_s);
  EXPECT_EQ(result.status, 0) << result.output;
}

// What the node daemon reads (control/node/node_daemon.cpp), of a suite that the driver asked for.
TEST_F(Diagnose, SpeaksAsTheNodeDaemonListens) {
  const ProcessResult result =
      run({"diagnose", "--json", "--suite", "preflight", "--peer", "127.0.0.1", "--peer", "127.0.0.1",
           "--check", "versions", "--check", "memory", "--plant", "memory", "--limit", "memory_bytes=1e6"});
  EXPECT_EQ(result.errors, "") << "it would stand before the JSON in the daemon's file";
  const json checks = json::parse(result.output).at("checks");
  ASSERT_EQ(checks.size(), 3u);
  for (const json& check : checks) {
    EXPECT_TRUE(check.at("name").is_string() && check.at("passed").is_boolean() &&
                check.at("text").is_string() && check.at("signature").is_string());
    EXPECT_EQ(check.value("limit", 0.0), 0) << "a number, where there is one";
  }
  EXPECT_EQ(checks[0]["passed"], true);
  EXPECT_NE(checks[0]["signature"], "");
  EXPECT_EQ(checks[1]["passed"], false);
  EXPECT_EQ(checks[1]["signature"], "");
  EXPECT_EQ(checks[2]["status"], "skipped") << "nodes that stand for one machine";
}

TEST_F(Diagnose, EveryCheckFindsWhatIsPlanted) {
  for (const std::string check : {"network", "disk", "product", "memory"}) {
    const ProcessResult result = run({"diagnose", "--json", "--check", check, "--plant", check, "--folder",
                                      path("."), "--limit", "memory_bytes=5e7", "--limit", "disk_bytes=4e6"});
    EXPECT_EQ(result.status, 1) << check;
    const json report = json::parse(result.output);
    ASSERT_EQ(report["checks"].size(), 1u);
    EXPECT_EQ(report["checks"][0]["status"], "failed") << check;
    EXPECT_EQ(report["passed"], false);
  }
}

// What no machine sees of itself: another version, other bits of a training step, wrong bytes to its
// partners.
TEST_F(Diagnose, AmongFourTheOneThatDiffersIsNamed) {
  for (const auto& [check, plant] : std::map<std::string, std::string>{
           {"versions", "versions@3"}, {"alignment", "alignment@1"}, {"product", "pairs@2"}}) {
    const ProcessResult result =
        run({"diagnose", "--ranks", "4", "--json", "--check", check, "--plant", plant});
    EXPECT_EQ(result.status, 1) << plant << result.errors;
    const json report = json::parse(result.output);
    EXPECT_THAT(report["failed_nodes"].get<std::vector<std::string>>(),
                ElementsAre("node-" + plant.substr(plant.size() - 1)))
        << result.output;
  }
  const ProcessResult well = run({"diagnose", "--ranks", "3", "--check", "versions"});
  EXPECT_EQ(well.status, 0) << well.output << well.errors;
  EXPECT_THAT(well.output, HasSubstr("node-2"));
}

TEST_F(Diagnose, WhatCannotBeMeantIsRefused) {
  expect_error(run({"diagnose", "--limit", "disk_fre_bytes=3"}), 64, "disk_free_bytes");
  EXPECT_EQ(run({"diagnose", "--check", "everything"}).status, 64);
  EXPECT_EQ(run({"diagnose", "--ranks", "0"}).status, 64);
}

TEST_F(Diagnose, BlockedHostsAreShownAndLifted) {
  control::Blocklist list;
  list.block({.host = "n7", .reason = "Xid 79"});
  list.block({.host = "n8", .reason = "slow", .until_s = wall_time_s() + 1000});
  list.block({.host = "n9", .reason = "over", .until_s = 5});
  list.write(path("run") + "/control/blocked.json");
  EXPECT_EQ(run({"diagnose", "blocked", path("run"), "--names"}).output, "n7,n8\n");
  EXPECT_THAT(run({"diagnose", "blocked", path("run")}).output, HasSubstr("Xid 79"));
  EXPECT_EQ(run({"diagnose", "blocked", path("run"), "--lift", "n7", "--names"}).output, "n8\n");
  expect_error(run({"diagnose", "blocked", path("run"), "--lift", "n7"}), 64, "n8");
  EXPECT_EQ(run({"diagnose", "spares", "--machines", "1024"}).output, "4 spares for 1,024 machines\n");
}

}  // namespace
}  // namespace longhaul::cli
