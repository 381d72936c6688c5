// Chooses the implementation of an operator: in an ordered list, each entry either refuses with a reason or
// accepts the call. `--explain-dispatch` prints the reasons; tests ask which implementation answered.
// Choosing is thread-safe; the record of the last choice is per thread.
//
//   constexpr std::string_view kImplementations[] = {"cuda", "cpu", "aten"};
//   const Dispatcher dispatcher("norm", kImplementations);
//   const size_t chosen = dispatcher.choose([&](size_t i) { return i == 0 ? refuse_cuda(x) : Refusal(); });
//
// This happens in every call of every operator, so it allocates memory only at an operator's first choice
// on a thread: names and reasons are literals, and are converted to strings only on request.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longhaul::kernels {

// Why an implementation does not accept a call: a literal, or other text that is never freed. Empty: it
// accepts the call.
class Refusal {
 public:
  constexpr Refusal() = default;
  constexpr Refusal(const char* reason)
      : reason_(reason) {}  // NOLINT(google-explicit-constructor): a literal is a reason
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

// A name and a list, which must be a literal and a static array, because records keep both. Constructed
// where it is used.
class Dispatcher {
 public:
  static constexpr size_t kMostImplementations = 8;

  template <size_t N>
  constexpr Dispatcher(const char* op, const std::string_view (&implementations)[N])
      : op_(op), implementations_(implementations) {
    static_assert(N <= kMostImplementations);
  }
  // Tries the implementations in order; refuse(i) is the Refusal of implementation i. Returns the index of
  // the first that accepts the call: one of them must accept everything. A name set by force() is the only
  // one tried, and its refusal is an error.
  template <class Refuse>
  size_t choose(const Refuse& refuse) const {
    return choose(
        [](const void* context, size_t i) -> Refusal { return (*static_cast<const Refuse*>(context))(i); },
        &refuse);
  }
  // of this thread; empty names: none so far
  static Choice last(std::string_view op);
  // of this thread; tests and benchmarks
  static void force(const std::string& op, std::optional<std::string> implementation);
  // whole process: log each new choice once
  static void explain(bool on);

 private:
  size_t choose(Refusal (*refuse)(const void*, size_t), const void* context) const;

  std::string_view op_;
  std::span<const std::string_view> implementations_;
};

}  // namespace longhaul::kernels
