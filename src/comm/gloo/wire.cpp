#define USE_C10D_GLOO
#include "comm/gloo/wire.h"

#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/net/network.h"
#include "base/process/signals.h"
#include "base/threads/worker.h"
#include "comm/gloo/asked_store.h"
#include "comm/gloo/meeting.h"
#include "comm/gloo/shared_wire.h"

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

// The way to others: the interface that GLOO_SOCKET_IFNAME names, as everywhere in c10d; else the one that
// leads to rank 0.
std::shared_ptr<gloo::transport::Device> device_for(const std::string& host) {
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface && *interface) return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return c10d::ProcessGroupGloo::createDeviceForHostname(own_address_towards(host));
}

bool is_ipv4(const std::string& address) { return address.find(':') == std::string::npos; }

void prepare_c10d() {
  static std::once_flag once;
  std::call_once(once, [] {
    // What c10d warns of, and its errors with their stacks, Longhaul says itself where it matters. Whoever
    // sets the variable gets it as he likes it.
    ::setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
    c10::initLogging();
    // Else a rank's address in Gloo has a number for each other rank, and those of a thousand are more than
    // the store takes as one value (8 MiB).
    ::setenv("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1", /*overwrite=*/1);
  });
}

// A client goes by IPv6 too, and wants the name of ::ffff:a.b.c.d before it connects. Where the host is an
// address nobody needs a name server: of many ranks that ask one at once some are not answered, and all wait
// 5 s for those.
c10::intrusive_ptr<c10d::TCPStore> connected(const std::string& host, const c10d::TCPStoreOptions& options) {
  std::optional<NoNameServer> quiet;
  if (is_address(host)) quiet.emplace();
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// c10d tries for twice the time, and where somebody listens it waits for an answer without end: that of
// another program, which took the port from rank 0, may never come. A request to stop ends it too.
c10::intrusive_ptr<c10d::TCPStore> reached(const std::string& host, const c10d::TCPStoreOptions& options) {
  const auto ask = std::make_shared<std::packaged_task<c10::intrusive_ptr<c10d::TCPStore>()>>(
      [host, options] { return connected(host, options); });
  std::future<c10::intrusive_ptr<c10d::TCPStore>> answer = ask->get_future();
  auto worker = std::make_unique<Worker>("store");
  worker->post([ask] { (*ask)(); });
  constexpr std::chrono::milliseconds kLook(100);
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  while (stop_signal() == 0 && std::chrono::steady_clock::now() < end) {
    if (answer.wait_for(std::min(options.timeout, kLook)) == std::future_status::ready) return answer.get();
  }
  leave_behind(std::move(worker));
  if (stop_signal() != 0) throw std::runtime_error("a request to stop came first");
  if (!somebody_listens(host, options.port)) throw std::runtime_error("nobody listens at that port");
  throw std::runtime_error(
      "somebody listens at that port who does not answer as rank 0's store does: another program has it");
}

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// What Gloo has for a store while it connects all to all. Each rank says where it is (keys end in the rank)
// and reads where all are: key by key these would be n² reads.
class Addresses final : public c10d::Store {
 public:
  Addresses(comm::Store& store, int64_t rank, int64_t size) : store_(store), rank_(rank), size_(size) {}

  void set(const std::string&, const std::vector<uint8_t>& own) override {
    say(store_, topic_, rank_, text_of(own));
  }
  std::vector<uint8_t> get(const std::string& key) override {
    if (all_.empty()) {
      if (rank_ == 0) collect(store_, topic_, size_);
      all_ = hear(store_, topic_);
    }
    return bytes_of(all_.at(std::stoul(key.substr(key.rfind('/') + 1))));
  }
  void wait(const std::vector<std::string>&) override {}  // get() does
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}
  bool check(const std::vector<std::string>&) override { return true; }
  int64_t getNumKeys() override { return size_; }
  int64_t add(const std::string& key, int64_t) override { refuse(key); }
  bool deleteKey(const std::string& key) override { refuse(key); }
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<Addresses>(store_, rank_, size_);
  }

 private:
  [[noreturn]] static void refuse(const std::string& key) {
    LONGHAUL_ASSERT(false, "Gloo asks for more than addresses: {}", key);
  }

  comm::Store& store_;
  const std::string topic_ = topic_of(Told::kConnections, "");
  int64_t rank_, size_;
  std::vector<std::string> all_;
};

}  // namespace

struct Wire::State {
  WireOptions options;
  c10::intrusive_ptr<c10d::TCPStore> server;
  c10::intrusive_ptr<c10d::PrefixStore> store;
  std::atomic<int64_t> operations{0};  // of it
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::mutex posting;                // ProcessGroupGloo counts what is posted, without a lock
  std::optional<SharedWire> shared;  // to those on this machine

  c10d::PrefixStore& asked(size_t values = 1);  // the store, for an operation
};

