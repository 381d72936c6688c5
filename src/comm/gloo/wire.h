// Wire: what Longhaul uses of c10d, and the only place that knows of it: a store of keys that all ranks see (TCPStore), and messages of bytes
// between any two ranks (Gloo's connections, a full mesh made once; between ranks of one machine memory that they share, shared_wire.h). Of two ranks' messages with one tag the n-th sent is the n-th received;
// both must be of one length. A message is sent once its receive is posted; neither blocks whoever posts it.
// A message that cannot be posted, the connection being broken, throws when it is waited for.
//
// All functions from any thread. Whatever c10d throws is passed on as it is: gloo_world.cpp makes sense of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/gloo/store.h"

namespace longhaul::comm {

// A message under way. Its memory must stay until it is destroyed, after which nobody touches it.
class Transmission {
 public:
  virtual ~Transmission() = default;
  virtual bool wait() = 0;  // until it is done; false: stopped. Throws when the connection broke. One thread, once
  virtual void stop() = 0;  // whoever waits, now or later, is let go of; any thread
};

struct WireOptions {
  std::string host = "127.0.0.1";                                // of rank 0
  uint16_t port = 0;                                             // 0: any that is free, for a rank that serves
  bool serves = false;                                           // holds the store
  std::string prefix;                                            // of all keys: so that one store serves several attempts
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // for reaching the store, and for connecting to all others
  bool shares_memory = true;                                     // false: connections to all, those on this machine too
};

class Wire final : public Store {
 public:
  explicit Wire(const WireOptions& options);  // reaches the store
  ~Wire() override;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  uint16_t port() const;
  int64_t operations() const;  // of the store that this rank has asked for; one that reads n values counts n

  void set(const std::string& key, const std::string& value) override;
  bool has(const std::string& key) override;
  bool wait_for(const std::string& key, std::chrono::milliseconds timeout) override;
  std::string get(const std::string& key) override;
  std::vector<std::string> get(const std::vector<std::string>& keys) override;
  int64_t add(const std::string& key, int64_t number) override;
  std::string set_once(const std::string& key, const std::string& value);  // the value of whoever was first

  // Connects to all others; before the first message.
  void connect(int64_t rank, int64_t size);
  std::unique_ptr<Transmission> send(int64_t peer, int64_t tag, const void* bytes, size_t count);
  std::unique_ptr<Transmission> receive(int64_t peer, int64_t tag, void* bytes, size_t count);

 private:
  void connect_in_memory(int64_t rank, int64_t size, int64_t place);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul::comm
