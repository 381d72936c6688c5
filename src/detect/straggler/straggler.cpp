#include "detect/straggler/straggler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <set>

#include "base/statistics.h"
#include "detect/straggler/work_fit.h"

namespace longhaul::detect {
namespace {

// The counted steps, and for each rank its times at equal work, as shares of its peers' time in the same
// step.
class Judge {
 public:
  Judge(const StepTimes& times, const StragglerOptions& options) : times_(times), options_(options) {
    const size_t warm = static_cast<size_t>(options.warm_up), window = static_cast<size_t>(options.window);
    const size_t end = times.steps.size();
    const size_t begin = std::max(std::min(warm, end), end > window ? end - window : 0);
    steps_ = std::span(times.steps).subspan(begin);
    if (steps_.size() < static_cast<size_t>(options.least)) steps_ = {};
  }
  StragglerReport report();

 private:
  struct Lateness {
    double last = kUnknown, lost_s = 0;  // share of calls; of a step
  };
  void judge_peers(const std::vector<size_t>& peers);
  // [step][peer], as shares of the step's middle; `fit`: what each should have taken, null: as they took.
  std::vector<double> shares_of(const std::vector<size_t>& peers, const WorkFit* fit) const;
  std::optional<WorkFit> fit_of(const std::vector<size_t>& peers) const;
  void judge_arrivals();
  std::vector<Lateness> lateness() const;
  void judge_groups();
  std::optional<size_t> found(size_t rank) const;
  void against_itself(size_t rank, Straggler& straggler) const;

  const StepTimes& times_;
  const StragglerOptions& options_;
  std::span<const TimedStep> steps_;
  StragglerReport report_;
  // For each rank: its compute time is known; it had more work than its peers.
  std::vector<char> timed_, busier_;
};

bool all_known(std::span<const TimedStep> steps, const std::vector<size_t>& peers) {
  for (const TimedStep& step : steps) {
    for (const size_t rank : peers) {
      if (!step.ranks[rank].work.known()) return false;
    }
  }
  return true;
}

std::optional<WorkFit> Judge::fit_of(const std::vector<size_t>& peers) const {
  if (!all_known(steps_, peers)) return std::nullopt;
  std::vector<WorkSample> samples;
  for (const TimedStep& step : steps_) {
    for (const size_t rank : peers) {
      if (std::isfinite(step.ranks[rank].compute_s))
        samples.push_back({step.ranks[rank].work, step.ranks[rank].compute_s});
    }
  }
  if (samples.empty()) return std::nullopt;
  return WorkFit(samples);
}

// A rank without a time in a step has NaN there.
std::vector<double> Judge::shares_of(const std::vector<size_t>& peers, const WorkFit* fit) const {
  std::vector<double> shares;
  for (const TimedStep& step : steps_) {
    std::vector<double> of_step, known;
    for (const size_t rank : peers) {
      const RankTimes& times = step.ranks[rank];
      of_step.push_back(fit != nullptr ? times.compute_s / fit->seconds(times.work) : times.compute_s);
      if (std::isfinite(of_step.back())) known.push_back(of_step.back());
    }
    const double middle = median(known);  // a slow-down of all is no rank's fault
    for (const double each : of_step) shares.push_back(each / middle);
  }
  return shares;
}

// For each peer, what is known of it; NaN: known in less than half of the steps.
std::vector<double> middles_of(const std::vector<double>& shares, size_t peers) {
  std::vector<double> middles;
  for (size_t i = 0; i < peers; ++i) {
    std::vector<double> known;
    for (size_t at = i; at < shares.size(); at += peers) {
      if (std::isfinite(shares[at])) known.push_back(shares[at]);
    }
    middles.push_back(known.size() * peers * 2 > shares.size() ? median(known) : kUnknown);
  }
  return middles;
}

void Judge::judge_peers(const std::vector<size_t>& peers) {
  const size_t n = peers.size();
  const std::optional<WorkFit> fit = fit_of(peers);
  const std::vector<double> shares = shares_of(peers, fit ? &*fit : nullptr), own = middles_of(shares, n);
  std::vector<double> known;
  for (const double each : own) {
    if (std::isfinite(each)) known.push_back(each);
  }
  if (known.size() < 2) return;
  const bool few = known.size() < kFewPeers;
  const double limit = few ? options_.few_peers : options_.slower;
  const double best = *std::ranges::min_element(known), middle = few ? best : median(known);
  const double scatter = robust_deviation(known, middle) + 1e-3 * middle;
  const std::vector<double> raw = middles_of(shares_of(peers, nullptr), n);
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(own[i])) continue;
    timed_[peers[i]] = true;
    busier_[peers[i]] = fit && raw[i] > 1 + limit;
    const double slower = own[i] / middle - 1, deviations = (own[i] - middle) / scatter;
    int64_t slow_steps = 0, steps = 0;
    for (size_t at = i; at < shares.size(); at += n) {
      steps += std::isfinite(shares[at]) ? 1 : 0;
      slow_steps += shares[at] > middle * (1 + limit / 2) ? 1 : 0;
    }
    const double share = static_cast<double>(slow_steps) / static_cast<double>(steps);
    if (slower < limit || share < options_.most_steps || (!few && deviations < options_.deviations)) continue;
    Straggler straggler{.rank = times_.ranks[peers[i]].rank, .host = times_.ranks[peers[i]].host};
    straggler.slower = slower, straggler.deviations = few ? 0 : deviations, straggler.steps = share,
    straggler.score = best / own[i];
    against_itself(peers[i], straggler);
    report_.stragglers.push_back(std::move(straggler));
  }
}

