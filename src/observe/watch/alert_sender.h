// AlertSender: tells the outside of alerts, by HTTP POST to a webhook and by a command. A Worker of its own does it, so that a webhook that hangs or a command that
// never ends holds up nothing: each try has 10 (30) seconds, a webhook three tries, and of alerts that wait more than 100 the oldest are dropped and
// counted. The command is run as `sh -c COMMAND`; what the alert is comes in its environment (LONGHAUL_ALERT, LONGHAUL_ALERT_STATUS firing or resolved,
// LONGHAUL_ALERT_SEVERITY, LONGHAUL_ALERT_SUMMARY, LONGHAUL_ALERT_RUN, LONGHAUL_ALERT_JSON), never in its text.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/net/http.h"
#include "base/threads/worker.h"
#include "observe/watch/alerts.h"

namespace longhaul::observe {

struct AlertTargets {
  std::string webhook;                                                 // http://… or https://…; empty: none
  std::string command;                                                 // empty: none
  double webhook_timeout_s = 10, command_timeout_s = 30, pause_s = 2;  // pause: before the second try; twice that before the third
};

class AlertSender {
 public:
  explicit AlertSender(AlertTargets targets);  // kUsage where the webhook is no address
  ~AlertSender();                              // gives up what waits
  void send(const RunView& run, const Alert& alert);
  int64_t sent() const { return sent_; }
  int64_t failed() const { return failed_; }  // by webhook or command, those dropped included
  std::string last_failure() const;
  void wait() { worker_->wait(); }

 private:
  struct Message {
    std::string json;
    std::string run;
    Alert alert;
  };
  void deliver();
  void post(const Message& message);
  void run_command(const Message& message);
  void note_failure(std::string why);

  AlertTargets targets_;
  std::optional<HttpAddress> webhook_;
  mutable std::mutex mutex_;
  std::deque<Message> waiting_;
  std::string last_failure_;
  std::atomic<int64_t> sent_ = 0, failed_ = 0;
  std::atomic<bool> ending_ = false;
  std::unique_ptr<Worker> worker_;  // last: ends before what it uses
};

}  // namespace longhaul::observe
