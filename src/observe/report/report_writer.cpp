#include "observe/report/report_writer.h"

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/threads/background_work.h"

namespace longhaul::observe {
namespace {

constexpr double kRest = 20;  // pause after a page, as a multiple of the time that it took

}  // namespace

ReportWriter::ReportWriter(std::function<void()> make)
    : ReportWriter(std::move(make), [] { return static_cast<double>(monotonic_ns()) * 1e-9; }) {}

ReportWriter::ReportWriter(std::function<void()> make, std::function<double()> now_s)
    : make_(std::move(make)), now_s_(std::move(now_s)) {}

void ReportWriter::make_page() {
  const double begin_s = now_s_();
  try {
    make_();
  } catch (const std::exception& error) {
    log_warning("report.html is not brought up to date: {}", error.what());
  }
  const double end_s = now_s_();
  not_before_s_ = end_s + kRest * (end_s - begin_s);
}

void ReportWriter::refresh() {
  if (!worker_.idle() || now_s_() < not_before_s_) return;
  worker_.post([this] {
    const BackgroundTask task("report");
    make_page();
  });
}

void ReportWriter::finish() {
  worker_.wait();
  make_page();
}

}  // namespace longhaul::observe
