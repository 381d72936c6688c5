#include "observe/watch/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/file_beneath.h"
#include "base/text/number.h"
#include "observe/board/group_kind.h"
#include "observe/events/event_log.h"
#include "observe/trace/time_use.h"

namespace longhaul::observe {
namespace {

constexpr size_t kMostTroubles = 200, kMostIncidents = 500;
constexpr int64_t kTraceBytes = 4 << 20;  // of each rank, at the first poll
constexpr int64_t kLookForFilesEvery = 5;
constexpr double kSilentAfter_s = 60, kDriverSilentAfter_s = 15;

double part_of(const Interval& a, const Interval& b) {
  return static_cast<double>(std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin))) *
         1e-9;
}

// Seconds by phase, as in status.json: the time that a rank worked alone, and separately the time that it
// waited.
std::map<std::string, double> phase_seconds_of(const StepTrace& step) {
  std::map<std::string, double> seconds;
  std::vector<Interval> blocked;
  for (const CallSpan& call : step.calls) {
    for (const Interval& interval : blocked_by(call)) {
      blocked.push_back(interval);
      seconds["communication"] += part_of(interval, {step.begin_ns, step.end_ns});
    }
  }
  const auto phase_of = [](SpanKind kind) {
    switch (kind) {
      case SpanKind::kForward:
        return "forward";
      case SpanKind::kBackward:
      case SpanKind::kBackwardInput:
      case SpanKind::kBackwardWeight:
        return "backward";
      case SpanKind::kEvaluation:
        return "evaluation";
      case SpanKind::kData:
        return "data";
      case SpanKind::kCheckpoint:
        return "checkpoint";
      default:
        return "optimizer";
    }
  };
  for (const Span& span : step.spans) {
    double alone = static_cast<double>(span.end_ns - span.begin_ns) * 1e-9;
    for (const Interval& interval : blocked) alone -= part_of(interval, {span.begin_ns, span.end_ns});
    seconds[phase_of(span.kind)] += std::max(0.0, alone);
  }
  return seconds;
}

int64_t rank_in_name(const std::string& name) {
  const size_t dash = name.find_last_of('-');
  if (dash == std::string::npos) return -1;
  return leading_number<int64_t>(std::string_view(name).substr(dash + 1)).value_or(-1);
}

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

void StepTimes::add(double seconds) {
  size_t bucket = 0;
  while (bucket < std::size(kBounds_s) && seconds > kBounds_s[bucket]) ++bucket;
  ++counts[bucket];
  sum_s += seconds;
}

int64_t RunView::step() const {
  int64_t written = history.steps.empty() ? 0 : history.steps.back().step;
  // The last steps of a completed run may not have been reported: its end and its last save tell how far it
  // came.
  if (history.end) written = std::max(written, history.end->step);
  if (history.end && history.end->reason == "finished" && !history.checkpoints.empty())
    written = std::max(written, history.checkpoints.back().step);
  return status ? std::max(written, status->step) : written;
}
int64_t RunView::planned_steps() const {
  if (status && status->steps > 0) return status->steps;
  return history.start ? history.start->steps : 0;
}
int64_t RunView::generation() const { return std::max(history.generations, status ? status->generation : 0); }
int64_t RunView::world() const {
  if (status && !status->ranks.empty()) return static_cast<int64_t>(status->ranks.size());
  return history.start ? history.start->world_size : 1;
}
double RunView::seconds_a_step() const {
  std::vector<double> times;
  for (size_t i = history.steps.size(); i-- > 0 && times.size() < 50;) {
    if (std::isfinite(history.steps[i].milliseconds)) times.push_back(history.steps[i].milliseconds * 1e-3);
  }
  return middle(times);
}
std::optional<double> RunView::entry_skew_s() const {
  for (size_t i = history.steps.size(); i-- > 0;) {
    if (const auto& skew = history.steps[i].entry_skew_milliseconds) return *skew * 1e-3;
  }
  return std::nullopt;
}
std::optional<double> RunView::taken_by_others() const {
  for (size_t i = history.steps.size(); i-- > 0;) {
    if (const auto& share = history.steps[i].taken_by_others) return share;
  }
  return std::nullopt;
}
double RunView::effective_ratio() const {
  return status && status->effective_ratio ? *status->effective_ratio : time.ratio();
}
std::optional<double> RunView::effective_ratio_hour() const {
  return status ? status->effective_ratio_hour : std::nullopt;
}
double RunView::checkpoint_interval_s() const {
  if (history.checkpoints.size() < 2) return 0;
  std::vector<double> gaps;
  for (size_t i = 1; i < history.checkpoints.size(); ++i) {
    const int64_t steps = history.checkpoints[i].step - history.checkpoints[i - 1].step;
    if (steps > 0) gaps.push_back(static_cast<double>(steps) * seconds_a_step());
  }
  return middle(gaps);
}

