#include "base/net/event_loop.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace longhaul {
namespace {

int16_t events_of(Ready for_what) {
  return static_cast<int16_t>((for_what.reads ? POLLIN : 0) | (for_what.writes ? POLLOUT : 0));
}

[[noreturn]] void loop_failed(const char* what) {
  throw Error({.code = ExitCode::kInternal, .what = what, .found = std::generic_category().message(errno)});
}

}  // namespace

EventLoop::EventLoop() { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }

EventLoop::~EventLoop() {
  if (signal_descriptor_ >= 0) ::close(signal_descriptor_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void EventLoop::watch(int descriptor, Ready for_what, std::function<void(Ready)> handler) {
  LONGHAUL_ASSERT(descriptor >= 0 && !watches_.contains(descriptor), "descriptor {}", descriptor);
  watches_[descriptor] = {++last_number_, for_what,
                          std::make_shared<std::function<void(Ready)>>(std::move(handler))};
}

void EventLoop::change(int descriptor, Ready for_what) {
  const auto found = watches_.find(descriptor);
  LONGHAUL_ASSERT(found != watches_.end(), "descriptor {}", descriptor);
  found->second.for_what = for_what;
}

void EventLoop::forget(int descriptor) { watches_.erase(descriptor); }

uint64_t EventLoop::add_timer(double seconds, double period, Handler handler) {
  const auto nanoseconds = [](double s) { return static_cast<int64_t>(s * 1e9); };
  timers_[++last_number_] = {monotonic_ns() + nanoseconds(seconds), nanoseconds(period),
                             std::make_shared<Handler>(std::move(handler))};
  return last_number_;
}

uint64_t EventLoop::after(double seconds, Handler handler) {
  return add_timer(seconds, 0, std::move(handler));
}
uint64_t EventLoop::every(double seconds, Handler handler) {
  return add_timer(seconds, seconds, std::move(handler));
}
void EventLoop::cancel(uint64_t timer) { timers_.erase(timer); }

void EventLoop::on_signal(int signal, Handler handler) {
  signals_[signal] = std::move(handler);
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [number, unused] : signals_) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const bool first = signal_descriptor_ < 0;
  signal_descriptor_ = ::signalfd(signal_descriptor_, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_descriptor_ < 0) loop_failed("cannot take signals out of a queue");
  if (first) watch(signal_descriptor_, {.reads = true}, [this](Ready) { take_signals(); });
}

void EventLoop::take_signals() {
  signalfd_siginfo got{};
  while (::read(signal_descriptor_, &got, sizeof(got)) == sizeof(got)) {
    const auto found = signals_.find(static_cast<int>(got.ssi_signo));
    if (found != signals_.end()) Handler(found->second)();
  }
}

void EventLoop::handle_descriptors(int64_t timeout_ns) {
  std::vector<pollfd> waiting;
  std::vector<uint64_t> numbers;
  for (const auto& [descriptor, watch] : watches_) {
    waiting.push_back({descriptor, events_of(watch.for_what), 0});
    numbers.push_back(watch.number);
  }
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  const int count = ::ppoll(waiting.data(), waiting.size(), timeout_ns < 0 ? nullptr : &timeout, nullptr);
  if (count < 0 && errno != EINTR) loop_failed("cannot wait for connections");
  if (count <= 0) return;
  for (size_t i = 0; i < waiting.size() && !stopping_; ++i) {
    if (waiting[i].revents == 0) continue;
    const auto found = watches_.find(waiting[i].fd);
    // An earlier handler removed it.
    if (found == watches_.end() || found->second.number != numbers[i]) continue;
    const auto handler = found->second.handler;  // keeps the handler alive if it removes itself
    (*handler)({.reads = (waiting[i].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0,
                .writes = (waiting[i].revents & (POLLOUT | POLLERR)) != 0});
  }
}

void EventLoop::handle_timers() {
  const int64_t now = monotonic_ns();
  std::vector<std::pair<int64_t, uint64_t>> due;
  for (const auto& [number, timer] : timers_) {
    if (timer.at_ns <= now) due.emplace_back(timer.at_ns, number);
  }
  std::sort(due.begin(), due.end());
  for (const auto& [at_ns, number] : due) {
    const auto found = timers_.find(number);
    if (found == timers_.end() || stopping_) continue;
    const auto handler = found->second.handler;
    if (found->second.period_ns > 0) {
      // Periods that were missed while the process slept are not made up for.
      found->second.at_ns = now + found->second.period_ns;
    } else {
      timers_.erase(found);
    }
    (*handler)();
  }
}

void EventLoop::turn() {
  int64_t next_ns = -1;
  for (const auto& [number, timer] : timers_)
    next_ns = next_ns < 0 ? timer.at_ns : std::min(next_ns, timer.at_ns);
  handle_descriptors(next_ns < 0 ? -1 : std::max<int64_t>(0, next_ns - monotonic_ns()));
  if (!stopping_) handle_timers();
}

void EventLoop::run() {
  for (stopping_ = false; !stopping_;) turn();
}

void EventLoop::run_for(double seconds) {
  const uint64_t timer = after(seconds, [this] { stop(); });
  run();
  cancel(timer);
}

}  // namespace longhaul