// Its best quarter of the steps over its latest one, and its cost.
void Judge::against_itself(size_t rank, Straggler& straggler) const {
  std::vector<double> seconds;
  for (const TimedStep& step : steps_) {
    if (std::isfinite(step.ranks[rank].compute_s)) seconds.push_back(step.ranks[rank].compute_s);
  }
  const size_t part = std::max<size_t>(1, seconds.size() / 4);
  const auto quarter = [&](size_t from) {
    const auto begin = seconds.begin() + static_cast<ptrdiff_t>(from);
    return median({begin, begin + static_cast<ptrdiff_t>(part)});
  };
  double best = kUnknown;
  for (size_t from = 0; from + part <= seconds.size(); from += part) best = std::fmin(best, quarter(from));
  straggler.own_score = best / quarter(seconds.size() - part);
  straggler.lost_s = median(seconds) * straggler.slower / (1 + straggler.slower);
}

std::optional<size_t> Judge::found(size_t rank) const {
  for (size_t i = 0; i < report_.stragglers.size(); ++i) {
    if (report_.stragglers[i].rank == times_.ranks[rank].rank) return i;
  }
  return std::nullopt;
}

// By the calls where they are known; else by the sum of waits of a step, which ends at a call of all.
std::vector<Judge::Lateness> Judge::lateness() const {
  const size_t n = times_.ranks.size();
  std::vector<double> came(n, 0), last(n, 0), lost_s(n, 0);
  const auto meet = [&](const std::vector<size_t>& members, const std::vector<double>& waited_s) {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < members.size(); ++i) {
      if (std::isfinite(waited_s[i])) order.emplace_back(waited_s[i], members[i]);
    }
    if (order.size() < 2) return;
    std::ranges::sort(order);
    for (const auto& [seconds, rank] : order) ++came[rank];
    ++last[order[0].second];
    lost_s[order[0].second] += order[1].first - order[0].first;
  };
  std::vector<size_t> everyone(n);
  for (size_t i = 0; i < n; ++i) everyone[i] = i;
  for (const TimedStep& step : steps_) {
    for (const CallTimes& call : step.calls) meet(call.members, call.in_it_s);
    if (!step.calls.empty()) continue;
    std::vector<double> waits;
    for (const RankTimes& rank : step.ranks) waits.push_back(rank.wait_s);
    meet(everyone, waits);
  }
  std::vector<Lateness> all(n);
  for (size_t i = 0; i < n; ++i) {
    if (came[i] > 0) all[i] = {last[i] / came[i], lost_s[i] / static_cast<double>(steps_.size())};
  }
  return all;
}

void Judge::judge_arrivals() {
  const std::vector<Lateness> late = lateness();
  std::vector<double> step_s, data_s;
  for (const TimedStep& step : steps_) {
    step_s.push_back(step.step_s);
    for (const RankTimes& rank : step.ranks) data_s.push_back(rank.data_s);
  }
  const double noticed_s = options_.noticed * median(step_s), usual_data_s = median(data_s);
  for (size_t rank = 0; rank < late.size(); ++rank) {
    if (const auto slow = found(rank)) {
      report_.stragglers[*slow].last = late[rank].last;
      continue;
    }
    if (!(late[rank].last > options_.most_steps) || late[rank].lost_s < noticed_s) continue;
    std::vector<double> own_data_s;
    for (const TimedStep& step : steps_) own_data_s.push_back(step.ranks[rank].data_s);
    const bool data = median(own_data_s) - usual_data_s > late[rank].lost_s / 2;
    if (!data && timed_[rank] && !busier_[rank]) continue;  // some rank is always the last, if by little
    using enum Straggler::Cause;
    Straggler straggler{.rank = times_.ranks[rank].rank, .host = times_.ranks[rank].host};
    straggler.cause = data ? kData : timed_[rank] ? kWork : kWaits;
    straggler.steps = straggler.last = late[rank].last, straggler.lost_s = late[rank].lost_s;
    report_.stragglers.push_back(std::move(straggler));
  }
}

