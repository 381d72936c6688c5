// ctest: label=full timeout=180
// The live page: over real HTTP, and looked at in a headless Chromium at the widths of a desk and of a phone.
#include "observe/watch/live_site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "base/net/http.h"
#include "base/process/signals.h"
#include "base/threads/worker.h"
#include "supervised_run.h"
#include "support/browser.h"

namespace longhaul::observe {
namespace {

using test::SupervisedRun;
using test::SupervisedShape;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LivePage : public ::testing::Test {
 protected:
  explicit LivePage(const SupervisedShape& shape = {.stuck_rank = 2})
      : run_(folder_ / "big run", shape), site_({folder_ / "big run"}, false) {
    site_.poll(run_.now());
  }
  HttpReply get(const std::string& path, std::multimap<std::string, std::string> query = {},
                std::string accept = "") {
    return site_.answer({.path = path, .query = std::move(query), .accept = std::move(accept)});
  }
  std::string url(const HttpServer& server) const { return server.url() + "run/big%20run/"; }

  TemporaryFolder folder_;
  SupervisedRun run_;
  LiveSite site_;
};

TEST_F(LivePage, IsWholeWithoutItsScript) {
  EXPECT_EQ(get("/").status, 302) << "one run: its page";
  const HttpReply page = get("/run/big run/");
  EXPECT_EQ(page.status, 200);
  for (const char* part :
       {"step 394 of 2,000", "generation 2", "8 ranks on 4 nodes", "Who is slow", "rank 3 on node-1",
        "evicted node-9, restarted on spare node-1", "1210 ms", "to notice", "6 steps done again",
        "Effective time", "96.2 %", "id=\"loss\"", "stage 1", "pp 2 × dp 2 × tp 2", "no progress for 300 s",
        "hung twice within an hour", "Where ", "is by the driver's clock"})
    EXPECT_THAT(page.body, HasSubstr(part));
  EXPECT_THAT(page.body, Not(HasSubstr("http://"))) << "nothing comes from elsewhere";
  EXPECT_THAT(page.body, Not(HasSubstr("https://")));
}

TEST_F(LivePage, WhatOthersWroteIsTextAndNothingElse) {
  run_.append(
      "events/rank-1.jsonl",
      R"({"schema":1,"run":"r","generation":1,"rank":1,"wall_time":1.0,"monotonic_ns":1,"event":"alarm","kind":"<script>evil()</script>","message":"\u001b[2J<img src=x onerror=evil()>"})"
      "\n");
  RunStatus status = run_.status();
  status.ranks[0].node = "\"><script>evil()</script>";
  status.ranks[0].phase = "\" onmouseover=\"evil()";
  status.nodes[0].reason = "<script>evil()</script>";
  write_text_atomically(status_file(folder_ / "big run"), to_json(status));
  for (int i = 0; i < 6; ++i) site_.poll(run_.now());  // new files are looked for now and then
  const std::string body = get("/run/big run/").body + get("/run/big run/panels", {{"rank", "0"}}).body;
  EXPECT_THAT(body, HasSubstr("&lt;script&gt;evil()"));
  EXPECT_THAT(body,
              AllOf(Not(HasSubstr("<script>evil")), Not(HasSubstr("<script>alert")), Not(HasSubstr("<img")),
                    Not(HasSubstr("\x1b")), Not(HasSubstr("\" onmouseover")), Not(HasSubstr("<b>linear"))));
}

TEST_F(LivePage, OnlyWhatHasChangedIsSent) {
  const auto panels = [&](const std::string& have) {
    return nlohmann::json::parse(get("/run/big run/panels", {{"have", have}}).body).at("panels");
  };
  const auto all = panels("");
  std::string have;
  for (const auto& [id, panel] : all.items())
    have += (have.empty() ? "" : ",") + id + "." + panel.at("hash").get<std::string>();
  EXPECT_GE(all.size(), 10u);
  EXPECT_EQ(panels(have).size(), 0u);
  run_.advance();
  run_.write_status();
  site_.poll(run_.now());
  const auto changed = panels(have);
  EXPECT_TRUE(changed.contains("head") && changed.contains("loss") && changed.contains("mesh"));
  EXPECT_FALSE(changed.contains("incidents") || changed.contains("links"));
}

TEST_F(LivePage, ARankIsLookedAtClosely) {
  const auto panel = nlohmann::json::parse(get("/run/big run/panels", {{"rank", "5"}}).body)
                         .at("panels")
                         .at("rank")
                         .at("html")
                         .get<std::string>();
  EXPECT_THAT(panel, AllOf(HasSubstr("Rank 5"), HasSubstr("node-2"), HasSubstr("6005"),
                           HasSubstr("reduce_scatter"), HasSubstr("world/dp 1"), HasSubstr("class=\"over\""),
                           HasSubstr("generation 1\nstep 1 loss 7.2"), HasSubstr("\\x1b[31mred")));
  EXPECT_THAT(get("/run/big run/panels", {{"rank", "77"}}).body, HasSubstr("no such rank"));
  for (const char* nonsense : {"-3", "x", "99999999999999999999", "../../etc"})
    EXPECT_EQ(get("/run/big run/panels", {{"rank", nonsense}}).status, 200) << nonsense;
}

TEST_F(LivePage, OtherPathsAreNotThere) {
  for (const char* path : {"/run/other/", "/run/big run/../../../etc/passwd", "/run/big run/events.jsonl",
                           "/run/big run/trace.json", "/run/big run/report.html", "/favicon.ico"})
    EXPECT_EQ(get(path).status, 404) << path;
  EXPECT_EQ(get("/healthz").body, "ok\n");
  const auto summary = nlohmann::json::parse(get("/run/big run/summary.json").body);
  EXPECT_EQ(summary.at("state"), "TRAIN");
  EXPECT_EQ(summary.at("incidents").at(0).at("class"), "hang");
  EXPECT_EQ(summary.at("alerts").at(0).at("name"), "LonghaulNoProgress");
}

TEST(LiveSites, SeveralRunsAndPlainOnes) {
  const TemporaryFolder folder;
  const SupervisedRun first(folder / "one", {.traced_steps = 12});
  const SupervisedRun second(folder / "other" / "one", {.steps = 30, .incidents = false});
  std::filesystem::remove_all(folder / "other" / "one" / "control");
  std::filesystem::create_directories(folder / "empty");
  LiveSite site({folder / "one", folder / "other" / "one", folder / "empty"}, true);
  site.poll(first.now());
  const std::string list = site.answer({.path = "/"}).body;
  EXPECT_THAT(list, AllOf(HasSubstr("3 runs"), HasSubstr("href=\"/run/one/\""),
                          HasSubstr("href=\"/run/one~2/\""), HasSubstr(">waiting<") /* the empty one */));
  EXPECT_THAT(site.answer({.path = "/run/one~2/"}).body, HasSubstr("started without a driver"));
  EXPECT_THAT(site.answer({.path = "/run/empty/"}).body, HasSubstr("No step has been recorded yet"));
  EXPECT_EQ(site.answer({.path = "/run/one/trace.pftrace"}).body.front(), '\x0a') << "field 1: a packet";
  const auto trace = nlohmann::json::parse(site.answer({.path = "/run/one/trace.json"}).body);
  std::set<int64_t> steps;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") steps.insert(event.at("args").at("step").get<int64_t>());
  }
  EXPECT_EQ(steps, (std::set<int64_t>{8, 9, 10, 11, 12})) << "the last ones";
}

// Who may write to a run folder is not thereby given what the user of watch may read.
TEST_F(LivePage, FollowsNoLinkOfTheRunFolder) {
  const TemporaryFolder elsewhere;
  const auto run = folder_ / "big run";
  const std::string secret = "{\"event\":\"alarm\",\"kind\":\"topsecret\",\"message\":\"topsecret\"}\n";
  write_text_atomically(elsewhere / "secret.jsonl", secret);
  const auto led = [&](const std::string& name) {
    std::filesystem::remove_all(run / name);
    std::filesystem::create_symlink(elsewhere / "secret.jsonl", run / name);
  };
  led("report.html"), led("logs/rank-5.log"), led("events/rank-7.jsonl"), led("trace/rank-0.jsonl"),
      led("control/status.json");
  for (int i = 0; i < 6; ++i) site_.poll(run_.now());
  for (const char* path : {"report.html", "trace.json", "trace.pftrace"})
    EXPECT_EQ(get("/run/big run/" + std::string(path)).status, 404) << path;
  for (const std::string& body :
       {get("/run/big run/").body, get("/run/big run/panels", {{"rank", "5"}}).body, get("/metrics").body})
    EXPECT_THAT(body, Not(HasSubstr("topsecret")));
  led("events.jsonl");
  site_.poll(run_.now());
  EXPECT_THAT(get("/metrics").body,
              AllOf(Not(HasSubstr("topsecret")), HasSubstr("longhaul_step{job=\"big run\"} 394")));
}

// Prometheus takes two samples of the same labels for one.
TEST(LiveSites, RunsOfOneNameAreTwoJobs) {
  const TemporaryFolder folder;
  const SupervisedRun first(folder / "one", {.steps = 12, .incidents = false}),
      second(folder / "b" / "one", {.steps = 31, .incidents = false});
  LiveSite site({folder / "one", folder / "b" / "one"}, false);
  site.poll(first.now());
  const std::string metrics = site.answer({.path = "/metrics"}).body;
  EXPECT_THAT(metrics, AllOf(HasSubstr("longhaul_step{job=\"one\"} 12\n"),
                             HasSubstr("longhaul_step{job=\"one~2\"} 31\n")));
  std::set<std::string> samples;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    EXPECT_TRUE(samples.insert(line.substr(0, line.rfind(' '))).second) << line;
  }
  EXPECT_THAT(alert_json(site.run(1), {.name = "LonghaulRunFailed"}), HasSubstr("\"job\":\"one~2\""));
}

// A step that was done again is drawn as it was at last.
TEST(LiveSites, TracesAreOfTheLastTime) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder / "run",
                          {.stages = 1, .replicas = 1, .tensor = 1, .nodes = 1, .traced_steps = 3});
  TraceWriter writer(folder / "run", {.rank = 0, .generation = 3});
  writer.write({.step = 3,
                .begin_ns = 50'000'000'000,
                .end_ns = 50'500'000'000,
                .spans = {{.kind = SpanKind::kForward,
                           .begin_ns = 50'000'000'000,
                           .end_ns = 50'400'000'000,
                           .chunk = 0,
                           .micro_batch = 0}}});
  LiveSite site({folder / "run"}, false);
  site.poll(run.now());
  const auto trace = nlohmann::json::parse(site.answer({.path = "/run/run/trace.json"}).body);
  int64_t forward = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X" && event.at("args").value("step", int64_t{0}) == 3 &&
        event.at("dur").get<double>() == 400'000)
      ++forward;
  }
  EXPECT_EQ(forward, 1);
}

