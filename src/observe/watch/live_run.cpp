#include "observe/watch/live_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "observe/event_log.h"
#include "observe/time_use.h"

namespace longhaul::observe {
namespace {

constexpr size_t kMostTroubles = 200, kMostIncidents = 500;
constexpr int64_t kTraceBytes = 4 << 20;  // of each rank, when it is first met
constexpr int64_t kLookForFilesEvery = 5;
constexpr double kSilentAfter_s = 60, kDriverSilentAfter_s = 15;

double part_of(const Interval& a, const Interval& b) {
  return static_cast<double>(std::max<int64_t>(0, std::min(a.end, b.end) - std::max(a.begin, b.begin))) * 1e-9;
}

// Seconds by phase, as status.json has them: what a rank worked alone, and apart from that what it stood still for.
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
  int64_t rank = -1;
  const size_t dash = name.find_last_of('-');
  if (dash != std::string::npos) std::from_chars(name.data() + dash + 1, name.data() + name.size(), rank);
  return rank;
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
  const int64_t written = history.steps.empty() ? 0 : history.steps.back().step;
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
double RunView::effective_ratio() const { return status && status->effective_ratio ? *status->effective_ratio : time.ratio(); }
std::optional<double> RunView::effective_ratio_hour() const { return status ? status->effective_ratio_hour : std::nullopt; }
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
      return {word.empty() ? "unknown" : word, "bad", fmt::format("the driver has said nothing for {}", duration_text(status_age()))};
    if (word == "TRAIN") return {word, "good", ""};
    if (word == "SUSPECT" || word == "DIAGNOSE" || word == "REPAIR") return {word, "bad", "a fault is being dealt with"};
    return {word.empty() ? "unknown" : word, "warn", ""};
  }
  if (history.end) {
    const std::string& reason = history.end->reason;
    return {reason, reason == "finished" ? "good" : reason == "error" ? "bad" : "warn", ""};
  }
  if (!history.start && history.steps.empty()) return {"waiting", "warn", "nothing has been written yet"};
  const double silent = now - history.last_wall_time;
  if (silent > std::max(kSilentAfter_s, 5 * seconds_a_step()))
    return {"silent", "bad", fmt::format("nothing was written for {}: it hangs, or was killed", duration_text(silent))};
  return {"running", "good", ""};
}

LiveRun::LiveRun(const std::filesystem::path& folder) : events_(folder / "events.jsonl") {
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
  view_.name = std::filesystem::weakly_canonical(folder, ignored).filename().string();
  if (view_.name.empty()) view_.name = folder.string();
}

void LiveRun::forget() {
  const RunView old = std::move(view_);
  view_ = {.name = old.name, .folder = old.folder};
  incidents_.clear();
  window_.clear();
  status_text_.clear();
  others_.clear();  // they are read again
  find_files();
  last_generation_ = 0, last_event_time_ = process_start_ = 0;
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
  if (event->common.generation > last_generation_) {
    if (last_generation_ > 0 && last_event_time_ > 0) view_.time.stopped += std::max(0.0, now - last_event_time_);
    last_generation_ = event->common.generation;
    process_start_ = now;
  }
  last_event_time_ = now;
  take(view_.history, *event);
  Totals& totals = view_.totals;
  if (const auto* step = std::get_if<StepReport>(&event->body)) {
    const double seconds = std::isfinite(step->milliseconds) ? step->milliseconds * 1e-3 : 0;
    if (process_start_ > 0) view_.time.starting += std::max(0.0, now - process_start_ - seconds);
    process_start_ = 0;
    ++totals.steps;
    totals.step_times.add(seconds);
    totals.data_wait_seconds += step->data_wait_milliseconds.value_or(0) * 1e-3;
    if (step->skipped.value_or(false)) ++totals.skipped_steps;
    if (!std::isfinite(step->loss)) ++totals.nonfinite_steps;
    const int64_t a_step = view_.history.start ? view_.history.start->tokens_per_step : 0;
    const size_t count = view_.history.steps.size();
    const int64_t before = count > 1 && view_.history.steps[count - 2].step == step->step - 1 ? view_.history.steps[count - 2].tokens : -1;
    totals.tokens += before >= 0 && step->tokens > before ? step->tokens - before : a_step;
  } else if (const auto* saved = std::get_if<CheckpointSaved>(&event->body)) {
    view_.time.checkpoint += saved->blocking_milliseconds * 1e-3;
    view_.last_checkpoint_wall_time = now;
  } else if (const auto* bad = std::get_if<NonFinite>(&event->body)) {
    view_.troubles.push_back({now, event->common.rank, "not finite",
                              fmt::format("step {}: {} of {}, first in {}", bad->step, bad->phase, bad->layer, bad->tensor)});
  }
  if (std::holds_alternative<Alarm>(event->body) || std::holds_alternative<IncidentReport>(event->body)) take_other(line);
}