StateText RunView::state() const {
  if (status) {
    const std::string& word = status->state;
    if (word == "DONE") return {word, "good", ""};
    if (word == "FAILED") return {word, "bad", "the driver has given up: see the incidents"};
    if (status_age() > kDriverSilentAfter_s && !history.end)
      return {word.empty() ? "unknown" : word, "bad",
              fmt::format("the driver has said nothing for {}", duration_text(status_age()))};
    if (word == "TRAIN") return {word, "good", ""};
    if (word == "SUSPECT" || word == "DIAGNOSE" || word == "REPAIR")
      return {word, "bad", "a fault is being dealt with"};
    return {word.empty() ? "unknown" : word, "warn", ""};
  }
  if (history.end) {
    const std::string& reason = history.end->reason;
    return {reason, reason == "finished" ? "good" : reason == "error" ? "bad" : "warn", ""};
  }
  if (!history.start && history.steps.empty()) return {"waiting", "warn", "nothing has been written yet"};
  const double silent = event_word.age(now);
  if (silent > std::max(kSilentAfter_s, 5 * seconds_a_step()))
    return {"silent", "bad",
            fmt::format("nothing was written for {}: it hangs, or was killed", duration_text(silent))};
  return {"running", "good", ""};
}

std::string name_of_run(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::string name = std::filesystem::weakly_canonical(folder, ignored).filename().string();
  return name.empty() ? folder.string() : name;
}

LiveRun::LiveRun(const std::filesystem::path& folder, std::string job) : events_(folder, "events.jsonl") {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw Error({.code = ExitCode::kData,
                 .what = "no run there",
                 .expected = "a run folder",
                 .found = std::filesystem::exists(folder, ignored) ? "a file" : "no such folder",
                 .where = folder.string(),
                 .hint = "name the folder given to train or launch with --run"});
  }
  view_.folder = folder;
  view_.name = name_of_run(folder);
  view_.job = job.empty() ? view_.name : std::move(job);
}

void LiveRun::forget() {
  const RunView old = std::move(view_);
  view_ = {.name = old.name, .job = old.job, .folder = old.folder, .now = old.now};
  incidents_.clear();
  window_.clear();
  measured_on_.clear();
  calls_of_.clear();
  status_text_.clear();
  others_.clear();  // they are read again
  find_files();
  before_first_event_s_ = 0;
  last_ = {.generation = 0}, elapsed_s_ = 0, process_start_s_.reset();
}

// Seconds between two events: by the monotonic clock within one process; else by the wall clock, which may be
// set back between two processes.
double LiveRun::gone_since_last(const Common& common) const {
  if (last_.generation == 0) return 0;
  const double by_wall = std::max(0.0, common.wall_time - last_.wall_time);
  if (common.generation != last_.generation || common.monotonic_ns < last_.monotonic_ns) return by_wall;
  return static_cast<double>(common.monotonic_ns - last_.monotonic_ns) * 1e-9;
}

void LiveRun::take_event(std::string_view line) {
  std::optional<Event> event;
  try {
    event = from_json(line);
  } catch (const Error&) {
    ++view_.damaged_lines;
    return;
  }
  if (!event) return take_other(line);
  const double now = event->common.wall_time;
  const double gone_s = gone_since_last(event->common);
  elapsed_s_ += gone_s;
  if (event->common.generation > last_.generation) {
    if (last_.generation > 0) view_.time.stopped += gone_s;
    process_start_s_ = elapsed_s_;
  }
  last_ = event->common;
  const LastWord word{.said = now, .seen = view_.now, .came = polls_ > 1};
  view_.event_word = word;
  take(view_.history, *event);
  Totals& totals = view_.totals;
  if (const auto* step = std::get_if<StepReport>(&event->body)) {
    const double seconds = std::isfinite(step->milliseconds) ? step->milliseconds * 1e-3 : 0;
    if (process_start_s_) view_.time.starting += std::max(0.0, elapsed_s_ - *process_start_s_ - seconds);
    process_start_s_.reset();
    ++totals.steps;
    totals.step_times.add(seconds);
    totals.data_wait_seconds += step->data_wait_milliseconds.value_or(0) * 1e-3;
    if (step->skipped.value_or(false)) ++totals.skipped_steps;
    if (!std::isfinite(step->loss)) ++totals.nonfinite_steps;
    const int64_t a_step = view_.history.start ? view_.history.start->tokens_per_step : 0;
    const size_t count = view_.history.steps.size();
    const int64_t before = count > 1 && view_.history.steps[count - 2].step == step->step - 1
                               ? view_.history.steps[count - 2].tokens
                               : -1;
    const int64_t gained = before >= 0 && step->tokens > before ? step->tokens - before : a_step;
    totals.tokens += gained;
    if (view_.history.start && view_.history.start->sequence > 0)
      totals.samples += gained / view_.history.start->sequence;
  } else if (const auto* saved = std::get_if<CheckpointSaved>(&event->body)) {
    view_.time.checkpoint += saved->blocking_milliseconds * 1e-3;
    view_.checkpoint_word = word;
  } else if (const auto* resumed = std::get_if<Resume>(&event->body)) {
    view_.loaded = *resumed;
  } else if (const auto* bad = std::get_if<NonFinite>(&event->body)) {
    view_.troubles.push_back(
        {now, event->common.rank, "not finite",
         fmt::format("step {}: {} of {}, first in {}", bad->step, bad->phase, bad->layer, bad->tensor)});
  }
  if (std::holds_alternative<Alarm>(event->body) || std::holds_alternative<IncidentReport>(event->body))
    take_other(line);
}

