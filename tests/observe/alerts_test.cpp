// When alerts begin and end, and that telling of them never holds anything up.
#include "observe/watch/alerts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "base/net/http_server.h"
#include "base/net/network.h"
#include "observe/watch/alert_sender.h"
#include "supervised_run.h"
#include "support/places.h"
#include "support/text.h"

namespace longhaul::observe {
namespace {

using test::SupervisedRun;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> names_of(const std::vector<Alert>& alerts) {
  std::vector<std::string> names;
  for (const Alert& alert : alerts) {
    // that is this machine's own
    if (alert.name != "LonghaulDiskLow") names.push_back((alert.firing ? "" : "ended ") + alert.name);
  }
  return names;
}

TEST(Alerts, BeginAndEndOnce) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.incidents = false});
  LiveRun live(folder.path());
  AlertBook book;
  const auto look = [&](double later) {
    live.poll(run.now() + later);
    return names_of(book.look_at(live.view()));
  };
  const auto stuck = [&](int64_t rank) {
    run.shape().stuck_rank = rank;
    run.write_status();
  };
  EXPECT_THAT(look(1), IsEmpty());
  stuck(2);
  EXPECT_THAT(look(2), ElementsAre("LonghaulNoProgress"));
  EXPECT_THAT(look(3), IsEmpty()) << "told once";
  EXPECT_THAT(book.firing()[0].summary, HasSubstr("rank 2 has made no progress for 5 min"));
  stuck(-1);
  EXPECT_THAT(look(4), ElementsAre("ended LonghaulNoProgress"));
  EXPECT_THAT(book.firing(), IsEmpty());
  EXPECT_THAT(look(20), IsEmpty()) << "the driver is silent, but not for 15 seconds longer than it may";
  EXPECT_THAT(look(40), ElementsAre("LonghaulDriverSilent"));
}

TEST(Alerts, AnIncidentIsToldOnceAndOldOnesAreHistory) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder.path(), {});
  LiveRun live(folder.path());
  AlertBook book;
  live.poll(run.now());
  EXPECT_THAT(names_of(book.look_at(live.view())), Not(Contains("LonghaulIncident")))
      << "it was before anybody watched";
  run.append("events/driver-0.jsonl",
             R"({"event":"incident","wall_time":)" + std::to_string(run.now() + 1) +
                 R"(,"class":"device","rank":7,"node":"node-3","action":"evicted node-3"})"
                 "\n");
  live.poll(run.now() + 2);
  const auto news = book.look_at(live.view());
  ASSERT_THAT(names_of(news), ElementsAre("LonghaulIncident"));
  EXPECT_EQ(news[0].summary, "device, rank 7 on node-3: evicted node-3");
  EXPECT_THAT(book.look_at(live.view()), IsEmpty());
}

TEST(Alerts, OfRunsWithoutADriver) {
  const TemporaryFolder folder;
  SupervisedRun run(folder.path(), {.incidents = false});
  std::filesystem::remove_all(folder / "control");
  LiveRun live(folder.path());
  AlertBook book;
  live.poll(run.now());
  EXPECT_THAT(names_of(book.look_at(live.view())), IsEmpty());
  live.poll(run.now() + 600);
  EXPECT_THAT(names_of(book.look_at(live.view())),
              ElementsAre("LonghaulNoProgress", "LonghaulCheckpointOld"));
  run.add(NonFinite{.step = 401, .layer = "layers.3", .tensor = "output", .phase = "forward"});
  run.add(End{.reason = "error", .step = 401});
  live.poll(run.now() + 601);
  EXPECT_THAT(names_of(book.look_at(live.view())),
              ElementsAre("LonghaulRunFailed", "ended LonghaulNoProgress", "ended LonghaulCheckpointOld"))
      << "NaNs of ten minutes ago are no news";
}