// The duration of a call after all have entered is the time of its last rank in it.
void Judge::judge_groups() {
  struct Seen {
    std::vector<double> seconds;
    std::set<size_t> members;
  };
  std::map<std::string, std::map<std::string, Seen>> kinds;  // by kind of group and of call, then by group
  for (const TimedStep& step : steps_) {
    for (const CallTimes& call : step.calls) {
      const std::string of = call.group.substr(0, call.group.find_last_of(' ')) + " " + call.kind;
      Seen& seen = kinds[of][call.group];
      seen.seconds.push_back(*std::ranges::min_element(call.in_it_s));
      seen.members.insert(call.members.begin(), call.members.end());
    }
  }
  for (const auto& [kind, groups] : kinds) {
    if (groups.size() < kFewPeers - 1) continue;
    std::vector<double> all;
    for (const auto& [group, seen] : groups) all.push_back(median(seen.seconds));
    const double middle = median(all), scatter = robust_deviation(all, middle) + 1e-3 * middle;
    for (const auto& [group, seen] : groups) {
      const double own = median(seen.seconds);
      if (own < middle * (1 + options_.slow_link) || own < middle + options_.deviations * scatter) continue;
      SlowGroup& slow = report_.groups.emplace_back(SlowGroup{.group = group,
                                                              .kind = kind.substr(kind.find_last_of(' ') + 1),
                                                              .longer = own / middle - 1,
                                                              .ranks = {}});
      for (const size_t member : seen.members) slow.ranks.push_back(times_.ranks[member].rank);
    }
  }
}

StragglerReport Judge::report() {
  std::vector<double> step_s;
  for (const TimedStep& step : times_.steps) step_s.push_back(step.step_s);
  const size_t warm = std::min(step_s.size(), static_cast<size_t>(options_.warm_up));
  if ((report_.change = step_change(std::span(step_s).subspan(warm)))) {
    report_.change->at += warm;
    report_.change_step = times_.steps[report_.change->at].step;
  }
  report_.steps = static_cast<int64_t>(steps_.size());
  if (steps_.empty()) return std::move(report_);
  timed_.assign(times_.ranks.size(), false);
  busier_ = timed_;
  std::map<int64_t, std::vector<size_t>> peers;
  for (size_t i = 0; i < times_.ranks.size(); ++i) peers[times_.ranks[i].peers].push_back(i);
  for (const auto& [number, ranks] : peers) judge_peers(ranks);
  judge_arrivals();
  judge_groups();
  std::ranges::stable_sort(report_.stragglers, std::greater<>(), &Straggler::lost_s);
  return std::move(report_);
}

std::string line_of(const Straggler& straggler) {
  const std::string who = straggler.host.empty()
                              ? fmt::format("rank {}", straggler.rank)
                              : fmt::format("rank {} on {}", straggler.rank, straggler.host);
  const std::string costs = fmt::format("costs {:.3g} ms a step", straggler.lost_s * 1e3);
  using enum Straggler::Cause;
  switch (straggler.cause) {
    case kSlow:
      return fmt::format("{} is slow: {:.1f} % longer than its peers at equal work, in {:.0f} % of steps; {}",
                         who, straggler.slower * 100, straggler.steps * 100, costs);
    case kWork:
      return fmt::format(
          "{} has more to do: last at {:.0f} % of calls, as quick as its peers at equal work; {}", who,
          straggler.last * 100, costs);
    case kData:
      return fmt::format("{} waits for its data: last at {:.0f} % of calls; {}", who, straggler.last * 100,
                         costs);
    case kWaits:
      return fmt::format("{} comes last to {:.0f} % of calls; {}", who, straggler.last * 100, costs);
  }
  return who;
}

}  // namespace

std::string_view name_of(Straggler::Cause cause) {
  using enum Straggler::Cause;
  return cause == kSlow ? "slow" : cause == kWork ? "work" : cause == kData ? "data" : "waits";
}

StragglerReport find_stragglers(const StepTimes& times, const StragglerOptions& options) {
  return Judge(times, options).report();
}

std::string text_of(const StragglerReport& report) {
  if (report.steps == 0) return "too few steps to tell stragglers\n";
  std::string text;
  for (const Straggler& each : report.stragglers) text += line_of(each) + "\n";
  for (const SlowGroup& each : report.groups) {
    text += fmt::format(
        "{} of {} takes {:.0f} % longer than in other groups when all have come: look at the links between "
        "ranks {}\n",
        each.kind, each.group, each.longer * 100, fmt::join(each.ranks, ", "));
  }
  if (report.change) {
    text +=
        fmt::format("since step {} a step takes {:.0f} % longer ({:.3g} ms instead of {:.3g}){}\n",
                    report.change_step, report.change->slower() * 100, report.change->after_s * 1e3,
                    report.change->before_s * 1e3, report.change->blocked ? ": the run hardly moves" : "");
  }
  if (text.empty()) text = fmt::format("nobody is slow, in {} steps\n", report.steps);
  return text;
}

Remedy remedy_for(double lost_s, const RemedyPrices& prices) {
  if (lost_s < prices.replace_at_checkpoint_s) return Remedy::kIgnore;
  return lost_s < prices.replace_now_s ? Remedy::kReplaceAtCheckpoint : Remedy::kReplaceNow;
}

}  // namespace longhaul::detect