// Alarms and incidents of any process, even from a Longhaul version with more kinds of events than this one.
void LiveRun::take_other(std::string_view line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) {
    ++view_.damaged_lines;
    return;
  }
  const std::string event =
      object.value("event", nlohmann::json()).is_string() ? object["event"].get<std::string>() : "";
  if (event == "incident") {
    incidents_.push_back(incident_from_json(object));
    if (incidents_.size() > kMostIncidents) incidents_.erase(incidents_.begin());
  }
  if (event != "alarm") return;
  const auto text = [&](const char* key) {
    return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    return object.contains(key) && object[key].is_number() ? object[key].get<double>() : 0.0;
  };
  const std::string kind = text("kind");
  ++view_.totals.alarms[kind];
  if (kind == "minder") ++view_.totals.minder[text("metric").empty() ? "unknown" : text("metric")];
  if (kind == "rollback" || kind == "spike_rollback") ++view_.totals.rollbacks;
  if (kind.starts_with("corruption") || kind == "silent_corruption") ++view_.totals.corruptions;
  view_.troubles.push_back(
      {number("wall_time"), static_cast<int64_t>(number("rank")), kind, text("message")});
  if (view_.troubles.size() > kMostTroubles) view_.troubles.erase(view_.troubles.begin());
}

void LiveRun::find_files() {
  std::error_code ignored;
  const auto look = [&](const std::filesystem::path& folder, auto& tails, int64_t most_bytes) {
    for (const std::string& name : names_beneath(view_.folder, folder)) {
      if (name.ends_with(".jsonl") && !tails.contains(name))
        tails[name] = std::make_unique<LineTail>(view_.folder, folder / name, most_bytes);
    }
  };
  look("events", others_, 0);
  look("trace", traces_, kTraceBytes);
  const auto space = std::filesystem::space(view_.folder, ignored);
  if (!ignored && space.capacity > 0)
    view_.disk_free_ratio = static_cast<double>(space.available) / static_cast<double>(space.capacity);
}

void LiveRun::read_status() {
  std::string text;
  try {
    text = read_text_beneath(view_.folder, status_file(""), ExitCode::kData, 64 << 20);
    if (text == status_text_) return;
    view_.status = status_from_json(text, status_file(view_.folder).string());
  } catch (const Error&) {
    // there is none, or half of one on a file system without atomic replacement: the last status stays
    return;
  }
  view_.status_word = {
      .said = view_.status->updated_wall_time, .seen = view_.now, .came = !status_text_.empty()};
  status_text_ = std::move(text);
  // Measurements of a rank that is gone, or that is on another machine now, say nothing about the working
  // ranks.
  std::map<int64_t, std::string> nodes;
  for (const RankStatus& rank : view_.status->ranks) nodes[rank.rank] = rank.node;
  window_.keep([&](int64_t rank) {
    const auto now = nodes.find(rank), before = measured_on_.find(rank);
    return now != nodes.end() && (before == measured_on_.end() || before->second == now->second);
  });
  measured_on_ = std::move(nodes);
  for (const RankStatus& rank : view_.status->ranks) {
    if (rank.state == "lost") window_.drop(rank.rank);
    if (rank.rank >= 0 && rank.state != "lost" && !rank.phase_seconds.empty())
      window_.add(rank.rank, rank.step, rank.phase_seconds);
  }
}

