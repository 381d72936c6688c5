// Wire: the functions of c10d that Longhaul uses; no other file depends on c10d for them. It has a
// key-value store that all ranks see (TCPStore), and byte messages between any two ranks (Gloo's
// connections, a full mesh made once; between ranks of one machine shared memory, shared_wire.h). Between
// two ranks, the n-th message sent with a tag is the n-th received with it; both must have the same length.
// A send is done once its receive is posted; posting never blocks. A message that cannot be posted because
// the connection is broken throws when it is waited for.
//
// All functions may be called from any thread. Exceptions of c10d are passed on unchanged; gloo_world.cpp
// interprets them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/gloo/store.h"

namespace longhaul::comm {

// A message in progress. Its memory must stay valid until this object is destroyed; after that no thread
// uses it.
class Transmission {
 public:
  virtual ~Transmission() = default;
  // Waits until it is done; false: stopped. Throws when the connection broke. One thread, once.
  virtual bool wait() = 0;
  virtual void stop() = 0;  // ends wait(), now or later; any thread
};

struct WireOptions {
  std::string host = "127.0.0.1";  // host of rank 0
  uint16_t port = 0;               // 0: any free port, for a rank that serves
  bool serves = false;             // this rank holds the store
  // Prefix of all keys, so that one store serves several attempts.
  std::string prefix;
  // for reaching the store, and for connecting to all others
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  // false: TCP connections to all ranks, those on this machine too.
  bool shares_memory = true;
};

class Wire final : public Store {
 public:
  explicit Wire(const WireOptions& options);  // reaches the store
  ~Wire() override;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  uint16_t port() const;
  int64_t operations() const;  // store operations that this rank has made; one that reads n values counts n

  void set(const std::string& key, const std::string& value) override;
  bool has(const std::string& key) override;
  bool wait_for(const std::string& key, std::chrono::milliseconds timeout) override;
  std::string get(const std::string& key) override;
  std::vector<std::string> get(const std::vector<std::string>& keys) override;
  int64_t add(const std::string& key, int64_t number) override;
  // Returns the value that was set first.
  std::string set_once(const std::string& key, const std::string& value);

  // Connects to all other ranks; call it before the first message.
  void connect(int64_t rank, int64_t size);
  std::unique_ptr<Transmission> send(int64_t peer, int64_t tag, const void* bytes, size_t count);
  std::unique_ptr<Transmission> receive(int64_t peer, int64_t tag, void* bytes, size_t count);

 private:
  void connect_in_memory(int64_t rank, int64_t size, int64_t place);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul::comm
