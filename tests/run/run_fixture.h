// RunFixture: a folder for whole runs, texts for them to learn, and what they wrote of their steps.
// tiny_run.h has a model that is quickly trained.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/files/temporary_folder.h"
#include "observe/events/event_log.h"

namespace longhaul::run {

class RunFixture : public ::testing::Test {
 protected:
  // Writes forty files into folder_ / "text", where a run's data.source may point; file i has lines_of(i)
  // lines.
  void write_text(const std::function<int(int)>& lines_of) const {
    std::filesystem::create_directories(folder_ / "text");
    for (int i = 0; i < 40; ++i) {
      std::ofstream file(folder_ / "text" / (std::to_string(i) + ".txt"));
      for (int j = 0; j < lines_of(i); ++j) file << "line " << j * i << " of file " << i << "\n";
    }
  }

  // The events of one type that the run in folder_ / run wrote, in order.
  template <class Type>
  std::vector<Type> events(const std::string& run, const std::string& file = "events.jsonl") const {
    std::vector<Type> found;
    for (const auto& event : observe::read_events(folder_ / run / file)) {
      if (const auto* body = std::get_if<Type>(&event.body)) found.push_back(*body);
    }
    return found;
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> all;
    for (const auto& step : events<observe::StepReport>(run)) all.push_back(step.loss);
    return all;
  }

  TemporaryFolder folder_;
};

}  // namespace longhaul::run