void LiveRun::take_calls(int64_t rank, const StepTrace& step) {
  auto& calls = calls_of_[rank];
  calls.clear();
  for (const CallSpan& call : step.calls) {
    CallUse& use = calls[{call.kind, group_kind(call.group)}];
    use.seconds += static_cast<double>(call.end_ns - call.begin_ns) * 1e-9;
    use.bytes += call.sent + call.received;
  }
}

void LiveRun::read_traces() {
  for (auto& [name, tail] : traces_) {
    TraceRank& rank = trace_ranks_[name];
    const std::filesystem::path path = tail->path();
    const int64_t number = rank_in_name(path.stem().string());
    tail->poll([&](std::string_view line) {
      try {
        const auto step = trace_line(line, path.string(), rank);
        stage_of_[number] = rank.pp;
        view_.traced = true;
        if (step) take_calls(number, *step);
        // The driver's report of every step is the better measure; a trace has some steps only.
        if (step && !view_.status) window_.add(number, step->step, phase_seconds_of(*step));
      } catch (const Error&) {
        ++view_.damaged_lines;
      }
    });
  }
  view_.calls.clear();
  for (const auto& [unused, of_rank] : calls_of_) {
    for (const auto& [name, use] : of_rank) {
      CallUse& most = view_.calls[name];
      most = {std::max(most.seconds, use.seconds), std::max(most.bytes, use.bytes)};
    }
  }
}

// Files of ranks of an earlier start with more ranks remain.
void LiveRun::forget_older_traces() {
  int64_t generation = 0;
  for (const auto& [name, rank] : trace_ranks_) generation = std::max(generation, rank.generation);
  for (const auto& [name, rank] : trace_ranks_) {
    if (rank.generation < generation) window_.drop(rank.rank);
  }
}

void LiveRun::refresh_latencies() {
  if (!view_.status) forget_older_traces();
  if (window_.empty()) {
    view_.latencies = {};
    return;
  }
  view_.latencies = window_.map([&](int64_t rank) -> LatencyPlace {
    if (!view_.status) {
      const auto stage = stage_of_.find(rank);
      return {.node = "", .peers = fmt::format("stage {}", stage == stage_of_.end() ? 0 : stage->second)};
    }
    const auto node = measured_on_.find(rank);
    return {.node = node == measured_on_.end() ? "" : node->second,
            .peers = fmt::format("stage {}", view_.status->stage_of(rank))};
  });
}

// The driver's list also has incidents that are not over yet; the event stream has those before its last
// fifty, and the reactions of ranks.
void LiveRun::gather_incidents() {
  view_.incidents = view_.status ? view_.status->incidents : std::vector<Incident>();
  const size_t of_driver = view_.incidents.size();
  for (const Incident& incident : incidents_) {
    const auto same = [&](const Incident& each) {
      return each.id > 0 && each.id == incident.id && each.fault == incident.fault &&
             each.rank == incident.rank;
    };
    const auto end = view_.incidents.begin() + static_cast<std::ptrdiff_t>(of_driver);
    if (std::none_of(view_.incidents.begin(), end, same)) view_.incidents.push_back(incident);
  }
  std::ranges::stable_sort(view_.incidents, {}, &Incident::wall_time);
}

void LiveRun::poll(double now_wall_s) {
  view_.now = now_wall_s;
  if (polls_++ % kLookForFilesEvery == 0) find_files();
  bool first = true;
  events_.poll([&](std::string_view line) {
    if (first && events_.began_anew()) forget();
    first = false;
    take_event(line);
  });
  for (auto& [name, tail] : others_) tail->poll([this](std::string_view line) { take_other(line); });
  view_.now = now_wall_s;
  read_status();
  read_traces();
  refresh_latencies();
  gather_incidents();
  view_.time.productive = 0;
  for (const StepReport& step : view_.history.steps)
    view_.time.productive += std::isfinite(step.milliseconds) ? step.milliseconds * 1e-3 : 0;
  view_.time.repeated = std::max(0.0, view_.totals.step_times.sum_s - view_.time.productive);
  const bool goes_on =
      !view_.history.end && view_.state().kind != std::string_view("bad") && last_.generation > 0;
  view_.time.wall = elapsed_s_ + (goes_on ? std::max(0.0, view_.event_word.age(now_wall_s)) : 0);
  // A driver starts its ranks before the first of them says anything.
  const double began_s = view_.status ? view_.status->started_wall_time : 0;
  const double before_s =
      began_s > 0 && last_.generation > 0 ? std::max(0.0, view_.history.first_wall_time - began_s) : 0;
  view_.time.wall += before_s;
  view_.time.starting += before_s - std::exchange(before_first_event_s_, before_s);
}

}  // namespace longhaul::observe