Wire::Wire(const WireOptions& options) : state_(std::make_unique<State>()) {
  state_->options = options;
  prepare_c10d();
  c10d::TCPStoreOptions store;
  store.port = options.port;
  store.isServer = options.serves;
  store.waitWorkers = false;
  store.timeout = options.timeout;
  if (options.serves && is_ipv4(own_address_towards(options.host))) {
    // A socket that c10d opened would be of IPv6 and see every rank as ::ffff:a.b.c.d. It asks for the name
    // of each that connects, and /etc/hosts does not know those: where no name server answers, the store
    // would stand still for 5 s.
    const Listener listener = listen_on(options.port);
    store.masterListenFd = listener.descriptor;
    store.port = listener.port;
  }
  state_->server = options.serves ? connected(options.host, store) : reached(options.host, store);
  state_->store = c10::make_intrusive<c10d::PrefixStore>(options.prefix, state_->server);
}

Wire::~Wire() = default;

uint16_t Wire::port() const { return state_->server->getPort(); }
int64_t Wire::operations() const { return state_->operations; }

c10d::PrefixStore& Wire::State::asked(size_t values) {
  operations += static_cast<int64_t>(values);
  return *store;
}

void Wire::set(const std::string& key, const std::string& value) {
  state_->asked().set(key, bytes_of(value));
}
bool Wire::has(const std::string& key) { return state_->asked().check({key}); }
std::string Wire::get(const std::string& key) { return text_of(state_->asked().get(key)); }
int64_t Wire::add(const std::string& key, int64_t number) { return state_->asked().add(key, number); }

bool Wire::wait_for(const std::string& key, std::chrono::milliseconds timeout) {
  try {
    state_->store->wait({key}, timeout);
    ++state_->operations;  // who waits long asks again and again: it is one question
    return true;
  } catch (const c10::DistStoreError&) {
    return false;
  }
}

std::vector<std::string> Wire::get(const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  for (const std::vector<uint8_t>& value : state_->asked(keys.size()).multiGet(keys))
    values.push_back(text_of(value));
  return values;
}

std::string Wire::set_once(const std::string& key, const std::string& value) {
  return text_of(state_->asked().compareSet(key, std::vector<uint8_t>(), bytes_of(value)));
}

void Wire::connect(int64_t rank, int64_t size) {
  auto options = c10d::ProcessGroupGloo::Options::create(state_->options.timeout);
  options->devices.push_back(device_for(state_->options.host));
  options->threads = 1;  // of Gloo's own collective calls, which are not used
  const bool shares = size > 1 && state_->options.shares_memory;
  const int64_t place =
      // connections stand when all have come: then all have been counted
      shares ? come_to_machine(*this, machine().boot) : 0;
  state_->group =
      c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<Addresses>(*this, rank, size),
                                                  static_cast<int>(rank), static_cast<int>(size), options);
  if (shares) connect_in_memory(rank, size, place);
}

// With whom of its machine each of the two can reach the other's memory. Who is here as the `place`-th tells
// the others his rank and address, then whom he reaches.
void Wire::connect_in_memory(int64_t rank, int64_t size, int64_t place) {
  const std::string& here = machine().boot;
  const int64_t count = ranks_of_machine(*this, here);
  state_->shared.emplace(rank, size);
  std::vector<size_t> ranks;
  std::vector<std::string> addresses(static_cast<size_t>(size));
  for (const std::string& theirs : tell_each_other(*this, topic_of(Told::kMemory, here), place, count,
                                                   fmt::format("{} {}", rank, state_->shared->address()))) {
    const size_t space = theirs.find(' ');
    ranks.push_back(std::stoul(theirs.substr(0, space)));
    addresses.at(ranks.back()) = theirs.substr(space + 1);
  }
  const std::vector<bool> reached = state_->shared->open(addresses);
  std::string seen;
  for (const size_t other : ranks) seen += reached[other] ? '1' : '0';
  const std::vector<std::string> seen_by =
      tell_each_other(*this, topic_of(Told::kReached, here), place, count, seen);
  std::vector<bool> both(static_cast<size_t>(size), false);
  for (size_t i = 0; i < ranks.size(); ++i)
    both[ranks[i]] = reached[ranks[i]] && seen_by[i].at(static_cast<size_t>(place)) == '1';
  state_->shared->start(both);
}

std::unique_ptr<Transmission> Wire::send(int64_t peer, int64_t tag, const void* bytes, size_t count) {
  if (state_->shared && state_->shared->reaches(peer)) return state_->shared->send(peer, tag, bytes, count);
  std::vector<at::Tensor> one = {
      at::from_blob(const_cast<void*>(bytes), {static_cast<int64_t>(count)}, at::kByte)};
  const std::lock_guard lock(state_->posting);
  return started([&] { return state_->group->send(one, static_cast<int>(peer), static_cast<int>(tag)); });
}

std::unique_ptr<Transmission> Wire::receive(int64_t peer, int64_t tag, void* bytes, size_t count) {
  if (state_->shared && state_->shared->reaches(peer))
    return state_->shared->receive(peer, tag, bytes, count);
  std::vector<at::Tensor> one = {at::from_blob(bytes, {static_cast<int64_t>(count)}, at::kByte)};
  const std::lock_guard lock(state_->posting);
  return started([&] { return state_->group->recv(one, static_cast<int>(peer), static_cast<int>(tag)); });
}

}  // namespace longhaul::comm
