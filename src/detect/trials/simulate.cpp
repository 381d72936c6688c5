#include "detect/trials/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "base/threads/parallel.h"

namespace longhaul::detect {
namespace {

constexpr float kNoSample = std::numeric_limits<float>::quiet_NaN();

// The behaviour of a metric in a healthy cluster, in shares of its limits: the seven used ones as given, the
// others by similarity to them.
struct Behaviour {
  double level, amplitude;
  MetricGroup shows;  // with which group of metrics a fault shows here
  bool idles;         // falls while checkpoints are written, and when others wait for a faulty machine
};

Behaviour behaviour_of(size_t metric) {
  using Group = MetricGroup;
  static constexpr Behaviour kBehaviours[kMetrics] = {
      {.05, .02, Group::kPfc, false},    {.35, .05, Group::kCpu, false},    {.90, .05, Group::kGpu, true},
      {.75, .08, Group::kGpu, true},     {.85, .06, Group::kGpu, true},     {.45, .12, Group::kGpu, true},
      {.40, .12, Group::kNvlink, false}, {.80, .07, Group::kGpu, true},     {.30, .08, Group::kGpu, true},
      {.50, .10, Group::kGpu, true},     {.90, .01, Group::kGpu, false},    {.60, .01, Group::kGpu, false},
      {.80, .01, Group::kMemory, false}, {.20, .06, Group::kPfc, false},    {.25, .06, Group::kPfc, false},
      {.05, .02, Group::kPfc, false},    {.05, .02, Group::kPfc, false},    {.10, .05, Group::kCpu, false},
      {.30, .10, Group::kNvlink, false}, {.55, .01, Group::kMemory, false}, {.50, .00, Group::kDisk, false}};
  return kBehaviours[metric];
}

// Successive numbers from a stream of their own.
class Draw {
 public:
  Draw(uint64_t seed, const std::string& name) : stream_(seed, name) {}
  double uniform(double low = 0, double high = 1) { return low + (high - low) * stream_.uniform(at_++); }
  double normal(double deviation = 1) { return deviation * stream_.normal(at_++); }
  bool chance(double probability) { return uniform() < probability; }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(stream_.below(at_++, static_cast<uint64_t>(bound)));
  }
  double lognormal(double log_mean, double log_deviation) {
    return std::exp(log_mean + normal(log_deviation));
  }