// The rules of deploy/ and those here have the same names, and the guide tells what to do about each.
TEST(Alerts, AreTheSameEverywhere) {
  const std::string rules = read_text(source_folder() + "/deploy/prometheus/longhaul-alerts.yml"),
                    guide = read_text(source_folder() + "/docs/guides/watch.md");
  EXPECT_EQ(testing::count_of(rules, "- alert:"), alert_rules().size());
  for (const AlertRule& rule : alert_rules()) {
    EXPECT_THAT(rules, HasSubstr("alert: " + std::string(rule.name) + "\n"));
    EXPECT_THAT(guide, HasSubstr("`" + std::string(rule.name) + "`"));
  }
}

const Alert kAlert{.name = "LonghaulNoProgress",
                   .severity = "critical",
                   .summary = "rank 2 \"stands\" $(touch evil); \x1b[2J",
                   .since = 1'790'000'000};

TEST(AlertSender, PostsWhatAlertmanagerWould) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder / "big", {.steps = 3, .incidents = false});
  LiveRun live(folder / "big");
  live.poll(run.now());
  const nlohmann::json body = nlohmann::json::parse(alert_json(live.view(), kAlert));
  EXPECT_EQ(body.at("version"), "4");
  EXPECT_EQ(body.at("alerts").at(0).at("labels").at("alertname"), "LonghaulNoProgress");
  EXPECT_EQ(body.at("alerts").at(0).at("status"), "firing");
  EXPECT_EQ(body.at("alerts").at(0).at("startsAt"), wall_time_text(1'790'000'000));
  EXPECT_THAT(body.at("text").get<std::string>(), HasSubstr("big: LonghaulNoProgress fires: rank 2"));
}

TEST(AlertSender, TheCommandGetsItsAlertAsVariables) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder / "big", {.steps = 3, .incidents = false});
  LiveRun live(folder / "big");
  live.poll(run.now());
  AlertSender sender({.command = "cd " + folder.path().string() +
                                 " && printf '%s|%s|%s|%s' \"$LONGHAUL_ALERT\" \"$LONGHAUL_ALERT_STATUS\" "
                                 "\"$LONGHAUL_ALERT_RUN\" \"$LONGHAUL_ALERT_SUMMARY\" > told"});
  sender.send(live.view(), kAlert);
  sender.wait();
  EXPECT_EQ(read_text(folder / "told"),
            "LonghaulNoProgress|firing|big|rank 2 \"stands\" $(touch evil); \\x1b[2J");
  EXPECT_EQ(sender.sent(), 1);
  EXPECT_EQ(sender.failed(), 0);
}

TEST(AlertSender, WhatHangsHoldsNothingUp) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder / "big", {.steps = 3, .incidents = false});
  LiveRun live(folder / "big");
  live.poll(run.now());
  const Listener silent = listen_on(0);  // takes connections and never answers
  const Stopwatch watch;
  {
    AlertSender sender({.webhook = "http://127.0.0.1:" + std::to_string(silent.port),
                        .command = "sleep 60",
                        .webhook_timeout_s = 0.3,
                        .command_timeout_s = 0.3,
                        .pause_s = 0.05});
    for (int i = 0; i < 150; ++i) sender.send(live.view(), kAlert);
    EXPECT_LT(watch.seconds(), 2) << "send() does not wait";
    while (sender.failed() < 50 && watch.seconds() < 30) {
    }
    EXPECT_GE(sender.failed(), 50) << "of those that wait the oldest are dropped, and that is counted";
    EXPECT_FALSE(sender.last_failure().empty());
  }
  EXPECT_LT(watch.seconds(), 10) << "nor does the end wait for those that were not sent";
}

TEST(AlertSender, TriesAWebhookAgain) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder / "big", {.steps = 3, .incidents = false});
  LiveRun live(folder / "big");
  live.poll(run.now());
  // HttpServer only reads, so it refuses the POST for good: 405, once.
  const HttpServer refuses({}, [](const HttpRequest&) { return HttpReply{}; });
  AlertSender sender({.webhook = refuses.url(), .pause_s = 0.05});
  sender.send(live.view(), kAlert);
  sender.wait();
  EXPECT_EQ(sender.failed(), 1);
  EXPECT_THAT(sender.last_failure(), HasSubstr("405"));
  EXPECT_THROW(AlertSender({.webhook = "not an address"}), Error);
}

}  // namespace
}  // namespace longhaul::observe
