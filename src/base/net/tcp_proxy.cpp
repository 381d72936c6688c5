#include "base/net/tcp_proxy.h"

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>

#include "base/net/event_loop.h"
#include "base/threads/worker.h"

namespace longhaul {
namespace {

constexpr size_t kMostWaiting = size_t{1} << 20;  // bytes that one side sent and the other has not taken yet
constexpr double kOrders_s = 0.01;                // within which the thread sees what it is told

struct Passed {
  Socket peer, server;
  std::string to_peer, to_server;
  bool silent = false;
};

// Moves what can be moved; false: one side has ended.
bool move_bytes(Socket& from, Socket& to, std::string& waiting) {
  while (waiting.size() < kMostWaiting) {
    const Socket::Result read = from.read(waiting);
    if (read == Socket::Result::kEnd) return false;
    if (read == Socket::Result::kNothing) break;
  }
  while (!waiting.empty()) {
    size_t written = 0;
    const Socket::Result write = to.write(waiting, written);
    if (write == Socket::Result::kEnd) return false;
    if (write == Socket::Result::kNothing || written == 0) break;
    waiting.erase(0, written);
  }
  return true;
}

}  // namespace

struct TcpProxy::State {
  State(const Endpoint& here, Endpoint to) : server(std::move(to)), listening(Socket::listen(here)) {}
  void run();
  void let_in();
  void serve(Passed& one);
  void take_orders();

  Endpoint server;
  Socket listening;
  std::mutex mutex;
  std::condition_variable done;
  std::optional<std::string> to_silence;
  int64_t silenced = 0;
  bool ending = false;
  // Only the thread uses these.
  std::optional<EventLoop> loop;
  std::list<Passed> all;
  Worker worker{"proxy"};
};

void TcpProxy::State::run() {
  loop.emplace();
  loop->watch(listening.descriptor(), {.reads = true}, [this](Ready) { let_in(); });
  loop->every(kOrders_s, [this] { take_orders(); });
  loop->run();
  all.clear();
  loop.reset();
}

void TcpProxy::State::let_in() {
  while (auto peer = listening.accept()) {
    Passed& one = all.emplace_back(
        Passed{.peer = std::move(*peer), .server = Socket::connect(server), .to_peer = {}, .to_server = {}});
    for (const Socket* side : {&one.peer, &one.server})
      loop->watch(side->descriptor(), {.reads = true, .writes = true}, [this, &one](Ready) { serve(one); });
  }
}

void TcpProxy::State::serve(Passed& one) {
  if (move_bytes(one.peer, one.server, one.to_server) && move_bytes(one.server, one.peer, one.to_peer)) {
    loop->change(one.peer.descriptor(),
                 {.reads = one.to_server.size() < kMostWaiting, .writes = !one.to_peer.empty()});
    loop->change(one.server.descriptor(),
                 {.reads = one.to_peer.size() < kMostWaiting, .writes = !one.to_server.empty()});
    return;
  }
  loop->forget(one.peer.descriptor());
  loop->forget(one.server.descriptor());
  all.remove_if([&](const Passed& other) { return &other == &one; });
}

// A silent one keeps its two connections, and nobody reads them.
void TcpProxy::State::take_orders() {
  const std::lock_guard lock(mutex);
  if (ending) return loop->stop();
  if (!to_silence) return;
  silenced = 0;
  for (Passed& one : all) {
    if (one.silent || !one.peer.peer().starts_with(*to_silence + ":")) continue;
    one.silent = true;
    ++silenced;
    loop->forget(one.peer.descriptor());
    loop->forget(one.server.descriptor());
  }
  to_silence.reset();
  done.notify_all();
}

TcpProxy::TcpProxy(const Endpoint& here, const Endpoint& server)
    : state_(std::make_unique<State>(here, server)) {
  state_->worker.post([this] { state_->run(); });
}

TcpProxy::~TcpProxy() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->worker.wait();
}

uint16_t TcpProxy::port() const { return state_->listening.port(); }

int64_t TcpProxy::silence(const std::string& peer) {
  std::unique_lock lock(state_->mutex);
  state_->to_silence = peer;
  state_->done.wait(lock, [&] { return !state_->to_silence; });
  return state_->silenced;
}

}  // namespace longhaul