// Alarms and incidents, of whatever process wrote them, and by a Longhaul that knows more kinds of events than this one.
void LiveRun::take_other(std::string_view line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object()) {
    ++view_.damaged_lines;
    return;
  }
  const std::string event = object.value("event", nlohmann::json()).is_string() ? object["event"].get<std::string>() : "";
  if (event == "incident") {
    incidents_.push_back(incident_from_json(object));
    if (incidents_.size() > kMostIncidents) incidents_.erase(incidents_.begin());
  }
  if (event != "alarm") return;
  const auto text = [&](const char* key) {
    return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) { return object.contains(key) && object[key].is_number() ? object[key].get<double>() : 0.0; };
  const std::string kind = text("kind");
  ++view_.totals.alarms[kind];
  if (kind == "rollback" || kind == "spike_rollback") ++view_.totals.rollbacks;
  if (kind.starts_with("corruption") || kind == "silent_corruption") ++view_.totals.corruptions;
  view_.troubles.push_back({number("wall_time"), static_cast<int64_t>(number("rank")), kind, text("message")});
  if (view_.troubles.size() > kMostTroubles) view_.troubles.erase(view_.troubles.begin());
}

void LiveRun::find_files() {
  std::error_code ignored;
  const auto look = [&](const std::filesystem::path& folder, auto& tails, int64_t most_bytes) {
    for (std::filesystem::directory_iterator each(folder, ignored), end; !ignored && each != end; each.increment(ignored)) {
      const std::string name = each->path().filename().string();
      if (each->path().extension() == ".jsonl" && !tails.contains(name)) tails[name] = std::make_unique<LineTail>(each->path(), most_bytes);
    }
  };
  look(view_.folder / "events", others_, 0);
  look(view_.folder / "trace", traces_, kTraceBytes);
  const auto space = std::filesystem::space(view_.folder, ignored);
  if (!ignored && space.capacity > 0) view_.disk_free_ratio = static_cast<double>(space.available) / static_cast<double>(space.capacity);
}

void LiveRun::read_status() {
  std::string text;
  try {
    text = read_text(status_file(view_.folder), ExitCode::kData, 64 << 20);
    if (text == status_text_) return;
    view_.status = status_from_json(text, status_file(view_.folder).string());
  } catch (const Error&) {  // none, or half of one on a file system that cannot replace: what was read before stays
    return;
  }
  status_text_ = std::move(text);
  for (const RankStatus& rank : view_.status->ranks) {
    if (rank.rank >= 0 && !rank.phase_seconds.empty()) window_.add(rank.rank, rank.step, rank.phase_seconds);
  }
}

void LiveRun::read_traces() {
  for (auto& [name, tail] : traces_) {
    TraceRank& rank = trace_ranks_[name];
    const int64_t number = rank_in_name(tail->path().stem().string());
    tail->poll([&](std::string_view line) {
      try {
        const auto step = trace_line(line, tail->path().string(), rank);
        stage_of_[number] = rank.pp;
        view_.traced = true;
        // What the driver says of every step is the better measure; a trace has some steps only.
        if (step && !view_.status) window_.add(number, step->step, phase_seconds_of(*step));
      } catch (const Error&) {
        ++view_.damaged_lines;
      }
    });
  }
}

void LiveRun::refresh_latencies() {
  if (window_.empty()) return;
  std::map<int64_t, std::string> node_of;
  int64_t world = 1, behind = 1;  // ranks after the first pipeline stage: pp is the slowest axis
  if (view_.status) {
    for (const RankStatus& rank : view_.status->ranks) node_of[rank.rank] = rank.node;
    for (const MeshAxis& axis : view_.status->mesh) {
      world *= std::max<int64_t>(1, axis.size);
      if (axis.name != "pp") behind *= std::max<int64_t>(1, axis.size);
    }
  }
  view_.latencies = window_.map([&](int64_t rank) -> LatencyPlace {
    const auto node = node_of.find(rank);
    const auto stage = stage_of_.find(rank);
    const int64_t of_mesh = world > behind ? rank / behind : 0;
    return {.node = node == node_of.end() ? "" : node->second,
            .peers = fmt::format("stage {}", view_.status               ? of_mesh
                                             : stage == stage_of_.end() ? 0
                                                                        : stage->second)};
  });
}

// The driver's list has those that are not over yet, too; the event stream has those before its last fifty, and what ranks did by themselves.
void LiveRun::gather_incidents() {
  view_.incidents = view_.status ? view_.status->incidents : std::vector<Incident>();
  const size_t of_driver = view_.incidents.size();
  for (const Incident& incident : incidents_) {
    const auto same = [&](const Incident& each) {
      return each.id > 0 && each.id == incident.id && each.fault == incident.fault && each.rank == incident.rank;
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
  const bool goes_on = !view_.history.end && view_.state().kind != std::string_view("bad");
  view_.time.wall = std::max(0.0, (goes_on ? now_wall_s : view_.history.last_wall_time) - view_.history.first_wall_time);
}

}  // namespace longhaul::observe
