// ReportWriter keeps the page of a run up to date in the background. refresh() returns immediately; a thread
// of its own makes the page. However long a run has become, it uses at most a twentieth of one core for
// pages: a refresh is ignored while a page is being made, and afterwards for twenty times as long as that
// took. finish() makes the last page, with everything in it. A page that cannot be made (a full disk) is
// logged and ends nothing. Only one thread may use the object.
#pragma once

#include <functional>

#include "base/threads/worker.h"

namespace longhaul::observe {

class ReportWriter {
 public:
  // `make` makes the page: observe::write_report of a run folder. It must be callable from another thread
  // while events are written.
  explicit ReportWriter(std::function<void()> make);
  ReportWriter(std::function<void()> make, std::function<double()> now_s);  // with another clock, for tests

  void refresh();
  void finish();

 private:
  void make_page();

  std::function<void()> make_;
  std::function<double()> now_s_;
  double not_before_s_ = 0;  // written by the worker, read while it is idle
  Worker worker_{"report"};  // last member: its thread uses all members above
};

}  // namespace longhaul::observe
