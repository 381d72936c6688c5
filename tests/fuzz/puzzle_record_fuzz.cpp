// Fuzz target of puzzles that others have written: the first line is the key of a task, or none; what follows
// is a line of a data set, as we or a public generator would write it. It is refused with an error of the
// data, or it can be judged, counted and written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "puzzles/records.h"
#include "puzzles/tasks.h"

namespace {

using namespace longhaul::puzzles;

const TaskEntry* task_of_line(const std::string& key) {
  for (const TaskEntry* task : tasks()) {
    if (task->key == key) return task;
  }
  return nullptr;
}

template <class Body>
bool only_bad_data(const Body& body) {
  try {
    body();
    return true;
  } catch (const longhaul::Error& error) {
    if (error.code() != longhaul::ExitCode::kData) std::abort();
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  if (end == std::string::npos) return 0;
  ReadRecord record;
  if (!only_bad_data(
          [&] { record = read_record(text.substr(end + 1), "line", task_of_line(text.substr(0, end))); }))
    return 0;
  generator_object(record).dump();
  const TaskEntry& task = *record.task;
  for (const std::string& payload : {record.answer, std::string("[[1]]")}) {
    only_bad_data([&] { task.verify(record.given, payload); });
  }
  if (task.count_solutions != nullptr) {
    SearchBudget budget{.nodes = 200};
    only_bad_data([&] { task.count_solutions(record.given, 2, budget); });
  }
  return 0;
}
