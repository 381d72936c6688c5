// Fuzz target of answers to puzzles: any text as a model's whole response, and as the payload of a puzzle of every task. Nothing throws, and without a pair of
// tags there is no payload.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "puzzles/engine/answer.h"
#include "puzzles/maker.h"
#include "puzzles/tasks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::puzzles;
  static const std::vector<MadePuzzle> made = [] {
    std::vector<MadePuzzle> all;
    for (const TaskEntry* task : tasks()) all.push_back(make_puzzle(*task, at_level(task->knobs, 2), 1, 0).value());
    return all;
  }();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto payload = payload_of(text);
  if (payload && text.find("</answer>") == std::string::npos) std::abort();
  has_strict_format(text);
  for (size_t i = 0; i < made.size(); ++i) {
    tasks()[i]->verify(made[i].puzzle.given, text);
    if (payload) tasks()[i]->verify(made[i].puzzle.given, *payload);
  }
  return 0;
}
