// A run with its daemons and ranks as processes, which pretend to train (pretended_run/main.cpp): what the
// tests of the driver's service stand on.
#pragma once

#include "control/driver/driver_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "base/net/network.h"
#include "base/net/secret.h"
#include "base/process/children.h"
#include "base/version.h"
#include "control/driver/driver_client.h"
#include "control/node/node_daemon.h"

namespace longhaul::control {

namespace fs = std::filesystem;
using nlohmann::json;

class DriverServiceTest : public ::testing::Test {
 protected:
  DriverServiceTest() : run_(folder_ / "run") {
    fs::create_directories(run_);
    options_.plan = {.recipe = "recipe", .widths = {{.ranks = 2}}, .steps = 100};
    options_.plan.version = build_version().version;
    options_.command = {.words = {"train", "recipe"},
                        .options = {"--run", run_.string()},
                        .launched = "-n 2",
                        .folder = folder_.path().string(),
                        .run_folder = run_.string()};
    options_.run_folder = run_;
    options_.slots = 2;
    options_.program = (fs::canonical("/proc/self/exe").parent_path() / "pretended_run").string();
    options_.policy.back_off_s = 0.1;
  }
  ~DriverServiceTest() override {
    if (driver_ > 0) ::kill(driver_, SIGKILL);
    if (driver_ > 0) ::waitpid(driver_, nullptr, 0);
    for (const char* what : {"nodes", "ranks"}) {
      for (const json& one : status().value(what, json::array())) {
        const auto pid = one.value("pid", 0);
        std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
        const std::string words{std::istreambuf_iterator<char>(file), {}};
        if (pid > 1 && words.find("pretended_run") != std::string::npos) ::kill(pid, SIGKILL);
      }
    }
    std::error_code ignored;
    if (fs::exists(run_ / "control/secret"))
      fs::remove_all(
          node_folder(job_name(run_, read_secret(run_ / "control/secret")), "node-0").parent_path(), ignored);
  }

  void nodes(int64_t count, int64_t spares) {
    options_.plan.nodes = count;
    options_.plan.spares = spares;
    options_.local_nodes = count + spares;
    options_.slots = options_.plan.ranks() / count;
    options_.policy.restart_nodes = spares == 0;
  }
  void add(std::vector<std::string> words) {
    options_.command.words.insert(options_.command.words.end(), words.begin(), words.end());
  }
  void start() {
    driver_ = ::fork();
    if (driver_ != 0) return;
    int code = 99;
    try {
      code = static_cast<int>(DriverService(options_).run().code);
    } catch (const Error& error) {
      std::ofstream(run_ / "error") << error.what();
      code = static_cast<int>(error.code());
    }
    ::_exit(code);
  }
  int wait(double timeout_s = 40) {
    int status = 0;
    for (const Stopwatch watch; watch.seconds() < timeout_s; ::usleep(5000)) {
      if (::waitpid(driver_, &status, WNOHANG) != driver_) continue;
      driver_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return -1;
  }
  template <class Condition>
  bool until(const Condition& condition, double timeout_s = 20) {
    for (const Stopwatch watch; watch.seconds() < timeout_s && !condition();) ::usleep(5000);
    return condition();
  }
  json status() const {
    const fs::path file = run_ / "control/status.json";
    return fs::exists(file) ? json::parse(read_text(file)) : json::object();
  }
  json one(const std::string& list, const std::string& key, const json& value) const {
    for (const json& each : status().value(list, json::array())) {
      if (each.at(key) == value) return each;
    }
    return json::object();
  }
  json rank(int64_t number) const { return one("ranks", "rank", number); }
  json node(const std::string& name) const { return one("nodes", "node", name); }
  pid_t pid_of(int64_t number) const { return rank(number).value("pid", -1); }
  int64_t generation() const { return status().value("generation", int64_t{0}); }
  json incident() const {
    const json all = status().value("incidents", json::array());
    return all.empty() ? json::object() : all.back();
  }
  int64_t steps_done() const {
    int64_t step = 0, last = 0;
    double loss = 0;
    std::ifstream file(run_ / "losses");
    while (file >> step >> loss) last = step;
    return last;
  }
  std::map<int64_t, double> losses() const {
    std::map<int64_t, double> all;
    int64_t step = 0;
    double loss = 0;
    std::ifstream file(run_ / "losses");
    while (file >> step >> loss) all[step] = loss;
    return all;
  }
  // Process of rank 1 when the run is behind that many steps; -1: it did not come there.
  pid_t runs_at(int64_t step) {
    pid_t process = -1;
    return until([&] {
      return steps_done() >= step && rank(1).value("state", "") == "running" && (process = pid_of(1)) > 1;
    })
               ? process
               : -1;
  }
  bool rank_runs_at(int64_t step) { return steps_done() >= step && rank(1).value("state", "") == "running"; }
  // However quick the machine, the run stands behind step 12 until go(): there is time for what a test does
  // to it.
  pid_t start_and_hold() {
    add({"hold=12"});
    start();
    return runs_at(12);
  }
  void go() const { std::ofstream(run_ / "go"); }

  TemporaryFolder folder_;
  fs::path run_;
  DriverOptions options_;
  pid_t driver_ = -1;
};

}  // namespace longhaul::control
