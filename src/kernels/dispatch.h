// How an operator chooses its implementation: an ordered list in which each entry refuses with a reason or takes the call.
// `--explain-dispatch` prints the reasons; tests ask which implementation answered. Choosing is thread-safe; the record of the
// last choice is per thread.
//
//   constexpr std::string_view kImplementations[] = {"cuda", "cpu", "aten"};
//   const size_t chosen = Dispatcher("norm", kImplementations).choose([&](size_t i) { return i == 0 ? refuse_cuda(x) : Refusal(); });
//
// It happens at every call of every operator, so it allocates nothing but at an operator's first choice on a thread: names and reasons are
// literals, and become strings when somebody asks for them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul::kernels {

// Why an implementation does not take a call: a literal, or other text that is never freed. Empty: it takes it.
class Refusal {
 public:
  constexpr Refusal() = default;
  constexpr Refusal(const char* reason) : reason_(reason) {}  // NOLINT(google-explicit-constructor): a literal is a reason
  constexpr bool empty() const { return reason_.empty(); }
  constexpr std::string_view reason() const { return reason_; }

 private:
  std::string_view reason_;
};

struct Choice {
  std::string op;
  std::string chosen;
  std::vector<std::pair<std::string, std::string>> refusals;  // implementation, reason
};

// A name and a list, literals and a static array: both are kept in records. Made where it is used.
class Dispatcher {
 public:
  static constexpr size_t kMostImplementations = 8;

  template <size_t N>
  constexpr Dispatcher(const char* op, const std::string_view (&implementations)[N]) : op_(op), implementations_(implementations) {
    static_assert(N <= kMostImplementations);
  }
  // Asks in order; refuse(i) is the Refusal of implementation i. Returns the number of the first that takes the call: one of them must take
  // everything. A name forced by force() is asked alone and its refusal is an error.
  template <class Refuse>
  size_t choose(const Refuse& refuse) const {
    return choose([](const void* context, size_t i) -> Refusal { return (*static_cast<const Refuse*>(context))(i); }, &refuse);
  }
  static Choice last(std::string_view op);                                              // of this thread; empty names: none so far
  static void force(const std::string& op, std::optional<std::string> implementation);  // of this thread; tests and benchmarks
  static void explain(bool on);                                                         // whole process: log each new choice once

 private:
  size_t choose(Refusal (*refuse)(const void*, size_t), const void* context) const;

  std::string_view op_;
  std::span<const std::string_view> implementations_;
};

}  // namespace longhaul::kernels
