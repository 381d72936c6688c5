// ToolCallReader: finds the calls of tools in a text as it is written (tool_form.h has the forms). What can
// no longer be part of a call is text; a call is told once it is whole. What looks like a call and cannot be
// read as one stays text, so nothing that the model wrote is lost.
#pragma once

#include <string>
#include <vector>

#include "openai/tools/tool_form.h"

namespace longhaul::openai {

struct ToolCall {
  std::string name;
  std::string arguments;  // an object as JSON text
  bool operator==(const ToolCall&) const = default;
};

class ToolCallReader {
 public:
  explicit ToolCallReader(ToolForm form) : form_(form) {}

  struct Part {
    std::string text;
    std::vector<ToolCall> calls;
    bool empty() const { return text.empty() && calls.empty(); }
  };
  Part add(const std::string& text);
  Part end();  // no more text follows
  bool has_calls() const { return told_ > 0; }

 private:
  void take(Part& into, bool is_end);
  bool take_tagged(Part& into, bool is_end);
  void take_rest(Part& into);
  void say(Part& into, std::string text);
  void say_all_but(Part& into, size_t kept);  // the last bytes stay

  ToolForm form_;
  std::string held_;    // not told yet
  bool begun_ = false;  // some text that is no white space was told
  size_t told_ = 0;     // calls
};

}  // namespace longhaul::openai
