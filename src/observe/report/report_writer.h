// ReportWriter: keeps the page of a run up to date behind the run's back. refresh() returns at once; a thread of its own makes the page.
// However long a run has become, it spends at most a twentieth of one core on pages: a refresh is passed over while a page is being
// made, and afterwards for twenty times as long as that took. finish() makes the last one, with everything in it. A page that
// cannot be made (a full disk) is said in the log and ends nothing. One owner's thread.
#pragma once

#include <functional>

#include "base/threads/worker.h"

namespace longhaul::observe {

class ReportWriter {
 public:
  // `make` makes the page: observe::write_report of a run folder. It must be callable from another thread while events are written.
  explicit ReportWriter(std::function<void()> make);
  ReportWriter(std::function<void()> make, std::function<double()> now_s);  // with another clock: tests

  void refresh();
  void finish();

 private:
  void make_page();

  std::function<void()> make_;
  std::function<double()> now_s_;
  double not_before_s_ = 0;  // written by the worker, read while it is idle
  Worker worker_{"report"};  // last: its thread uses everything above
};

}  // namespace longhaul::observe
