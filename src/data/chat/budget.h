// Budget: what rendering a template has used of its limits, and the failure that ends it. Every step, text
// and list entry is charged before it is made, so a template that loops, recurses or doubles a text ends with
// an error in bounded time and memory.
#pragma once

#include <fmt/format.h>

#include <string>

#include "data/chat/chat_template.h"

namespace longhaul::data::chat {

// A mistake in a template, or in what it is given. The parser and the evaluator add the line and turn it into
// an Error.
struct Failure {
  std::string what;
  bool raised = false;  // by the template's raise_exception
};

template <class... Parts>
[[noreturn]] void fail(fmt::format_string<Parts...> text, Parts&&... parts) {
  throw Failure{fmt::format(text, std::forward<Parts>(parts)...)};
}

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}
  const TemplateLimits& limits() const { return limits_; }

  void steps(int64_t count = 1) {
    steps_ += count;
    if (count > limits_.steps || steps_ > limits_.steps)
      fail("the template takes more than {} steps: it loops", limits_.steps);
  }
  void text(size_t bytes) {
    const auto more = static_cast<int64_t>(bytes);
    if (more > limits_.output_bytes) fail("a text has more than {} bytes", limits_.output_bytes);
    text_bytes_ += more;
    if (text_bytes_ > limits_.text_bytes)
      fail("the texts that the template makes have more than {} bytes", limits_.text_bytes);
    steps(more / 64);
  }
  void nested(int64_t depth) const {
    if (depth > limits_.nested_values) fail("values are nested more than {} deep", limits_.nested_values);
  }

 private:
  const TemplateLimits& limits_;
  int64_t steps_ = 0, text_bytes_ = 0;
};

}  // namespace longhaul::data::chat
