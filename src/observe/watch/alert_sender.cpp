#include "observe/watch/alert_sender.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/process/process.h"
#include "base/process/signals.h"
#include "base/text/text.h"

namespace longhaul::observe {
namespace {

constexpr size_t kMostWaiting = 100;
constexpr int kTries = 3;
constexpr double kSlice_s = 0.1;  // how soon the end of the command is noticed

}  // namespace

AlertSender::AlertSender(AlertTargets targets)
    : targets_(std::move(targets)), worker_(std::make_unique<Worker>("alerts")) {
  if (!targets_.webhook.empty()) webhook_ = http_address(targets_.webhook);
}

AlertSender::~AlertSender() {
  ending_ = true;
  worker_.reset();
}

void AlertSender::note_failure(std::string why) {
  ++failed_;
  log_warning("an alert could not be sent: {}", why);
  const std::lock_guard hold(mutex_);
  last_failure_ = std::move(why);
}

std::string AlertSender::last_failure() const {
  const std::lock_guard hold(mutex_);
  return last_failure_;
}

void AlertSender::send(const RunView& run, const Alert& alert) {
  if (!webhook_ && targets_.command.empty()) return;
  bool dropped = false;
  {
    const std::lock_guard hold(mutex_);
    waiting_.push_back({alert_json(run, alert), run.job, alert});
    dropped = waiting_.size() > kMostWaiting;
    if (dropped) waiting_.pop_front();
  }
  if (dropped) note_failure("too many wait, the oldest was dropped");
  worker_->post([this] { deliver(); });
}

void AlertSender::deliver() {
  Message message;
  {
    const std::lock_guard hold(mutex_);
    if (ending_ || waiting_.empty()) return;
    message = std::move(waiting_.front());
    waiting_.pop_front();
  }
  if (webhook_) post(message);
  if (!targets_.command.empty() && !ending_) run_command(message);
}

void AlertSender::post(const Message& message) {
  std::string why;
  for (int attempt = 0; attempt < kTries && !ending_; ++attempt) {
    const Stopwatch waited;
    while (attempt > 0 && !ending_ && waited.seconds() < targets_.pause_s * attempt)
      pause_unless_stopped(kSlice_s);
    if (ending_) return;
    try {
      const HttpAnswer answer =
          http_post(*webhook_, message.json, "application/json", targets_.webhook_timeout_s);
      if (answer.status >= 200 && answer.status < 300) {
        ++sent_;
        return;
      }
      why = fmt::format("the webhook answered {}", answer.status);
      // It will not accept it the next time either.
      if (answer.status >= 400 && answer.status < 500 && answer.status != 429) break;
    } catch (const Error& error) {
      why = error.fields().what + ": " + error.fields().found;
    }
  }
  if (!why.empty()) note_failure(why);
}

void AlertSender::run_command(const Message& message) {
  const std::vector<std::string> environment = {
      "LONGHAUL_ALERT=" + message.alert.name,
      std::string("LONGHAUL_ALERT_STATUS=") + (message.alert.firing ? "firing" : "resolved"),
      "LONGHAUL_ALERT_SEVERITY=" + message.alert.severity,
      "LONGHAUL_ALERT_SUMMARY=" + printable(message.alert.summary),
      "LONGHAUL_ALERT_RUN=" + message.run,
      "LONGHAUL_ALERT_JSON=" + message.json};
  try {
    const ProcessResult result =
        run_process({"sh", "-c", targets_.command}, environment, targets_.command_timeout_s);
    if (result.timed_out)
      note_failure(
          fmt::format("the command ran past {} and was ended", duration_text(targets_.command_timeout_s)));
    else if (result.status != 0)
      note_failure(
          fmt::format("the command ended with {}: {}", result.status, printable(brief(result.errors, 200))));
    else
      ++sent_;
  } catch (const Error& error) {
    note_failure(error.fields().what + ": " + error.fields().found);
  }
}

}  // namespace longhaul::observe
