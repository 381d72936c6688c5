// How an operator chooses its implementation: an ordered list in which each entry refuses with a reason or takes the call.
// `--explain-dispatch` prints the reasons; tests ask which implementation answered. Choosing is thread-safe; the record of the
// last choice is per thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace longhaul::kernels {

struct Choice {
  std::string op;
  std::string chosen;
  std::vector<std::pair<std::string, std::string>> refusals;  // implementation, reason
};

class Dispatcher {
 public:
  explicit Dispatcher(std::string op) : op_(std::move(op)) {}
  // Asks in order; `refusals[i]` is the reason of implementations[i], empty: it takes the call. Returns its index. The last one
  // must take everything. A name forced by force() is asked alone and its refusal is an error.
  size_t choose(const std::vector<std::string>& implementations, const std::function<std::string(size_t)>& refusal) const;
  static const Choice& last(const std::string& op);                                     // of this thread
  static void force(const std::string& op, std::optional<std::string> implementation);  // of this thread; tests and benchmarks
  static void explain(bool on);                                                         // whole process: log each new choice once

 private:
  std::string op_;
};

}  // namespace longhaul::kernels
