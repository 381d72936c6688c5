#include <algorithm>
#include <atomic>
#include <memory>

#include "base/clock.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/threads/parallel.h"
#include "control/checks/machine_checks.h"

namespace longhaul::control {
namespace {

// Every word gets a pattern of its own, so that a word written to the wrong address is detected as well as a
// stuck bit. The function is the finaliser of SplitMix64.
uint64_t pattern(uint64_t index, uint64_t round) {
  uint64_t x = index * 0x9e3779b97f4a7c15u + round;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr int64_t kGrain = 1 << 16;

}  // namespace

int64_t wrong_words(std::span<uint64_t> words, const std::function<void(std::span<uint64_t>)>& between) {
  std::atomic<int64_t> wrong{0};
  const auto count = static_cast<int64_t>(words.size());
  // Tests each bit of each word as 0 and as 1.
  for (const uint64_t flip : {uint64_t{0}, ~uint64_t{0}}) {
    parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        words[static_cast<size_t>(i)] = pattern(static_cast<uint64_t>(i), 1) ^ flip;
    });
    if (between) between(words);
    parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
      int64_t here = 0;
      for (int64_t i = begin; i < end; ++i)
        here += words[static_cast<size_t>(i)] != (pattern(static_cast<uint64_t>(i), 1) ^ flip);
      wrong += here;
    });
  }
  return wrong;
}

CheckFinding memory_check(const CheckContext& context) {
  CheckFinding finding{.name = "memory"};
  const double wanted = context.limits["memory_bytes"] * (context.deep ? 8 : 1);
  const double available = static_cast<double>(available_memory_bytes());
  const auto bytes = static_cast<int64_t>(std::min(wanted, available / 4));
  const auto count = static_cast<size_t>(std::max<int64_t>(bytes / 8, 1));
  // Its pages are not touched before the patterns are written.
  const std::unique_ptr<uint64_t[]> memory(new uint64_t[count]);
  const std::span<uint64_t> words(memory.get(), count);
  const auto plant = [](std::span<uint64_t> planted) { planted[planted.size() / 3] ^= uint64_t{1} << 17; };
  const Stopwatch watch;
  const int64_t wrong =
      wrong_words(words, context.plant ? plant : std::function<void(std::span<uint64_t>)>());
  const double seconds = watch.seconds();
  const double rate = 4 * 8.0 * static_cast<double>(count) / seconds;  // two patterns, written and read
  finding.found =
      fmt::format("{} of patterns, written and read in {}: {}", bytes_text(static_cast<int64_t>(count) * 8),
                  duration_text(seconds),
                  wrong == 0 ? "all as written" : fmt::format("{} of {} words otherwise", wrong, 2 * count));
  finding.values = {{"bytes", 8.0 * static_cast<double>(count)},
                    {"wrong_words", static_cast<double>(wrong)},
                    {"pattern_bytes_per_second", rate}};
  if (wrong > 0)
    finding.make(CheckStatus::kFailed, "every word as it was written",
                 "memory that fails: take the machine out, and test it (memtest86+, edac-util)");
  return finding;
}

}  // namespace longhaul::control
