#include "cli/detect/detect_look.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "detect/minder/stream.h"

namespace longhaul::cli {

void LookArguments::declare(Command& command) {
  command.option("--models", models, "file that `detect train` wrote").required();
  command.option("--variant", variant, "minder, raw (no denoising), mean, robust-z, con, int, md or md-joint")
      .one_of(detect::variant_names())
      .default_shown();
  command.option("--distance", distance, "euclidean, manhattan or chebyshev")
      .one_of({"euclidean", "manhattan", "chebyshev"})
      .default_shown();
  command.option("--metrics", metrics,
                 "used, fewer, more, all, or names with commas (default: all that there are models of)");
  command.option("--priority", priority, "order of metrics: learnt, tree (only those in the tree) or paper")
      .one_of({"learnt", "tree", "paper"})
      .default_shown();
  command.option("--top", top, "faulty machines that may be found at once")
      .at_least(1)
      .at_most(16)
      .default_shown();
  command
      .option("--followed", followed,
              "the furthest machines whose runs are counted; 0: an eighth of their class, 1 to 16")
      .at_least(0)
      .at_most(64)
      .default_shown();
  command.option("--continuity", continuity_s, "seconds that a machine must stay the furthest")
      .at_least(1)
      .at_most(86'400)
      .default_shown();
  command.option("--gap", gap_s, "seconds in a row that may lack it")
      .at_least(0)
      .at_most(3'600)
      .default_shown();
  command
      .option(
          "--agreement-from", agreement_from,
          "machines of a class beyond which a metric needs another that agrees, or twice the time; 0: never")
      .at_least(0)
      .default_shown();
  command.option("--share", share, "score above which a machine is a candidate, 0 to 1 (default: as tuned)")
      .at_least(0)
      .at_most(1);
  command
      .option("--distance-threshold", distance_threshold,
              "median distance that it must have, of values in 0 to 1 (default: as tuned)")
      .at_least(0);
  command.option("--silent", silent_s, "seconds without data after which a machine is named")
      .above(0)
      .default_shown();
  command.option("--pull", pull_s, "seconds that a call looks at").at_least(16).default_shown();
  command.option("--every", every_s, "seconds between calls").at_least(1).default_shown();
  command.flag("--strict", strict, "no gaps");
  command.flag("--no-continuity", no_continuity, "half of the windows of one minute are enough");
  command.flag("--stream", stream, "second by second instead of in calls");
  command.json_flag(json);
}

detect::DetectOptions LookArguments::options() const {
  detect::DetectOptions made{.variant = detect::variant_named(variant),
                             .distance = detect::distance_named(distance)};
  made.priority = priority == "paper"  ? detect::Priority::kPaper
                  : priority == "tree" ? detect::Priority::kTree
                                       : detect::Priority::kLearnt;
  if (!metrics.empty()) made.metrics = detect::metric_choice(metrics);
  made.top = static_cast<int>(top), made.followed = static_cast<int>(followed),
  made.continuous = !no_continuity, made.continuity_s = continuity_s, made.gap_s = strict ? 0 : gap_s,
  made.agreement_from = agreement_from;
  made.share = share, made.distance_threshold = distance_threshold;
  made.silent_s = silent_s, made.call_every_s = every_s, made.pull_s = pull_s;
  return made;
}

namespace {

bool is_absent(const detect::Pull& record, const detect::Alert& alert) {
  const auto at =
      std::find(record.machines.begin(), record.machines.end(), alert.machine) - record.machines.begin();
  return record.absent(static_cast<int32_t>(at), alert.raised_s);
}

}  // namespace

detect::RunReport looked(const detect::Pull& record, const detect::Models& models,
                         const LookArguments& look) {
  const detect::DetectOptions options = look.options();
  if (!look.stream) return detect::run_calls(record, models, options);
  detect::RunReport report;
  const Stopwatch watch;
  detect::Stream stream(models, options, record.machines, record.metrics, record.class_of, record.classes);
  std::vector<float> row(record.metrics.size() * record.machines.size());
  for (int64_t s = 0; s < record.seconds; ++s) {
    for (size_t m = 0; m < record.metrics.size(); ++m)
      std::copy(record.row(m, s), record.row(m, s) + record.count(),
                row.begin() + static_cast<std::ptrdiff_t>(m * record.machines.size()));
    for (const detect::Alert& alert : stream.next(record.first_s + static_cast<double>(s), row)) {
      if (alert.metric == detect::kNoData && is_absent(record, alert)) continue;
      const bool known = std::any_of(report.alerts.begin(), report.alerts.end(),
                                     [&](const auto& earlier) { return earlier.machine == alert.machine; });
      if (!known) report.alerts.push_back(alert);
    }
  }
  report.calls = record.seconds,
  report.call_seconds = {watch.seconds() / static_cast<double>(record.seconds)};
  report.silent = detect::silences(record, options.silent_s);
  return report;
}

}  // namespace longhaul::cli
