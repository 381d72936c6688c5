#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_form.h"
#include "base/process/signals.h"

namespace longhaul {
namespace {

constexpr double kSilent_s = 2.0;
constexpr double kBarEvery_s = 0.1;
constexpr double kLineEvery_s = 10.0;
constexpr int kBarCells = 24;

void write_error_stream(std::string_view text) {
  // Progress is a convenience: a closed standard error must not stop the work.
  const BrokenPipesAreErrors no_signal;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void write_error_line(const std::string& text) {
  write_error_stream(log_form() == LogForm::kJson ? json_log_line(LogLevel::kInfo, text) : text + "\n");
}

// The text in the terminal's last line: one bar, the last that was drawn. It is never destroyed, because
// threads may log until the process ends.
struct Screen {
  std::mutex mutex;
  const void* owner = nullptr;  // the owner of the bar
  std::string bar;
};
Screen& screen() {
  static Screen& instance = *new Screen;
  return instance;
}

size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string amount_text(double amount, Progress::Unit unit) {
  const auto whole = static_cast<int64_t>(std::llround(std::min(amount, 9e18)));
  if (unit == Progress::Unit::kBytes) return bytes_text(whole);
  return count_text(whole) + (unit == Progress::Unit::kTokens ? " tokens" : "");
}

std::string rate_text(double rate, Progress::Unit unit) {
  return (unit == Progress::Unit::kCount && rate < 10 ? fmt::format("{:.2g}", rate)
                                                      : amount_text(rate, unit)) +
         "/s";
}

}  // namespace

std::string progress_text(const std::string& label, int64_t done, int64_t total, Progress::Unit unit,
                          double elapsed_s, bool bar) {
  const double rate = elapsed_s > 0 ? static_cast<double>(done) / elapsed_s : 0;
  std::string text = label;
  if (total > 0) {
    const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    if (bar) {
      const auto filled = static_cast<size_t>(share * kBarCells);
      text += " [" + std::string(filled, '#') + std::string(kBarCells - filled, '.') + "]";
    }
    text += fmt::format(" {:.0f}%", std::floor(share * 100));
  }
  text += "  " + amount_text(static_cast<double>(done), unit);
  if (total > 0) text += " of " + amount_text(static_cast<double>(total), unit);
  text += "  " + rate_text(rate, unit);
  if (total > done && rate > 0)
    text += "  " + duration_text(static_cast<double>(total - done) / rate) + " left";
  return text;
}

struct Progress::State {
  std::string label;
  const int64_t total;
  Unit unit;
  bool terminal = ::isatty(STDERR_FILENO) == 1 && log_form() == LogForm::kText;
  Stopwatch watch;
  std::atomic<int64_t> done = 0;
  std::atomic<int64_t> next_ns = monotonic_ns() + static_cast<int64_t>(kSilent_s * 1e9);
  std::mutex mutex;  // of the drawing
  bool shown = false;

  State(std::string name, int64_t all, Unit of) : label(std::move(name)), total(all), unit(of) {}

  void draw() {
    std::string text = progress_text(label, done, total, unit, watch.seconds(), terminal);
    if (terminal) {
      const size_t columns = terminal_columns();
      if (text.size() >= columns) text.resize(columns - 1);  // a wrapped line could not be redrawn
      const std::lock_guard lock(screen().mutex);
      screen().owner = this;
      screen().bar = "\r" + text + "\033[K";
      write_error_stream(screen().bar);
    } else {
      write_error_line(text);
    }
    shown = true;
  }
};

Progress::Progress(std::string label, int64_t total, Unit unit)
    : state_(std::make_unique<State>(std::move(label), total, unit)) {}

Progress::~Progress() {
  if (!state_->shown) return;
  const double elapsed_s = state_->watch.seconds();
  const auto done = static_cast<double>(state_->done.load());
  const std::lock_guard lock(screen().mutex);
  if (screen().owner == state_.get()) screen().bar.clear();
  write_error_line(fmt::format("{}{}: {} in {} ({})", state_->terminal ? "\r\033[K" : "", state_->label,
                               amount_text(done, state_->unit), duration_text(elapsed_s),
                               rate_text(done / elapsed_s, state_->unit)));
}

void Progress::advance(int64_t amount) {
  State& state = *state_;
  state.done.fetch_add(amount, std::memory_order_relaxed);
  const int64_t now_ns = monotonic_ns();
  if (now_ns < state.next_ns.load(std::memory_order_relaxed) || !log_shows(LogLevel::kInfo)) return;
  const std::unique_lock lock(state.mutex, std::try_to_lock);
  if (!lock || now_ns < state.next_ns.load(std::memory_order_relaxed)) return;
  state.next_ns = now_ns + static_cast<int64_t>((state.terminal ? kBarEvery_s : kLineEvery_s) * 1e9);
  state.draw();
}

ProgressPause::ProgressPause() {
  screen().mutex.lock();
  if (!screen().bar.empty()) write_error_stream("\r\033[K");
}

ProgressPause::~ProgressPause() {
  if (!screen().bar.empty()) write_error_stream(screen().bar);
  screen().mutex.unlock();
}

std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= (unit == 0 ? 1000 : 999.95) && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string count_text(int64_t count) {
  std::string digits = fmt::format("{}", count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

}  // namespace longhaul
