// Alerts of a run: conditions of which somebody should be notified, checked each time the run is read. There
// is one table of rules; deploy/prometheus/longhaul-alerts.yml has the same rules under the same names for
// users of Prometheus. An alert is reported when it begins and when it ends, and an incident once.
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
  double until = 0;  // when it ended
};

struct AlertRule {
  std::string_view name, severity, meaning;
  double for_s;  // how long the condition must hold
};
std::span<const AlertRule> alert_rules();

class AlertBook {
 public:
  // Returns the alerts that begin or end now.
  std::vector<Alert> look_at(const RunView& run);
  std::vector<Alert> firing() const;  // critical first

 private:
  struct Pending {
    double since = 0;
    bool told = false;
    std::string summary;
  };
  std::map<std::string, Pending> held_;  // by name
  // wall time of the newest incident seen; −1: nothing was examined yet
  double last_incident_ = -1;
};

// In the format that Alertmanager sends to webhooks (version 4), with "text" for chat services.
std::string alert_json(const RunView& run, const Alert& alert);

}  // namespace longhaul::observe
