// EventLoop: one thread that waits for many events at once: descriptors that become readable or writable,
// timers, signals, and the ends of child processes. Handlers run one after the other in the thread that
// called run(), and must not wait themselves. A handler may add, change and remove anything, itself included.
//
//   EventLoop loop;
//   loop.on_signal(SIGTERM, [&] { loop.stop(); });
//   loop.every(1.0, [&] { beat(); });
//   loop.watch(socket.descriptor(), {.reads = true}, [&](Ready ready) { … });
//   loop.run();
//
// The signals that a loop handles are blocked in its thread as long as the loop lives: they are handled
// between two handlers, not in the middle of one.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace longhaul {

struct Ready {
  // To wait for; or: possible now (an error or a hang-up counts as readable).
  bool reads = false, writes = false;
};

class EventLoop {
 public:
  using Handler = std::function<void()>;
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void watch(int descriptor, Ready for_what, std::function<void(Ready)> handler);
  void change(int descriptor, Ready for_what);
  void forget(int descriptor);  // call it before the descriptor is closed

  uint64_t after(double seconds, Handler handler);  // runs once
  uint64_t every(double seconds, Handler handler);
  void cancel(uint64_t timer);  // a timer that has already run is no error

  void on_signal(int signal, Handler handler);

  void run();  // until stop(); rethrows what a handler throws
  void stop() { stopping_ = true; }
  void run_for(double seconds);  // or until stop()

 private:
  struct Watch {
    uint64_t number = 0;  // of its own, because a descriptor's number is soon reused
    Ready for_what;
    std::shared_ptr<std::function<void(Ready)>> handler;
  };
  struct Timer {
    int64_t at_ns = 0, period_ns = 0;  // period 0: once
    std::shared_ptr<Handler> handler;
  };
  uint64_t add_timer(double seconds, double period, Handler handler);
  void turn();  // waits for one event and handles all that are ready
  void handle_descriptors(int64_t timeout_ns);
  void handle_timers();
  void take_signals();

  std::map<int, Watch> watches_;
  std::map<uint64_t, Timer> timers_;
  std::map<int, Handler> signals_;
  uint64_t last_number_ = 0;
  int signal_descriptor_ = -1;
  sigset_t before_;
  bool stopping_ = false;
};

}  // namespace longhaul
