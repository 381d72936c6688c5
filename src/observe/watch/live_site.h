// LiveSite: runs as a site to be read: what `longhaul watch --serve` answers. poll() reads what is new, answer() renders from that at most once a poll and
// width. Any thread may ask; poll() is for one, and alerts come of it, so nobody who asks may hold it up: under the lock that both take there is one
// rendering a poll and width at most, and no file is read; files (traces, logs, the report) are read and replies put together outside it.
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

#include "base/net/http_server.h"
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
  // What has been made of one poll's state, which does not change any more.
  template <class T>
  struct OfPoll {
    int64_t poll = -1;
    std::shared_ptr<const T> made;
  };
  struct Rendered {
    std::string title;
    std::vector<Panel> panels;
    std::vector<std::string> hashes;
    std::string page;  // of the wide one
  };
  struct Site {
    Site(const std::filesystem::path& run_folder, const std::string& job) : live(run_folder, job), folder(run_folder), key(job) {}
    LiveRun live;
    AlertBook alerts;
    const std::filesystem::path folder;
    const std::string key;  // in addresses
    OfPoll<Rendered> rendered[2];
    OfPoll<std::string> summary;
  };
  template <class T, class Make>
  std::shared_ptr<const T> once_a_poll(OfPoll<T>& place, const Make& make);
  std::shared_ptr<const Rendered> rendered(Site& site, bool narrow);
  HttpReply page_of_runs(const HttpRequest& request);
  HttpReply answer_of(Site& site, const std::string& what, const HttpRequest& request);
  HttpReply panels_of(Site& site, const HttpRequest& request);
  HttpReply trace_reply(const Site& site, bool perfetto);
  HttpReply metrics_reply(const HttpRequest& request);
  std::vector<const RunView*> views() const;

  std::mutex mutex_;                         // of runs_ but folders and keys, and of what follows
  std::vector<std::unique_ptr<Site>> runs_;  // as many as there were at first
  int64_t polls_ = 0;
  OfPoll<std::string> runs_panel_, metrics_[2];
  const bool metrics_by_rank_;
  std::mutex trace_mutex_;  // one trace at a time: it may be large
};

std::string summary_json(const RunView& run, const std::vector<Alert>& firing);  // for machines

}  // namespace longhaul::observe
