#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "base/text/text.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

constexpr size_t kMostRead = 1 << 20;  // bytes of one log at one look: what a faster writer says is skipped
constexpr size_t kLongestLine = 1 << 16;  // a line without an end is not kept for ever

// Written by libraries below a rank that go on after them, or by a rank that does; in small letters. NCCL's
// own warnings come before its time-out, and tell more.
constexpr std::array<std::string_view, 10> kPhrases = {
    "nccl warn",         "ecc error",        "fallen off the bus", "cuda error",  "got completion",
    "stale file handle", "no space left on", "input/output error", "async event", "bus error"};

std::string_view phrase_in(const std::string& line) {
  std::string small = line;
  std::ranges::transform(small, small.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const auto found = std::ranges::find_if(
      kPhrases, [&](std::string_view phrase) { return small.find(phrase) != std::string::npos; });
  return found == kPhrases.end() ? std::string_view() : *found;
}

}  // namespace

void LogSensor::read(const std::vector<RankLog>& logs) {
  for (const RankLog& log : logs) {
    const auto known = logs_.find(log.rank);
    if (known != logs_.end() && known->second.begins == log.begins && known->second.file == log.file)
      continue;
    logs_[log.rank] = {.file = log.file, .begins = log.begins, .read = log.begins, .rest = "", .told = {}};
  }
}

std::vector<HealthReport> LogSensor::look() {
  std::vector<HealthReport> reports;
  for (auto& [rank, log] : logs_) {
    std::ifstream file(log.file, std::ios::ate | std::ios::binary);
    if (!file) continue;  // the next look may find it
    const int64_t end = file.tellg();
    if (end <= log.read) continue;
    const int64_t from = std::max(log.read, end - static_cast<int64_t>(kMostRead));
    if (from > log.read) log.rest.clear();
    std::string text(static_cast<size_t>(end - from), '\0');
    file.seekg(from);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    log.read = from + static_cast<int64_t>(text.size());
    text.insert(0, log.rest);
    size_t begin = 0;
    for (size_t line_end = text.find('\n'); line_end != std::string::npos;
         begin = line_end + 1, line_end = text.find('\n', begin)) {
      const std::string line = text.substr(begin, line_end - begin);
      const std::string_view phrase = phrase_in(line);
      if (phrase.empty() || !log.told.insert(std::string(phrase)).second) continue;
      reports.push_back({.kind = "log",
                         .rank = rank,
                         .device = "the log of rank " + std::to_string(rank),
                         .text = brief(line, 300)});
    }
    log.rest = text.substr(begin);
    if (log.rest.size() > kLongestLine) log.rest.clear();
  }
  return reports;
}

}  // namespace longhaul::control
