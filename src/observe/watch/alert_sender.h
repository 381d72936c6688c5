// AlertSender reports alerts by HTTP POST to a webhook and by a command. A Worker of its own sends them, so
// that a webhook that hangs or a command that never ends delays nothing. Each attempt has 10 seconds (a
// command 30), and a webhook has three attempts. If more than 100 alerts wait, the oldest are dropped and
// counted. The command is run as `sh -c COMMAND`; the alert is given in its environment (LONGHAUL_ALERT,
// LONGHAUL_ALERT_STATUS firing or resolved, LONGHAUL_ALERT_SEVERITY, LONGHAUL_ALERT_SUMMARY,
// LONGHAUL_ALERT_RUN, LONGHAUL_ALERT_JSON), never in its text.
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
  std::string webhook;  // http://… or https://…; empty: none
  std::string command;  // empty: none
  // pause_s: before the second attempt; twice that before the third.
  double webhook_timeout_s = 10, command_timeout_s = 30, pause_s = 2;
};

class AlertSender {
 public:
  explicit AlertSender(AlertTargets targets);  // kUsage where the webhook is no address
  ~AlertSender();                              // drops alerts that still wait
  void send(const RunView& run, const Alert& alert);
  int64_t sent() const { return sent_; }
  int64_t failed() const { return failed_; }  // of webhook or command, including dropped ones
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
  std::unique_ptr<Worker> worker_;  // last: it ends before the members that it uses
};

}  // namespace longhaul::observe
