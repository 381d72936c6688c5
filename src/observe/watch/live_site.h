// LiveSite: runs as a site to be read: what `longhaul watch --serve` answers. poll() reads what is new, answer() renders from that at most once a poll and
// width. Any thread may ask; poll() is for one.
//
//   /                the runs; the run, where there is one          /metrics                 OpenMetrics of all
//   /run/NAME/       its page, whole                                 /run/NAME/panels         the panels that have changed, for the page's script
//   /run/NAME/summary.json                                           /run/NAME/trace.json, trace.pftrace   the last recorded steps
//   /run/NAME/report.html, /healthz, /live.js
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/http_server.h"
#include "observe/watch/alerts.h"
#include "observe/watch/live_page.h"
#include "observe/watch/live_run.h"

namespace longhaul::observe {

struct AlertNews {
  const RunView* run;
  Alert alert;
};

class LiveSite {
 public:
  LiveSite(const std::vector<std::filesystem::path>& runs, bool metrics_by_rank);
  std::vector<AlertNews> poll(double now_wall_s);  // what began and ended; the runs are as poll() has left them until the next one
  HttpReply answer(const HttpRequest& request);
  const RunView& run(size_t at) const { return runs_[at]->live.view(); }
  std::vector<Alert> firing(size_t at) const { return runs_[at]->alerts.firing(); }

 private:
  struct Rendered {
    int64_t of_poll = -1;
    std::vector<Panel> panels;
    std::vector<std::string> hashes;
  };
  struct Site {
    explicit Site(const std::filesystem::path& folder) : live(folder) {}
    LiveRun live;
    AlertBook alerts;
    std::string key;  // in addresses
    Rendered rendered[2];
  };
  const Rendered& rendered(Site& site, bool narrow);
  HttpReply page_of_runs(const HttpRequest& request);
  HttpReply answer_of(Site& site, const std::string& what, const HttpRequest& request);
  HttpReply panels_of(Site& site, const HttpRequest& request);
  HttpReply metrics_reply(const HttpRequest& request) const;
  std::vector<const RunView*> views() const;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Site>> runs_;
  int64_t polls_ = 0;
  bool metrics_by_rank_;
};

std::string summary_json(const RunView& run, const std::vector<Alert>& firing);  // for machines

}  // namespace longhaul::observe