// Traces are read and written outside the lock that poll() needs, from the ends of the files, and one at a
// time.
TEST(LiveSites, ATraceThatIsMadeHoldsUpNoPoll) {
  const TemporaryFolder folder;
  const SupervisedRun run(folder / "run", {.traced_steps = 12});
  LiveSite site({folder / "run"}, false);
  site.poll(run.now());
  // no line of ours
  write_text_atomically(folder / "run" / "trace" / "rank-0.jsonl", std::string(6 << 20, 'x') + "\n");
  std::vector<std::unique_ptr<Worker>> askers;
  for (int i = 0; i < 3; ++i) {
    askers.push_back(std::make_unique<Worker>("asker"));
    askers.back()->post([&] {
      for (int again = 0; again < 5; ++again) {
        const HttpReply reply = site.answer({.path = "/run/run/trace.json"});
        EXPECT_TRUE(reply.status == 200 || reply.status == 503) << reply.status;
      }
    });
  }
  for (int i = 0; i < 20; ++i) site.poll(run.now());
  for (auto& asker : askers) asker->wait();
  EXPECT_EQ(site.answer({.path = "/run/run/trace.json"}).status, 200)
      << "of the ranks whose files can be read";
}

// Renders the page in Chromium, with its script running for some seconds.
class LivePageInABrowser : public LivePage {
 protected:
  void SetUp() override {
    if (!longhaul::testing::Browser::installed()) GTEST_SKIP() << longhaul::testing::Browser::kMissing;
  }
  ProcessResult browse(const std::string& address, int width, const std::string& words) const {
    return browser_.open(address, width, 2600, 6000, words);
  }

