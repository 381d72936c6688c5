// ctest: label=multi timeout=200
// `longhaul watch` on a plain run as a user makes it: once, as JSON, served; and what is refused.
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/net/http.h"
#include "base/net/network.h"
#include "base/process/signals.h"
#include "cli/started_program.h"

namespace longhaul::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WatchCommand : public StartedProgram {
 protected:
  WatchCommand() {
    std::filesystem::create_directories(path("runs/one"));
    events("runs/one", "2.25");
  }
};

TEST_F(WatchCommand, ShowsHowARunStands) {
  const ProcessResult once = run({"watch", "--once", path("runs/one")});
  ASSERT_EQ(once.status, 0) << once.errors;
  EXPECT_THAT(once.output, AllOf(HasSubstr("one  silent  step 2"), HasSubstr("loss 2.2500"),
                                 HasSubstr("hangs, or was killed")));
  const ProcessResult told = run({"watch", "--json", path("runs/one")});
  ASSERT_EQ(told.status, 0) << told.errors;
  const auto summary = nlohmann::json::parse(told.output);
  EXPECT_EQ(summary.at("step"), 2);
  EXPECT_EQ(summary.at("loss"), 2.25);
  EXPECT_EQ(summary.at("good"), false);
}

TEST_F(WatchCommand, SaysWhatIsWrong) {
  expect_error(run({"watch", path("none")}), 65, "no such folder");
  expect_error(run({"watch"}), 64, "RUN");
  expect_error(run({"watch", path("runs/one"), "--serve", "many"}), 64, "HOST:PORT");
  expect_error(run({"watch", path("runs/one"), "--once", "--webhook", "hooks.example"}), 64,
               "http://HOST:PORT");
  write("token", "0123456789abcdef\n");
  expect_error(run({"watch", path("runs/one"), "--serve", "0", "--token-file", path("token")}), 64,
               "its owner alone");
  write("webhook", "hooks.example/T0/tell-nobody\n");
  expect_error(run({"watch", path("runs/one"), "--once", "--webhook-file", path("webhook")}), 64,
               "its owner alone");
  std::filesystem::permissions(path("webhook"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const ProcessResult wrong = run({"watch", path("runs/one"), "--once", "--webhook-file", path("webhook")});
  expect_error(wrong, 64, "http://HOST:PORT");
  EXPECT_EQ(wrong.errors.find("tell-nobody"), std::string::npos) << wrong.errors;
  const Listener taken = listen_on(0);
  expect_error(run({"watch", path("runs/one"), "--serve", "127.0.0.1:" + std::to_string(taken.port)}), 69,
               "it is in use");
}

TEST_F(WatchCommand, ServesUntilItIsEnded) {
  write("token", "0123456789abcdef\n");
  std::filesystem::permissions(path("token"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto started =
      run_process({"sh", "-c",
                   program_file() + " watch --serve 0 --every 0.1 --token-file " + path("token") +
                       " --alert-command 'echo $LONGHAUL_ALERT >> " + path("told") + "' " + path("runs/one") +
                       " > " + path("out") + " 2>&1 & echo $!"});
  const std::string pid = started.output.substr(0, started.output.find('\n'));
  const Stopwatch watch;
  std::string said;
  while (said.find(" ") == std::string::npos && watch.seconds() < 60) {
    pause_unless_stopped(0.05);
    said = std::filesystem::exists(path("out")) ? read_text(path("out")) : "";
  }
  const std::string url = said.substr(0, said.find(' '));
  const HttpAddress address = http_address(url);
  EXPECT_EQ(http_get(address, "/metrics", 10).status, 401);
  const ProcessResult page =
      run_process({"bash", "-c",
                   "exec 3<>/dev/tcp/127.0.0.1/" + std::to_string(address.port) +
                       "; printf 'GET /run/one/ HTTP/1.0\\r\\nHost: localhost\\r\\nAuthorization: Bearer "
                       "0123456789abcdef\\r\\n\\r\\n' >&3; cat <&3"});
  EXPECT_THAT(page.output,
              AllOf(HasSubstr(" 200 OK"), HasSubstr("script-src 'self'"), HasSubstr("<h1>one</h1>")));
  while (!std::filesystem::exists(path("told")) && watch.seconds() < 60) pause_unless_stopped(0.05);
  EXPECT_THAT(read_text(path("told")), HasSubstr("LonghaulNoProgress"));
  run_process({"kill", "-INT", pid});
  ProcessResult alive;
  do {
    pause_unless_stopped(0.05);
    alive = run_process({"kill", "-0", pid});
  } while (alive.status == 0 && watch.seconds() < 60);
  EXPECT_NE(alive.status, 0) << "Ctrl-C ends it";
}

}  // namespace
}  // namespace longhaul::cli
