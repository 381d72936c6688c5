// Store: keys and values that all ranks see, at rank 0. What ranks need of it to find each other; Wire has the real one.
// All functions from any thread.
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
  virtual bool wait_for(const std::string& key, std::chrono::milliseconds timeout) = 0;  // false: it did not come
  virtual std::string get(const std::string& key) = 0;                                   // waits for it
  virtual std::vector<std::string> get(const std::vector<std::string>& keys) = 0;        // waits for all
  virtual int64_t add(const std::string& key, int64_t number) = 0;                       // the sum
};

}  // namespace longhaul::comm