 private:
  longhaul::testing::Browser browser_;
};

TEST_F(LivePageInABrowser, TheScriptKeepsItUpToDateAndNothingIsWiderThanTheScreen) {
  const HttpServer server({}, [this](const HttpRequest& request) { return site_.answer(request); });
  run_.advance();
  run_.write_status();
  // What the page shows when it comes is old; its script asks for what has changed. The alert of the stuck
  // rank and rank 5's panel come with that.
  const ProcessResult dom = browse(url(server) + "#rank-5", 500, "--dump-dom");
  ASSERT_EQ(dom.status, 0) << dom.errors;
  EXPECT_THAT(dom.output,
              AllOf(HasSubstr("LonghaulNoProgress"), HasSubstr("<h2>Rank 5</h2>"),
                    HasSubstr("TRAIN · big run · step 394"), Not(HasSubstr("class=\"live offline\""))));
  EXPECT_THAT(dom.errors, Not(HasSubstr("Refused to"))) << "the page keeps its own content policy";
}

// LONGHAUL_PICTURES=FOLDER: pictures to look at, of the page at both widths.
TEST_F(LivePageInABrowser, PicturesHaveTheirSize) {
  const HttpServer server({}, [this](const HttpRequest& request) { return site_.answer(request); });
  const char* const wanted = std::getenv("LONGHAUL_PICTURES");
  const std::filesystem::path pictures = wanted != nullptr ? std::filesystem::path(wanted) : folder_.path();
  for (const int width : {1400, 500}) {
    const auto picture = pictures / ("live-" + std::to_string(width) + ".png");
    const ProcessResult shot = browse(url(server), width, "--screenshot=" + picture.string());
    ASSERT_EQ(shot.status, 0) << shot.errors;
    const std::string png = read_text(picture);
    ASSERT_GT(png.size(), 30'000u) << "not an empty page";
    const auto at = [&](size_t i) { return static_cast<unsigned char>(png[i]); };
    EXPECT_EQ(at(18) * 256 + at(19), width);
  }
}

// LONGHAUL_WRITE_RUN=FOLDER [LONGHAUL_WRITE_SECONDS=N]: makes such a run there, and goes on with it for so
// long, to look at by hand.
TEST(MakeARun, ToLookAt) {
  const char* const folder = std::getenv("LONGHAUL_WRITE_RUN");
  if (folder == nullptr) GTEST_SKIP() << "LONGHAUL_WRITE_RUN names no folder";
  SupervisedRun run(folder, {.traced_steps = 12, .begin = wall_time_s() - 360});
  const char* const seconds = std::getenv("LONGHAUL_WRITE_SECONDS");
  const Stopwatch watch;
  while (seconds != nullptr && watch.seconds() < std::atof(seconds)) {
    pause_unless_stopped(0.8);
    run.advance();
    run.write_status();
  }
}

}  // namespace
}  // namespace longhaul::observe
