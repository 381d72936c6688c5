#include "puzzles/maker.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "base/process/signals.h"
#include "base/threads/parallel.h"

namespace longhaul::puzzles {
namespace {

constexpr uint64_t kMostAttempts = 1000;
constexpr int64_t kMostAtOnce = 256;  // indexes between two looks at what is double
constexpr int64_t kMostWithout = 1024;

}  // namespace

std::optional<MadePuzzle> make_puzzle(const TaskEntry& task, const KnobValues& knobs, uint64_t seed,
                                      int64_t index) {
  for (uint64_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    Draw draw({.task = task.key,
               .version = task.version,
               .seed = seed,
               .index = static_cast<uint64_t>(index),
               .attempt = attempt});
    std::optional<Puzzle> puzzle = task.generate(knobs, draw);
    if (!puzzle) continue;
    const Verdict verdict = task.verify(puzzle->given, puzzle->solution);
    LONGHAUL_ASSERT(verdict.accepted(), "{} seed {} index {}: {}", task.key, seed, index, verdict.text);
    const uint64_t hash = xxh3(task.canonical(puzzle->given));
    return MadePuzzle{std::move(*puzzle), index, static_cast<int64_t>(attempt) + 1, hash};
  }
  return std::nullopt;
}

std::vector<MadePuzzle> make_puzzles(const MakeRequest& request,
                                     const std::function<void(int64_t made)>& progress) {
  KnownPuzzles known;
  return make_puzzles(request, known, progress);
}

std::vector<MadePuzzle> make_puzzles(const MakeRequest& request, KnownPuzzles& known,
                                     const std::function<void(int64_t made)>& progress) {
  std::vector<MadePuzzle> all;
  int64_t without = 0;  // indexes one after the other that gave nothing new
  for (int64_t first = request.first_index; static_cast<int64_t>(all.size()) < request.count;) {
    throw_if_stop_requested("making puzzles");
    // A few more than are missing, in the places of those that will be double; never a matter of threads, so
    // that an error is not one either.
    const int64_t missing = request.count - static_cast<int64_t>(all.size()),
                  at_once = std::min(missing + missing / 8 + 2, kMostAtOnce);
    std::vector<std::optional<MadePuzzle>> made(static_cast<size_t>(at_once));
    parallel_items(at_once, threads(), [&](const auto& each) {
      each([&](int64_t i) {
        made[static_cast<size_t>(i)] = make_puzzle(*request.task, request.knobs, request.seed, first + i);
      });
    });
    first += at_once;
    for (std::optional<MadePuzzle>& one : made) {
      if (static_cast<int64_t>(all.size()) == request.count) break;
      if (!one || !known.insert(one->hash).second) {
        ++without;
        continue;
      }
      without = 0;
      all.push_back(std::move(*one));
    }
    if (progress) progress(static_cast<int64_t>(all.size()));
    if (without >= kMostWithout)
      throw Error(
          {.code = ExitCode::kUsage,
           .what = fmt::format("{} has no more different puzzles with these knobs", request.task->key),
           .expected = fmt::format("{} of them", request.count),
           .found = fmt::format("{}", all.size()),
           .hint = "ask for fewer (--count), or for another level or other knobs"});
  }
  return all;
}

}  // namespace longhaul::puzzles
