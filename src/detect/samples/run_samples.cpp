#include "detect/samples/run_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/text.h"
#include "detect/minder/trace.h"
#include "detect/samples/metric_files.h"

namespace longhaul::detect {
namespace {

namespace fs = std::filesystem;

constexpr double kOld_s = 60;      // since the last sample: the run has stopped, and this is reported
constexpr double kRecent_s = 120;  // before the newest: the delay of a network file system, and more
constexpr int64_t kNamed = 5;      // machines in a sentence

// "a, b, c and 3 more".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && static_cast<int64_t>(i) < kNamed; ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  return static_cast<int64_t>(names.size()) > kNamed
             ? text + fmt::format(" and {} more", static_cast<int64_t>(names.size()) - kNamed)
             : text;
}

struct NamedRing {
  SampleRing ring;
  std::string machine;
  double first_s() const { return ring.rows.front().time_s; }
  double last_s() const { return ring.rows.back().time_s; }
};

std::vector<NamedRing> rings_of(const fs::path& run_folder, std::vector<std::string>& remarks) {
  std::vector<NamedRing> rings;
  std::map<std::string, int> nodes_of_host;
  for (const fs::path& file : ring_files(run_folder)) {
    try {
      rings.push_back({.ring = read_ring(file)});
      ++nodes_of_host[rings.back().ring.owner.host];
    } catch (const Error& error) {
      remarks.push_back(fmt::format("{}: {}, {} instead of {}", file.string(), error.fields().what,
                                    error.fields().found, error.fields().expected));
    }
  }
  for (NamedRing& each : rings) {
    const RingOwner& owner = each.ring.owner;
    each.machine = nodes_of_host[owner.host] == 1 ? owner.host : owner.host + "/" + owner.node;
  }
  return rings;
}

void cut_at(std::vector<NamedRing>& rings, double end_s) {
  for (NamedRing& each : rings)
    std::erase_if(each.ring.rows, [&](const RingRow& row) { return row.time_s > end_s + 0.5; });
  std::erase_if(rings, [](const NamedRing& each) { return each.ring.rows.empty(); });
}

// The last second that more than half of the still reporting machines have reached.
double common_end(const std::vector<NamedRing>& rings) {
  std::vector<double> last;
  for (const NamedRing& each : rings) last.push_back(each.last_s());
  std::ranges::sort(last, std::greater{});
  const double newest = last[std::min<size_t>(last.size(), static_cast<size_t>(kFewestPeers)) - 1];
  std::erase_if(last, [&](double time) { return time < newest - kRecent_s; });
  return std::round(last[last.size() / 2]);
}

// Only those with samples in the examined seconds.
void leave_out_others(std::vector<NamedRing>& rings, double begin_s, double end_s,
                      std::vector<std::string>& remarks) {
  std::vector<std::string> ended, ahead;
  double last_end_s = 0, first_begin_s = std::numeric_limits<double>::infinity();
  std::erase_if(rings, [&](const NamedRing& each) {
    const bool before = each.last_s()<begin_s, after = each.first_s()> end_s + 0.5;
    if (before) ended.push_back(each.machine), last_end_s = std::max(last_end_s, each.last_s());
    if (after) ahead.push_back(each.machine), first_begin_s = std::min(first_begin_s, each.first_s());
    return before || after;
  });
  if (!ended.empty())
    remarks.push_back(fmt::format("samples of {} ended before the time looked at, the last at {}",
                                  listed(ended), wall_time_text(last_end_s)));
  if (!ahead.empty())
    remarks.push_back(fmt::format(
        "samples of {} begin after the last second of the others ({}), the first at {}: compare the clocks",
        listed(ahead), wall_time_text(end_s), wall_time_text(first_begin_s)));
}

void say_what_is_lost(const std::vector<NamedRing>& rings, std::vector<std::string>& remarks) {
  std::map<std::string, std::vector<std::string>> machines;  // nodes by kernel
  for (const NamedRing& each : rings) {
    if (each.ring.damaged > 0) {
      remarks.push_back(fmt::format("{} of {}: damaged ({})", counted(each.ring.damaged, "sample"),
                                    printable(each.machine), each.ring.path.string()));
    }
    if (each.ring.undone > 0) {
      remarks.push_back(fmt::format("{} of {}: its clock was set back behind them",
                                    counted(each.ring.undone, "sample"), printable(each.machine)));
    }
    if (!each.ring.owner.ranks_alone) machines[each.ring.owner.boot].push_back(each.machine);
  }
  for (const auto& [boot, names] : machines) {
    if (names.size() > 1)
      remarks.push_back(fmt::format(
          "{} are one machine with the same counters: none of them can stand apart from the others",
          listed(names)));
  }
}

// By metric, only the seconds in which any machine has a row.
std::vector<Series> series_of(const std::vector<NamedRing>& rings, const std::vector<size_t>& wanted,
                              double begin_s, double end_s, const std::string& where) {
  const auto seconds = static_cast<size_t>(end_s - begin_s) + 1, count = rings.size();
  constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::vector<size_t> row_at(seconds * count, kNone);  // [second][machine]
  std::vector<bool> any(seconds, false);
  for (size_t i = 0; i < count; ++i) {
    const auto& rows = rings[i].ring.rows;
    for (size_t r = 0; r < rows.size(); ++r) {
      const double second = std::round(rows[r].time_s) - begin_s;
      if (second < 0 || second >= static_cast<double>(seconds) || rows[r].ended) continue;
      row_at[static_cast<size_t>(second) * count + i] = r, any[static_cast<size_t>(second)] = true;
    }
  }
  std::vector<Series> all;
  for (const size_t metric : wanted) {
    Series series{.metric = metric, .where = where};
    for (const NamedRing& each : rings) series.machines.push_back(each.machine);
    bool measured = false;
    for (size_t s = 0; s < seconds; ++s) {
      if (!any[s]) continue;
      series.times_s.push_back(begin_s + static_cast<double>(s));
      for (size_t i = 0; i < count; ++i) {
        const size_t row = row_at[s * count + i];
        series.values.push_back(row == kNone ? std::numeric_limits<float>::quiet_NaN()
                                             : rings[i].ring.rows[row].values[metric]);
        measured = measured || !std::isnan(series.values.back());
      }
    }
    if (measured) all.push_back(std::move(series));  // a metric that no machine has is missing
  }
  return all;
}

// From the end of a node's ranks until its next sample.
std::vector<Absence> absences_of(const std::vector<NamedRing>& rings,
                                 const std::vector<std::string>& machines) {
  std::vector<Absence> all;
  for (const NamedRing& each : rings) {
    const auto machine =
        static_cast<int32_t>(std::ranges::lower_bound(machines, each.machine) - machines.begin());
    const auto& rows = each.ring.rows;
    for (size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].ended)
        all.push_back({machine, rows[r].time_s,
                       r + 1 < rows.size() ? rows[r + 1].time_s : std::numeric_limits<double>::infinity()});
    }
  }
  return all;
}