 private:
  RandomStream stream_;
  uint64_t at_ = 0;
};

struct Span {
  int64_t begin, end;
  bool holds(int64_t second) const { return second >= begin && second < end; }
};

// The properties that all metrics and machines of a case share.
struct Cluster {
  double period = 10;
  std::vector<double> phase;  // a machine, in seconds
  std::vector<Span> checkpoints, evaluations;
  double jitters_per_hour = 1.5;
  bool drifts = false;
  int64_t straggler = -1, noisy = -1, late = -1, late_begins = 0;
};

Cluster cluster_of(const CaseSpec& spec, int64_t seconds, bool normal) {
  Draw draw(spec.seed, "detect/cluster");
  Cluster cluster;
  cluster.period = spec.shifted ? draw.uniform(25, 60) : draw.uniform(4, 25);
  for (int64_t i = 0; i < spec.machines; ++i) cluster.phase.push_back(draw.normal(0.3));
  int64_t checkpoints = draw.below(3);
  // One normal case in ten each has many jitters, many checkpoints, drifting loads.
  const double kind = normal ? draw.uniform() : 1;
  if (kind < .1)
    cluster.jitters_per_hour *= 4;
  else if (kind < .2)
    checkpoints += 4;
  cluster.drifts = spec.structure.expert_drift || (kind >= .2 && kind < .3);
  for (int64_t i = 0; i < checkpoints * spec.episodes; ++i) {
    const int64_t begin = draw.below(seconds);
    cluster.checkpoints.push_back({begin, begin + static_cast<int64_t>(draw.uniform(8, 30))});
  }
  if (spec.structure.evaluations) {
    const int64_t begin = draw.below(seconds);
    cluster.evaluations.push_back({begin, begin + static_cast<int64_t>(draw.uniform(60, 180))});
  }
  if (spec.structure.stragglers) cluster.straggler = draw.below(spec.machines);
  if (spec.structure.noisy_machine) cluster.noisy = draw.below(spec.machines);
  if (spec.structure.late_machine)
    cluster.late = draw.below(spec.machines), cluster.late_begins = draw.below(seconds / 2);
  return cluster;
}

const FaultType& drawn_type(Draw& draw, bool evaluation_mix) {
  double sum = 0;
  for (const FaultType& type : fault_types()) sum += evaluation_mix ? type.evaluation_share : type.share;
  double at = draw.uniform(0, sum);
  for (const FaultType& type : fault_types()) {
    at -= evaluation_mix ? type.evaluation_share : type.share;
    if (at < 0) return type;
  }
  return fault_types().back();
}

Fault drawn_fault(const CaseSpec& spec, int64_t episode) {
  Draw draw(spec.seed, fmt::format("detect/fault/{}", episode));
  const FaultType& type =
      spec.fault == "any" ? drawn_type(draw, spec.evaluation_mix) : fault_named(spec.fault);
  Fault fault{.type = std::string(type.name), .machine = static_cast<int32_t>(draw.below(spec.machines))};
  const double length = std::clamp(draw.lognormal(std::log(420), .45), 60.0, 800.0);
  fault.end_s = (episode + 1) * spec.seconds;
  fault.onset_s = fault.end_s - std::min(spec.seconds, static_cast<int64_t>(length));
  fault.severity = !spec.shifted     ? draw.uniform(.12, .7)
                   : draw.chance(.5) ? draw.uniform(.06, .12)
                                     : draw.uniform(.7, .9);
  const bool pfc = draw.chance(type.pfc), cpu = draw.chance(type.cpu), gpu = draw.chance(type.gpu),
             nvlink = draw.chance(type.nvlink);
  for (size_t metric = 0; metric < kMetrics; ++metric) {
    const MetricGroup group = behaviour_of(metric).shows;
    const bool moves = group == MetricGroup::kGpu && draw.chance(.8);
    if ((group == MetricGroup::kPfc && pfc) || (group == MetricGroup::kCpu && cpu) || (gpu && moves) ||
        (group == MetricGroup::kNvlink && nvlink))
      fault.metrics.push_back(metric);
  }
  if (type.spreads && draw.chance(.35) && spec.machines >= 8) {
    while (fault.group.size() < 3) {
      const auto other = static_cast<int32_t>(draw.below(spec.machines));
      if (other != fault.machine &&
          std::find(fault.group.begin(), fault.group.end(), other) == fault.group.end())
        fault.group.push_back(other);
    }
  }
  return fault;
}

// The effect of the faults on one metric: a factor and a term for each faulty machine, and the slow-down of
// all.
struct Effect {
  const Fault* fault;
  std::vector<int32_t> machines;
  std::vector<double> factor, term;
  double everyone = 1;
  bool silent = false;
};

std::vector<Effect> effects_on(size_t metric, const Case& from) {
  std::vector<Effect> effects;
  for (size_t episode = 0; episode < from.faults.size(); ++episode) {
    const Fault& fault = from.faults[episode];
    Draw draw(from.spec.seed, fmt::format("detect/effect/{}/{}", episode, metrics()[metric].name));
    Draw shared(from.spec.seed, fmt::format("detect/slow-down/{}", episode));
    Effect effect{.fault = &fault};
    const Behaviour behaviour = behaviour_of(metric);
    if (behaviour.idles) effect.everyone = 1 - shared.uniform(0, .3);
    const bool shows = std::find(fault.metrics.begin(), fault.metrics.end(), metric) != fault.metrics.end();
    const double cpu_sign = draw.chance(.7) ? -1 : 1;
    for (size_t i = 0; i <= fault.group.size(); ++i) {
      const double s = fault.severity + (i == 0 ? 0 : draw.normal(.02));
      effect.machines.push_back(i == 0 ? fault.machine : fault.group[i - 1]);
      effect.term.push_back(shows && behaviour.shows == MetricGroup::kPfc ? s : 0);
      effect.factor.push_back(!shows || behaviour.shows == MetricGroup::kPfc ? 1
                              : behaviour.shows == MetricGroup::kCpu         ? 1 + cpu_sign * s
                                                                             : 1 - s);
    }
    effect.silent = from.spec.structure.data_stops && fault.type == "machine_unreachable";
    effects.push_back(std::move(effect));
  }
  return effects;
}

void add_jitters(Draw& draw, const Cluster& cluster, int64_t seconds, std::vector<double>& values) {
  // Waiting times between jitters are exponential.
  const double per_second = cluster.jitters_per_hour / 3600;
  for (double at = 0;;) {
    at += -std::log(1 - draw.uniform()) / per_second;
    if (at >= static_cast<double>(seconds)) return;
    const auto begin = static_cast<int64_t>(at),
               end = std::min(seconds, begin + std::max<int64_t>(1, std::llround(draw.lognormal(2.7, .9))));
    const double size = draw.uniform(.1, .5) * (draw.chance(.5) ? 1 : -1);
    for (int64_t s = begin; s < end; ++s) values[static_cast<size_t>(s)] += size;
  }
}

struct MetricDraws {
  double level, amplitude, deviation;
};

// One machine's series of one metric, in shares.
void machine_series(const Case& from, const Cluster& cluster, size_t metric, int64_t machine,
                    const MetricDraws& of, const std::vector<Effect>& effects, std::vector<double>& values) {
  const int64_t seconds = static_cast<int64_t>(values.size());
  Draw draw(from.spec.seed, fmt::format("detect/machine/{}/{}", metrics()[metric].name, machine));
  const Behaviour behaviour = behaviour_of(metric);
  const bool noisy = machine == cluster.noisy;
  const double offset = draw.normal(.006), deviation = of.deviation * (noisy ? 3 : 1),
               drift_phase = draw.uniform(0, 2 * std::numbers::pi);
  double level = of.level;
  if (from.spec.structure.stage_levels && behaviour.idles) {
    if (machine < from.spec.machines / 4) level *= .9;
    if (machine >= from.spec.machines - from.spec.machines / 4) level *= 1.08;
  }
  const double phase = cluster.phase[static_cast<size_t>(machine)];
  double noise = draw.normal(deviation);
  for (int64_t s = 0; s < seconds; ++s) {
    double x =
        level +
        of.amplitude * std::sin(2 * std::numbers::pi * (static_cast<double>(s) + phase) / cluster.period) +
        offset;
    if (cluster.drifts && behaviour.idles)
      x *= 1 + .05 * std::sin(2 * std::numbers::pi * static_cast<double>(s) / 700 + drift_phase);
    if (machine == cluster.straggler && behaviour.idles) x *= .97;
    x += noise;
    noise = .6 * noise + draw.normal(.8 * deviation);  // stationary: √(1 − .6²) = .8
    values[static_cast<size_t>(s)] = x;
  }
  add_jitters(draw, cluster, seconds, values);
  for (int64_t s = 0; s < seconds; ++s) {
    double& x = values[static_cast<size_t>(s)];
    const auto during = [&](const std::vector<Span>& spans) {
      return std::any_of(spans.begin(), spans.end(), [&](const Span& span) { return span.holds(s); });
    };
    if (behaviour.idles && during(cluster.checkpoints)) x *= .4;
    if (behaviour.idles && during(cluster.evaluations)) x *= .7;
    for (const Effect& effect : effects) {
      if (s < effect.fault->onset_s || s >= effect.fault->end_s) continue;
      if (s >= effect.fault->onset_s + 2) x *= effect.everyone;
      for (size_t i = 0; i < effect.machines.size(); ++i) {
        if (effect.machines[i] != machine) continue;
        x = effect.silent ? std::nan("") : x * effect.factor[i] + effect.term[i];
      }
    }
    if (from.spec.glitches && draw.chance(.02)) x += draw.uniform(.1, .5) * (draw.chance(.5) ? 1 : -1);
    x = std::clamp(x, 0.0, 1.0);  // NaN stays
    if (draw.chance(.01) || (machine == cluster.late && s < cluster.late_begins)) x = std::nan("");
  }
}

void refuse_bad(const CaseSpec& spec) {
  const auto refuse = [](const char* option, std::string expected, int64_t found) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "cannot simulate that",
                 .expected = std::move(expected),
                 .found = fmt::format("{}", found),
                 .where = option});
  };
  if (spec.machines < 1 || spec.machines > 20'000)
    refuse("--machines", "1 to 20,000 machines", spec.machines);
  if (spec.seconds < 60 || spec.seconds > 86'400) refuse("--seconds", "60 to 86,400 seconds", spec.seconds);
  if (spec.episodes < 1 || spec.episodes > 100) refuse("--episodes", "1 to 100 faults", spec.episodes);
  if (spec.fault != "any" && spec.fault != "none") fault_named(spec.fault);
}

}  // namespace

