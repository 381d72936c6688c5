#define USE_C10D_GLOO
#include "comm/wire.h"

#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/network.h"
#include "comm/shared_wire.h"

namespace longhaul::comm {
namespace {

// Gloo's own time-out would end all connections before anybody is told why: stop() ends waiting instead.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

class GlooTransmission final : public Transmission {
 public:
  explicit GlooTransmission(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  bool wait() override { return work_->wait(kForever); }
  void stop() override { work_->abort(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

// What could not even be started fails where it is waited for.
class Unstarted final : public Transmission {
 public:
  explicit Unstarted(std::exception_ptr reason) : reason_(std::move(reason)) {}
  bool wait() override { std::rethrow_exception(reason_); }
  void stop() override {}

 private:
  std::exception_ptr reason_;
};

template <class Post>
std::unique_ptr<Transmission> started(const Post& post) {
  try {
    return std::make_unique<GlooTransmission>(post());
  } catch (...) {
    return std::make_unique<Unstarted>(std::current_exception());
  }
}

// The way to others: the interface that GLOO_SOCKET_IFNAME names, as everywhere in c10d; else the one that leads to rank 0.
std::shared_ptr<gloo::transport::Device> device_for(const std::string& host) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface && *interface) return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return c10d::ProcessGroupGloo::createDeviceForHostname(own_address_towards(host));
}

bool is_ipv4(const std::string& address) { return address.find(':') == std::string::npos; }

// What c10d warns of, Longhaul says itself where it matters. Whoever sets the variable gets it as he likes it.
void quieten_c10d() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);
    c10::initLogging();
  });
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

struct Wire::State {
  WireOptions options;
  c10::intrusive_ptr<c10d::TCPStore> server;
  c10::intrusive_ptr<c10d::PrefixStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::mutex posting;                // ProcessGroupGloo counts what is posted, without a lock
  std::optional<SharedWire> shared;  // to those on this machine
};

Wire::Wire(const WireOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  quieten_c10d();
  c10d::TCPStoreOptions store;
  store.port = options.port;
  store.isServer = options.serves;
  store.waitWorkers = false;
  store.timeout = options.timeout;
  if (options.serves && is_ipv4(own_address_towards(options.host))) {
    // A socket that c10d opened would be of IPv6 and see every rank as ::ffff:a.b.c.d. It asks for the name of each that connects, and
    // /etc/hosts does not know those: where no name server answers, the store would stand still for 5 s.
    const Listener listener = listen_on(options.port);
    store.masterListenFd = listener.descriptor;
    store.port = listener.port;
  }
  state_->server = c10::make_intrusive<c10d::TCPStore>(options.host, store);
  state_->store = c10::make_intrusive<c10d::PrefixStore>(options.prefix, state_->server);
}

Wire::~Wire() = default;

uint16_t Wire::port() const { return state_->server->getPort(); }
void Wire::set(const std::string& key, const std::string& value) { state_->store->set(key, bytes_of(value)); }
bool Wire::has(const std::string& key) { return state_->store->check({key}); }
std::string Wire::get(const std::string& key) { return text_of(state_->store->get(key)); }
int64_t Wire::add(const std::string& key, int64_t number) { return state_->store->add(key, number); }

bool Wire::wait_for(const std::string& key, std::chrono::milliseconds timeout) {
  try {
    state_->store->wait({key}, timeout);
    return true;
  } catch (const c10::DistStoreError&) {
    return false;
  }
}

std::vector<std::string> Wire::get(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  for (const std::vector<uint8_t>& value : state_->store->multiGet(keys)) values.push_back(text_of(value));
  return values;
}

std::string Wire::set_once(const std::string& key, const std::string& value) {
  return text_of(state_->store->compareSet(key, std::vector<uint8_t>(), bytes_of(value)));
}

void Wire::connect(int64_t rank, int64_t size) {
  auto options = c10d::ProcessGroupGloo::Options::create(state_->options.timeout);
  options->devices.push_back(device_for(state_->options.host));
  options->threads = 1;  // of Gloo's own collective calls, which are not used
  state_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(state_->store, static_cast<int>(rank), static_cast<int>(size), options);
  if (size > 1) connect_in_memory(rank, size);
}

// With whom each of the two can reach the other's memory, and says so.
void Wire::connect_in_memory(int64_t rank, int64_t size) {
  const auto keys_of = [&](const char* name) {
    std::vector<std::string> keys;
    for (int64_t other = 0; other < size; ++other) keys.push_back(name + std::to_string(other));
    return keys;
  };
  const std::string own = std::to_string(rank);
  if (!state_->options.shares_memory) {
    set("memory/" + own, "none");
    set("memory-seen/" + own, std::string(static_cast<size_t>(size), '0'));
    return;
  }
  state_->shared.emplace(rank, size);
  set("memory/" + own, state_->shared->address());
  std::string seen;
  for (const bool one : state_->shared->open(get(keys_of("memory/")))) seen += one ? '1' : '0';
  set("memory-seen/" + own, seen);
  std::vector<bool> both;
  for (const std::string& theirs : get(keys_of("memory-seen/")))
    both.push_back(seen[both.size()] == '1' && theirs.at(static_cast<size_t>(rank)) == '1');
  state_->shared->start(both);
}

std::unique_ptr<Transmission> Wire::send(int64_t peer, int64_t tag, const void* bytes, size_t count) {
  if (state_->shared && state_->shared->reaches(peer)) return state_->shared->send(peer, tag, bytes, count);
  std::vector<at::Tensor> one = {at::from_blob(const_cast<void*>(bytes), {static_cast<int64_t>(count)}, at::kByte)};
  const std::lock_guard lock(state_->posting);
  return started([&] { return state_->group->send(one, static_cast<int>(peer), static_cast<int>(tag)); });
}

std::unique_ptr<Transmission> Wire::receive(int64_t peer, int64_t tag, void* bytes, size_t count) {
  if (state_->shared && state_->shared->reaches(peer)) return state_->shared->receive(peer, tag, bytes, count);
  std::vector<at::Tensor> one = {at::from_blob(bytes, {static_cast<int64_t>(count)}, at::kByte)};
  const std::lock_guard lock(state_->posting);
  return started([&] { return state_->group->recv(one, static_cast<int>(peer), static_cast<int>(tag)); });
}

}  // namespace longhaul::comm
