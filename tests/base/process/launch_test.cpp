// Several processes as one job: what they end with, who failed by himself, and that nobody is left behind.
#include "base/process/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "base/clock.h"
#include "base/files/file.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;

LaunchedProcess shell(const std::string& script) { return {.argv = {"sh", "-c", script}}; }

TEST(Launch, GivesEachItsEnvironmentAndLog) {
  const auto log = std::filesystem::path(::testing::TempDir()) / fmt::format("launch-{}.log", ::getpid());
  const LaunchResult result = launch(
      {{.argv = {"sh", "-c", "echo rank $RANK; echo said >&2"}, .environment = {"RANK=7"}, .log = log}}, 69);
  EXPECT_THAT(result.statuses, ElementsAre(0));
  EXPECT_FALSE(result.first);
  EXPECT_EQ(read_text(log), "rank 7\nsaid\n");
  std::filesystem::remove(log);
}

TEST(Launch, NamesTheFirstThatFailedByItself) {
  const LaunchResult result =
      launch({shell("sleep 0.2; exit 69"), shell("exit 69"), shell("sleep 0.6; exit 65")}, 69);
  EXPECT_THAT(result.statuses, ElementsAre(69, 69, 65));
  EXPECT_EQ(result.first, 2u);
  EXPECT_EQ(launch({shell("sleep 0.3; exit 3"), shell("kill -9 $$")}, 69).first, 1u);
}

TEST(Launch, EndsTheOthersWhenOneFails) {
  const Stopwatch watch;
  const LaunchResult result =
      launch({shell("exec sleep 60"), shell("exit 66"), shell("trap '' TERM; while :; do sleep 0.1; done")},
             69, {.others_s = 0.2, .stop_s = 0.5});
  EXPECT_THAT(result.statuses, ElementsAre(128 + SIGTERM, 66, 128 + SIGKILL));
  EXPECT_EQ(result.first, 1u);
  EXPECT_LT(watch.seconds(), 20);
}

TEST(Launch, PassesARequestToStopOnOnce) {
  const auto log =
      std::filesystem::path(::testing::TempDir()) / fmt::format("launch-stop-{}.log", ::getpid());
  // The shell asks this process, its parent, to stop; the other counts what reaches it.
  const LaunchResult result = launch(
      {shell("trap 'exit 74' INT; sleep 0.5; kill -INT $PPID; while :; do sleep 0.05; done"),
       {.argv = {"sh", "-c",
                 "trap 'echo heard' INT; i=0; while [ $i -lt 30 ]; do sleep 0.05; i=$((i+1)); done; exit 74"},
        .log = log}},
      69, {.others_s = 0.1, .stop_s = 0.1});
  EXPECT_THAT(result.statuses, ElementsAre(74, 74));
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(read_text(log), "heard\n");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace longhaul
