// Store: a key-value store at rank 0 that all ranks can access: the operations that ranks need to find each
// other. Wire implements it. All functions may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::comm {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual bool has(const std::string& key) = 0;
  // false: the key did not appear in time.
  virtual bool wait_for(const std::string& key, std::chrono::milliseconds timeout) = 0;
  virtual std::string get(const std::string& key) = 0;                             // waits for the key
  virtual std::vector<std::string> get(const std::vector<std::string>& keys) = 0;  // waits for all
  virtual int64_t add(const std::string& key, int64_t number) = 0;                 // the sum
};

}  // namespace longhaul::comm
