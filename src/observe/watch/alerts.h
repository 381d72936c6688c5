// Alerts of a run: conditions that somebody should be told of, looked at whenever a run was read. One table of rules; deploy/prometheus/longhaul-alerts.yml has
// the same under the same names for those who have a Prometheus. An alert is told when it begins and when it ends, and an incident once.
//
//   AlertBook book;
//   for (const Alert& news : book.look_at(run.view())) sender.send(run.view(), news);
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "observe/watch/live_run.h"

namespace longhaul::observe {

struct Alert {
  std::string name;      // LonghaulNoProgress
  std::string severity;  // critical, warning
  std::string summary;
  double since = 0;  // wall time
  bool firing = true;
  double until = 0;  // where it has ended
};

struct AlertRule {
  std::string_view name, severity, meaning;
  double for_s;  // the condition must hold that long
};
std::span<const AlertRule> alert_rules();

class AlertBook {
 public:
  // What begins or ends now.
  std::vector<Alert> look_at(const RunView& run);
  std::vector<Alert> firing() const;  // critical first

 private:
  struct Pending {
    double since = 0;
    bool told = false;
    std::string summary;
  };
  std::map<std::string, Pending> held_;  // by name
  double last_incident_ = -1;            // wall time of the newest that was seen; −1: nothing was looked at yet
};

// As Alertmanager sends it to webhooks (version 4), with "text" for chat services.
std::string alert_json(const RunView& run, const Alert& alert);

}  // namespace longhaul::observe
