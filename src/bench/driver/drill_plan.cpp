#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/error.h"
#include "base/files/small_disk.h"
#include "base/files/temporary_folder.h"
#include "base/memory/memory_group.h"
#include "base/net/small_network.h"
#include "base/random.h"
#include "bench/driver/faults.h"

namespace longhaul::bench {
namespace {

namespace fs = std::filesystem;

// steps between two faults: each finds a checkpoint newer than the last one's
constexpr int64_t kStride = 4;
constexpr int64_t kEaten_bytes = 256 << 20;  // by a rank whose memory group has less
constexpr int64_t kMachinesEvery = 4;        // runs: one whose nodes are machines of their own

struct Kind {
  std::string_view name, action;
  bool from_outside = false;
};
// Weights: how often each stands here. Crashes and kills are most of what happens
// (docs/sources/reliability.md §2).
constexpr std::array<Kind, 19> kFaultKinds = {{{"killed", "kill"},
                                               {"killed", "kill"},
                                               {"killed", "kill"},
                                               {"segfault", "segfault"},
                                               {"segfault", "segfault"},
                                               {"aborted", "abort"},
                                               {"memory limit", "", true},
                                               {"stopped", "stop"},
                                               {"rank 0 stopped", "stop"},
                                               {"hang", "hang"},
                                               {"disk full", "", true},
                                               {"node killed", "", true},
                                               {"node frozen", "", true},
                                               {"driver killed", "", true},
                                               {"driver held up", "", true},
                                               {"driver opens no file", "", true},
                                               {"journal lost", "", true},
                                               {"daemon restarted", "", true},
                                               {"full disk at eviction", "", true}}};
// The kinds of faults in runs whose nodes are machines of their own.
constexpr std::array<Kind, 7> kKindsOfMachines = {{{"link cut", "", true},
                                                   {"link cut", "", true},
                                                   {"half-open connection", "", true},
                                                   {"half-open connection", "", true},
                                                   {"slow rank", "", true},
                                                   {"killed", "kill"},
                                                   {"node killed", "", true}}};
constexpr std::array<std::string_view, 5> kPlacesOfAStep = {"step.data", "step.passes", "step.reduce",
                                                            "step.update", "step.updated"};
constexpr std::array<std::string_view, 4> kPlacesOfACheckpoint = {
    "checkpoint.copied", "checkpoint.write", "checkpoint.before_rename", "checkpoint.after_rename"};

// How the rank of a drill from outside waits until that is over, in the drill's step and so many more: what
// lasts, or is noticed after many seconds only, has them to itself. Were there another fault until then,
// nobody would be free to do it, and one incident would be of both.
struct Waits {
  const char* place;
  double seconds = 0;  // each, at most: no hang
  int64_t more = 0;
};
Waits waits_of(const Drill& drill) {
  // its peers wait for what it computes
  if (drill.kind == "slow rank") return {.place = "step.update", .seconds = 1.1, .more = 60};
  return {.place = "step.data", .seconds = 2.2, .more = drill.kind == "memory limit" ? 0 : 9};
}

std::span<const Kind> kinds_of_run(bool machines) {
  return machines ? std::span<const Kind>(kKindsOfMachines) : std::span<const Kind>(kFaultKinds);
}

const Kind& kind_of(const Drill& drill) {
  for (const bool machines : {false, true}) {
    const auto kinds = kinds_of_run(machines);
    if (const auto found = std::ranges::find(kinds, drill.kind, &Kind::name); found != kinds.end())
      return *found;
  }
  LONGHAUL_ASSERT(false, "no drill is called {}", drill.kind);
}

Drill draw_drill(const RandomStream& random, uint64_t index, std::span<const Kind> kinds, int64_t ranks,
                 int64_t step) {
  const auto below = [&](uint64_t which, size_t count) {
    return random.below(4 * index + which, static_cast<uint64_t>(count));
  };
  const Kind& kind = kinds[below(0, kinds.size())];
  Drill drill{.kind = std::string(kind.name), .step = step, .from_outside = kind.from_outside};
  drill.rank = static_cast<int64_t>(below(1, static_cast<size_t>(ranks)));
  if (kind.from_outside) return drill;
  if (kind.name == "rank 0 stopped") drill.rank = 0;
  // A save that hangs does not hold up training: it is noticed when its own time is over, half an hour.
  const bool in_checkpoint = kind.name != "hang" && below(2, 3) == 0;
  if (!in_checkpoint) {
    drill.place = kPlacesOfAStep[below(3, kPlacesOfAStep.size())];
    return drill;
  }
  drill.place = kPlacesOfACheckpoint[below(3, kPlacesOfACheckpoint.size())];
  drill.step -= drill.step % kDrillCheckpointEvery;
  // who commits
  if (drill.place == "checkpoint.before_rename" || drill.place == "checkpoint.after_rename") drill.rank = 0;
  return drill;
}

}  // namespace

std::vector<std::string> kinds_of_drills() {
  std::vector<std::string> names;
  for (const bool machines : {false, true}) {
    for (const Kind& kind : kinds_of_run(machines)) {
      if (std::ranges::find(names, kind.name) == names.end()) names.emplace_back(kind.name);
    }
  }
  return names;
}

std::set<std::string> kinds_not_here() {
  std::set<std::string> without;
  if (!LimitedMemory("asked", 1 << 20).usable()) without.insert("memory limit");
  const TemporaryFolder folder;
  if (!SmallDisk(folder / "disk", 1 << 20).usable()) without.insert("disk full");
  if (!SmallNetwork(1).usable()) without.insert({"link cut", "half-open connection", "slow rank"});
  return without;
}

DrillPlan plan_drills(uint64_t seed, int64_t run, int64_t ranks, int64_t count,
                      const std::set<std::string>& without) {
  const RandomStream random(seed, fmt::format("bench/faults/{}", run));
  DrillPlan plan;
  plan.machines = run % kMachinesEvery == kMachinesEvery - 1 && !without.contains("link cut");
  const auto kinds = kinds_of_run(plan.machines);
  int64_t step = kStride + 1;
  for (int64_t i = 0; i < count; ++i) {
    // A second lack of memory ends a run as it should (docs/sources/reliability.md §5.3): another start would
    // not come further.
    const auto known = [&](const Drill& drill) {
      const bool second = std::ranges::find(plan.drills, drill.kind, &Drill::kind) != plan.drills.end();
      return without.contains(drill.kind) || (drill.kind == "memory limit" && second);
    };
    Drill drill = draw_drill(random, static_cast<uint64_t>(i), kinds, ranks, step);
    for (int64_t again = i + count; known(drill); again += count)
      drill = draw_drill(random, static_cast<uint64_t>(again), kinds, ranks, step);
    plan.drills.push_back(drill);
    step += kStride + (drill.from_outside ? waits_of(drill).more : 0);
  }
  plan.steps = step + kStride - 1;
  return plan;
}

std::string DrillPlan::faults(const fs::path& marks) const {
  std::string text;
  for (size_t i = 0; i < drills.size(); ++i) {
    const Drill& drill = drills[i];
    const std::string mark = mark_of(marks, i).string();
    const auto add = [&](std::string_view place, int64_t step, const std::string& what) {
      text += fmt::format("{}:step={}:rank={}{}; ", place, step, drill.rank, what);
    };
    if (!drill.from_outside) {
      add(drill.place, drill.step, fmt::format(":once={} {}", mark, kind_of(drill).action));
      continue;
    }
    if (drill.kind == "memory limit")
      add("step.passes", drill.step, fmt::format(":once={}-eats eat={}", mark, kEaten_bytes));
    const Waits waits = waits_of(drill);
    const std::string wait = fmt::format(":until={} wait={}", met_of(marks, i).string(), waits.seconds);
    add(waits.place, drill.step, fmt::format(":once={}{}", mark, wait));
    for (int64_t more = 1; more <= waits.more; ++more) add(waits.place, drill.step + more, wait);
  }
  return text;
}

}  // namespace longhaul::bench
