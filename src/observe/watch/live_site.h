// LiveSite: runs as a web site, which `longhaul watch --serve` serves. poll() reads what is new, and answer()
// renders from that at most once per poll and width. Any thread may call answer(); only one may call poll(),
// which also finds alerts, so no reader may delay it. Under the lock that both take there is at most one
// rendering per poll and width, and no file is read; files (traces, logs, the report) are read and replies
// assembled outside it.
//
//   /                the runs; the run, where there is one          /metrics                 OpenMetrics of
//                                                                   all
//   /run/NAME/       its whole page              /run/NAME/panels   the panels that have changed, for the
//                                                                   page's script
//   /run/NAME/summary.json                       /run/NAME/trace.json, trace.pftrace   the last recorded
//                                                                                      steps
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
  // The alerts that began or ended. The runs stay as they are until the next poll().
  std::vector<AlertNews> poll(double now_wall_s);
  HttpReply answer(const HttpRequest& request);
  const RunView& run(size_t at) const { return runs_[at]->live.view(); }
  std::vector<Alert> firing(size_t at) const { return runs_[at]->alerts.firing(); }

 private:
  // OfPoll: an immutable result that was made from the state of one poll.
  template <class T>
  struct OfPoll {
    int64_t poll = -1;
    std::shared_ptr<const T> made;
  };
  struct Rendered {
    std::string title;
    std::vector<Panel> panels;
    std::vector<std::string> hashes;
    std::string page;  // for the wide layout
  };
  struct Site {
    Site(const std::filesystem::path& run_folder, const std::string& job)
        : live(run_folder, job), folder(run_folder), key(job) {}
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

  std::mutex mutex_;                         // protects runs_ except folders and keys, and the members below
  std::vector<std::unique_ptr<Site>> runs_;  // their number does not change
  int64_t polls_ = 0;
  OfPoll<std::string> runs_panel_, metrics_[2];
  const bool metrics_by_rank_;
  std::mutex trace_mutex_;  // one trace at a time, because it may be large
};

std::string summary_json(const RunView& run, const std::vector<Alert>& firing);  // for machines

}  // namespace longhaul::observe