bool detectable(const Fault& fault, const std::vector<size_t>& looked_at, int64_t continuity_s) {
  if (fault.end_s - fault.onset_s < continuity_s) return false;
  return std::any_of(fault.metrics.begin(), fault.metrics.end(), [&](size_t metric) {
    return std::find(looked_at.begin(), looked_at.end(), metric) != looked_at.end();
  });
}

Case simulate(const CaseSpec& spec) {
  refuse_bad(spec);
  Case result{.spec = spec};
  const int64_t seconds = spec.seconds * spec.episodes;
  for (int64_t episode = 0; spec.fault != "none" && episode < spec.episodes; ++episode)
    result.faults.push_back(drawn_fault(spec, episode));
  const Cluster cluster = cluster_of(spec, seconds, result.faults.empty());

  Pull& pull = result.pull;
  pull.metrics = spec.metrics, pull.seconds = seconds;
  const int digits = spec.machines > 10'000 ? 5 : 4;
  for (int64_t i = 0; i < spec.machines; ++i)
    pull.machines.push_back(fmt::format("machine-{:0{}}", i, digits));
  pull.class_of.assign(pull.machines.size(), 0), pull.classes = {"all"};
  if (spec.structure.stage_levels) {
    pull.classes = {"first-stage", "last-stage", "middle-stages"};
    for (int64_t i = 0; i < spec.machines; ++i)
      pull.class_of[static_cast<size_t>(i)] = i < spec.machines / 4                    ? 0
                                              : i >= spec.machines - spec.machines / 4 ? 1
                                                                                       : 2;
  }
  pull.values.assign(spec.metrics.size() * static_cast<size_t>(seconds * spec.machines), kNoSample);
  for (size_t m = 0; m < spec.metrics.size(); ++m) {
    const size_t metric = spec.metrics[m];
    Draw draw(spec.seed, fmt::format("detect/metric/{}", metrics()[metric].name));
    const Behaviour behaviour = behaviour_of(metric);
    const MetricDraws of{behaviour.level * draw.uniform(.9, 1.1), behaviour.amplitude * draw.uniform(.5, 1.2),
                         spec.shifted ? draw.uniform(.025, .04) : draw.uniform(.008, .025)};
    const std::vector<Effect> effects = effects_on(metric, result);
    parallel_for(0, spec.machines, 4, [&](int64_t begin, int64_t end) {
      std::vector<double> values(static_cast<size_t>(seconds));
      for (int64_t machine = begin; machine < end; ++machine) {
        machine_series(result, cluster, metric, machine, of, effects, values);
        for (int64_t s = 0; s < seconds; ++s)
          pull.row(m, s)[machine] = static_cast<float>(values[static_cast<size_t>(s)]);
      }
    });
  }
  return result;
}

int64_t drawn_machines(uint64_t seed, bool large) {
  Draw draw(seed, "detect/machines");
  if (large) {
    constexpr int64_t kSizes[] = {8, 16, 32, 64, 128, 512, 1024, 1500};
    return kSizes[draw.below(8)];
  }
  const double at = draw.uniform();
  return at < .3 ? 8 : at < .6 ? 16 : at < .85 ? 32 : 64;
}

}  // namespace longhaul::detect
