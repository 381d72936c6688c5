// A node daemon as a process of its own, with the test as its driver and shell scripts as ranks.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "base/net/secret.h"
#include "control/node/node_daemon.h"

namespace longhaul::control {

namespace fs = std::filesystem;

class NodeDaemonTest : public ::testing::Test {
 protected:
  NodeDaemonTest()
      : run_(fmt::format("test-{}-{}", ::getpid(), ++count_)), keys_(driver_keys(folder_.path())) {
    fs::create_directories(folder_ / "control");
    listen();
  }
  ~NodeDaemonTest() override {
    if (daemon_ > 0) {
      ::kill(daemon_, SIGKILL);
      ::waitpid(daemon_, nullptr, 0);
    }
    std::error_code ignored;
    fs::remove_all(node_folder(run_, "node-0").parent_path(), ignored);
  }

  void listen() {
    listening_ = Socket::listen({"127.0.0.1", 0});
    write_text_atomically(folder_ / "control/address", fmt::format("127.0.0.1:{}\n", listening_.port()));
    loop_.watch(listening_.descriptor(), {.reads = true}, [this](Ready) {
      while (auto socket = listening_.accept()) {
        channel_ = Channel::make(
            loop_, std::move(*socket), Handshake(keys_, own_identity("driver", "", run_, generation_), true),
            {.message = [this](std::string_view text) { take(node_message(text, "node")); },
             .closed = [this](const Channel::Closing& closing) { closings_.push_back(closing); }});
      }
    });
  }
  void go_away() {
    channel_->close();
    loop_.forget(listening_.descriptor());
    listening_.close();
  }
  void take(NodeMessage message) {
    if (const auto* hello = std::get_if<NodeHello>(&message)) {
      hellos_.push_back(*hello);
      send(Welcome{.run = run_,
                   .generation = static_cast<int64_t>(generation_),
                   .beat_every_s = 0.1,
                   .lease_s = lease_s_,
                   .command = command_});
    }
    if (const auto* renewed = std::get_if<KeysRenewed>(&message))
      channel_->renew_receiving(std::to_string(renewed->generation));
    if (const auto* beat = std::get_if<NodeBeat>(&message)) beats_.push_back(*beat);
    if (const auto* exited = std::get_if<RankExited>(&message)) exits_.push_back(*exited);
    if (const auto* health = std::get_if<HealthReport>(&message)) healths_.push_back(*health);
    if (const auto* checks = std::get_if<CheckResults>(&message)) checks_.push_back(*checks);
    if (const auto* evidence = std::get_if<Evidence>(&message)) evidence_.push_back(*evidence);
  }
  void send(const DriverMessage& message) { channel_->send(to_text(message)); }

  // `script`: what each rank does.
  void start_daemon(
      const std::string& script, const std::function<void(NodeOptions&)>& change = [](NodeOptions&) {}) {
    std::ofstream(folder_ / "rank.sh") << "#!/bin/sh\n" << script << "\n";
    fs::permissions(folder_ / "rank.sh", fs::perms::owner_all);
    command_ = {.words = {"train", "recipe"},
                .options = {"--run", "here"},
                .environment = {"PASSED=by name"},
                .launched = "-n 4",
                .folder = folder_.path().string(),
                .run_folder = (folder_ / "run").string()};
    NodeOptions options{.driver = (folder_ / "control/address").string(),
                        .secret = folder_ / "secret",
                        .name = "node-0",
                        .slots = 4,
                        .program = (folder_ / "rank.sh").string()};
    change(options);
    daemon_ = ::fork();
    if (daemon_ != 0) return;
    int code = 99;
    try {
      code = static_cast<int>(NodeDaemon(options).run());
    } catch (const Error& error) {
      code = static_cast<int>(error.code());
    }
    ::_exit(code);
  }
  void start_ranks(int64_t generation, std::vector<int64_t> ranks) {
    ASSERT_TRUE(until([&] { return !hellos_.empty(); }));
    generation_ = static_cast<uint64_t>(generation);
    send(StartRanks{.generation = generation,
                    .world = 4,
                    .ranks = std::move(ranks),
                    .node_rank = 1,
                    .nodes = 2,
                    .master_address = "127.0.0.1",
                    .master_port = 4711,
                    .overrides = {"parallel.tp=1"}});
  }
  pid_t running(int64_t generation) {  // process of the first rank that runs
    const bool there = until([&] {
      return !beats_.empty() && beats_.back().generation == generation && !beats_.back().running.empty();
    });
    return there ? static_cast<pid_t>(beats_.back().running.front().pid) : -1;
  }
  int wait_for_daemon(double timeout_s = 10) {
    int status = 0;
    for (const Stopwatch watch; watch.seconds() < timeout_s;) {
      loop_.run_for(0.01);
      if (::waitpid(daemon_, &status, WNOHANG) != daemon_) continue;
      daemon_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return -1;
  }
  template <class Condition>
  bool until(const Condition& condition, double timeout_s = 15) {
    for (const Stopwatch watch; watch.seconds() < timeout_s && !condition();) loop_.run_for(0.005);
    return condition();
  }

  static inline int count_ = 0;
  TemporaryFolder folder_;
  std::string run_;
  Keys keys_;
  uint64_t generation_ = 0;
  double lease_s_ = 60;
  EventLoop loop_;
  Socket listening_;
  std::shared_ptr<Channel> channel_;
  RunCommand command_;
  pid_t daemon_ = -1;
  std::vector<NodeHello> hellos_;
  std::vector<NodeBeat> beats_;
  std::vector<RankExited> exits_;
  std::vector<HealthReport> healths_;
  std::vector<CheckResults> checks_;
  std::vector<Evidence> evidence_;
  std::vector<Channel::Closing> closings_;
};

}  // namespace longhaul::control