[[noreturn]] void nothing_there(const fs::path& run_folder, std::string found, std::string hint) {
  throw Error(
      {.code = ExitCode::kData,
       .what = "the run has no samples of its machines",
       .expected =
           "a ring of each node, samples/NODE.ring, that the daemons of `launch` keep while ranks run",
       .found = std::move(found),
       .where = run_folder.string(),
       .hint = std::move(hint)});
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

}  // namespace

fs::path samples_folder(const fs::path& run_folder) { return run_folder / "samples"; }

std::vector<fs::path> ring_files(const fs::path& run_folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(samples_folder(run_folder), none)) {
    if (entry.path().extension() == ".ring") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

bool has_rings(const fs::path& run_folder) { return !ring_files(run_folder).empty(); }

RunSamples read_run_samples(const fs::path& run_folder, const std::vector<size_t>& wanted,
                            const AlignOptions& options, const RunTime& time) {
  if (!has_rings(run_folder))
    nothing_there(run_folder, fs::exists(run_folder) ? "none" : "no such folder",
                  "plain `train` keeps none: start the run with `launch`");
  RunSamples result;
  std::vector<NamedRing> rings = rings_of(run_folder, result.remarks);
  cut_at(rings, time.end_s);
  if (rings.empty()) {
    const std::string why = joined(result.remarks);
    nothing_there(run_folder, why.empty() ? "rings without samples in that time" : why, "");
  }
  const double end_s = common_end(rings), begin_s = end_s - static_cast<double>(time.seconds) + 1;
  leave_out_others(rings, begin_s, end_s, result.remarks);
  if (static_cast<int64_t>(rings.size()) < kFewestPeers && !result.remarks.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "too few machines to compare",
                 .expected = fmt::format("samples of at least {} at one time", kFewestPeers),
                 .found = fmt::format("{}; {}", counted(static_cast<int64_t>(rings.size()), "machine"),
                                      joined(result.remarks)),
                 .where = samples_folder(run_folder).string()});
  }
  say_what_is_lost(rings, result.remarks);
  if (time.now_s - end_s > kOld_s) {
    result.remarks.push_back(fmt::format("what came after {}: the last samples are {} old",
                                         wall_time_text(end_s), duration_text(time.now_s - end_s)));
  }
  result.pull =
      aligned(series_of(rings, wanted, begin_s, end_s, samples_folder(run_folder).string()), wanted, options);
  result.pull.absences = absences_of(rings, result.pull.machines);
  if (const fs::path classes = samples_folder(run_folder) / "machines.csv"; fs::exists(classes))
    set_classes(result.pull, read_classes(classes));
  return result;
}

RunSamples read_samples(const fs::path& folder, const std::vector<size_t>& wanted,
                        const AlignOptions& options, const RunTime& time) {
  const bool is_run = fs::exists(folder / "events.jsonl");
  if (has_rings(folder) || (is_run && !has_metrics(folder)))
    return read_run_samples(folder, wanted, options, time);
  return {.pull = read_folder(folder, wanted, options)};
}

bool has_samples(const fs::path& folder) { return has_rings(folder) || has_metrics(folder); }

std::vector<fs::path> case_folders(std::span<const std::string> folders) {
  std::vector<fs::path> found;
  for (const std::string& name : folders) {
    const size_t before = found.size();
    if (has_samples(name)) {
      found.emplace_back(name);
      continue;
    }
    if (fs::is_directory(name)) {
      for (const auto& entry : fs::directory_iterator(name)) {
        if (entry.is_directory() && has_samples(entry.path())) found.push_back(entry.path());
      }
      std::sort(found.begin() + static_cast<std::ptrdiff_t>(before), found.end());
    }
    if (found.size() == before) {
      throw Error({.code = ExitCode::kData,
                   .what = "no metrics are in the folder",
                   .expected = "CSV files named after metrics, such as cpu_usage.csv, or a run's "
                               "samples/*.ring, there or one folder below",
                   .found = fs::exists(name) ? "none" : "no such folder",
                   .where = name});
    }
  }
  return found;
}

}  // namespace longhaul::detect
