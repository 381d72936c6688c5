#include "observe/watch/live_site.h"
#include "base/text/number.h"
#include "base/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/files/file_beneath.h"
#include "base/net/http.h"
#include "observe/events/line_tail.h"
#include "observe/report/report_page.h"
#include "observe/trace/chrome_trace.h"
#include "observe/trace/perfetto_trace.h"
#include "observe/watch/live_style.h"
#include "observe/watch/run_metrics.h"

namespace longhaul::observe {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTracedSteps = 5;  // steps in a download
// The limits of bytes that are read from the ends of trace files: for all together, and the least and the
// most for each.
constexpr int64_t kServedTraceBytes = 64 << 20, kLeastServedBytes = 256 << 10, kMostServedBytes = 8 << 20;

// Styles are in the page, scripts come from this server only, nothing comes from elsewhere.
const std::pair<std::string, std::string> kPagePolicy = {
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'"};
// The report is one file with its script inside.
const std::pair<std::string, std::string> kReportPolicy = {
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri "
    "'none'; form-action 'none'"};

HttpReply page_reply(std::string html) { return {.body = std::move(html), .headers = {kPagePolicy}}; }
HttpReply json_reply(std::string text) { return {.type = "application/json", .body = std::move(text)}; }
HttpReply not_there() {
  return {.status = 404, .type = "text/plain; charset=utf-8", .body = "There is nothing here.\n"};
}

std::string parameter(const HttpRequest& request, const char* name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

int64_t rank_in(const HttpRequest& request) {
  const std::string text = parameter(request, "rank");
  return leading_number<int64_t>(std::string_view(text).substr(0, 9)).value_or(-1);
}

std::string hash_of(const std::string& text) { return fmt::format("{:012x}", xxh3(text) >> 16); }

// The panels whose hash is not in `have`: "head.0123456789ab,tiles.…".
std::string panels_json(const std::string& title, const std::vector<Panel>& panels,
                        const std::vector<std::string>& hashes, const std::string& have) {
  std::set<std::string, std::less<>> known;
  for (const std::string_view panel : split(have, ',')) known.emplace(panel);
  ordered_json list = ordered_json::object();
  for (size_t i = 0; i < panels.size(); ++i) {
    if (!known.contains(panels[i].id + "." + hashes[i]))
      list[panels[i].id] = {{"hash", hashes[i]}, {"html", panels[i].html}};
  }
  return ordered_json{{"title", title}, {"panels", list}}.dump(-1, ' ', false,
                                                               ordered_json::error_handler_t::replace);
}

// The last recorded steps of all ranks, from the ends of their files.
std::vector<RankTrace> last_traces(const std::filesystem::path& folder) {
  std::vector<RankTrace> ranks;
  std::set<int64_t> steps;
  std::vector<std::string> names = names_beneath(folder, "trace");
  std::erase_if(
      names, [](const std::string& name) { return !name.starts_with("rank-") || !name.ends_with(".jsonl"); });
  const int64_t of_each = std::clamp<int64_t>(kServedTraceBytes / std::max<int64_t>(1, std::ssize(names)),
                                              kLeastServedBytes, kMostServedBytes);
  for (const std::string& name : names) {
    RankTrace rank;
    LineTail tail(folder, std::filesystem::path("trace") / name, of_each);
    tail.poll([&](std::string_view line) {
      try {
        auto step = trace_line(line, name, rank.rank);
        if (step) rank.steps.push_back(std::move(*step));
      } catch (const Error&) {  // it is counted where the run is read (LiveRun)
      }
    });
    for (const StepTrace& step : rank.steps) steps.insert(step.step);
    if (!rank.steps.empty()) ranks.push_back(std::move(rank));
  }
  while (steps.size() > kTracedSteps) steps.erase(steps.begin());
  for (RankTrace& rank : ranks) {
    std::map<int64_t, StepTrace> last;  // of a step that was done again
    for (StepTrace& step : rank.steps) {
      if (steps.contains(step.step)) last[step.step] = std::move(step);
    }
    rank.steps.clear();
    for (auto& [number, step] : last) rank.steps.push_back(std::move(step));
  }
  std::ranges::sort(ranks, {}, [](const RankTrace& trace) { return trace.rank.rank; });
  return ranks;
}

}  // namespace

std::string summary_json(const RunView& run, const std::vector<Alert>& firing) {
  const StateText state = run.state();
  ordered_json summary = {
      {"run", run.name},
      {"folder", run.folder.string()},
      {"state", state.word},
      {"good", std::string_view(state.kind) == "good"},
      {"remark", state.sentence},
      {"generation", run.generation()},
      {"step", run.step()},
      {"steps", run.planned_steps()},
      {"ranks", run.world()},
      {"seconds_a_step", run.seconds_a_step()},
      {"effective_ratio", run.effective_ratio()},
      {"time",
       {{"wall", run.time.wall},
        {"productive", run.time.productive},
        {"repeated", run.time.repeated},
        {"checkpoint", run.time.checkpoint},
        {"stopped", run.time.stopped},
        {"starting", run.time.starting}}},
      {"last_checkpoint_step", run.history.checkpoints.empty() ? -1 : run.history.checkpoints.back().step},
      {"damaged_lines", run.damaged_lines}};
  if (!run.history.steps.empty()) {
    const StepReport& last = run.history.steps.back();
    summary["loss"] = std::isfinite(last.loss) ? ordered_json(last.loss) : ordered_json();
    summary["tokens"] = last.tokens;
    summary["tokens_per_second"] = last.tokens_per_second;
  }
  ordered_json slow = ordered_json::array(), alerts = ordered_json::array(),
               incidents = ordered_json::array();
  for (const auto& row : run.latencies.rows) {
    if (row.straggler) slow.push_back({{"rank", row.rank}, {"node", row.place.node}, {"score", row.score}});
  }
  for (const Alert& alert : firing)
    alerts.push_back({{"name", alert.name},
                      {"severity", alert.severity},
                      {"summary", alert.summary},
                      {"since", alert.since}});
  for (const Incident& incident : run.incidents) incidents.push_back(incident_json(incident));
  summary["stragglers"] = slow, summary["alerts"] = alerts, summary["incidents"] = incidents;
  return summary.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

LiveSite::LiveSite(const std::vector<std::filesystem::path>& runs, bool metrics_by_rank)
    : metrics_by_rank_(metrics_by_rank) {
  std::set<std::string> names;
  for (const auto& folder : runs) {
    const std::string name = name_of_run(folder);
    std::string key = name;
    for (int again = 2; !names.insert(key).second; ++again) key = fmt::format("{}~{}", name, again);
    runs_.push_back(std::make_unique<Site>(folder, key));
  }
}

std::vector<AlertNews> LiveSite::poll(double now_wall_s) {
  const std::lock_guard hold(mutex_);
  std::vector<AlertNews> news;
  ++polls_;
  for (auto& site : runs_) {
    site->live.poll(now_wall_s);
    for (Alert& alert : site->alerts.look_at(site->live.view()))
      news.push_back({&site->live.view(), std::move(alert)});
  }
  return news;
}

std::vector<const RunView*> LiveSite::views() const {
  std::vector<const RunView*> all;
  for (const auto& site : runs_) all.push_back(&site->live.view());
  return all;
}

// The lock must be held.
template <class T, class Make>
std::shared_ptr<const T> LiveSite::once_a_poll(OfPoll<T>& place, const Make& make) {
  if (place.poll != polls_) place = {.poll = polls_, .made = std::make_shared<const T>(make())};
  return place.made;
}

std::shared_ptr<const LiveSite::Rendered> LiveSite::rendered(Site& site, bool narrow) {
  const std::lock_guard hold(mutex_);
  return once_a_poll(site.rendered[narrow ? 1 : 0], [&] {
    const RunView& run = site.live.view();
    Rendered rendered{.title = fmt::format("{} · {} · step {}", run.state().word, run.name, run.step()),
                      .panels = live_panels(run, site.alerts.firing(), narrow)};
    for (const Panel& panel : rendered.panels) rendered.hashes.push_back(hash_of(panel.html));
    if (!narrow) rendered.page = live_page(run, "/run/" + url_encoded(site.key) + "/", rendered.panels);
    return rendered;
  });
}

HttpReply LiveSite::panels_of(Site& site, const HttpRequest& request) {
  const auto whole = rendered(site, parameter(request, "narrow") == "1");
  const int64_t rank = rank_in(request);
  if (rank < 0)
    return json_reply(panels_json(whole->title, whole->panels, whole->hashes, parameter(request, "have")));
  std::vector<Panel> panels = whole->panels;
  std::vector<std::string> hashes = whole->hashes;
  const auto at = static_cast<size_t>(std::ranges::find(panels, "rank", &Panel::id) - panels.begin());
  const std::string log = log_of_rank(site.folder, rank);
  {
    const std::lock_guard hold(mutex_);
    panels.at(at).html = rank_panel(site.live.view(), rank, log);
  }
  hashes[at] = hash_of(panels[at].html);
  return json_reply(panels_json(whole->title, panels, hashes, parameter(request, "have")));
}

HttpReply LiveSite::trace_reply(const Site& site, bool perfetto) {
  const std::unique_lock one(trace_mutex_, std::try_to_lock);
  if (!one) {
    return {.status = 503,
            .type = "text/plain; charset=utf-8",
            .body = "Another trace is being made. Ask again in a moment.\n",
            .headers = {{"Retry-After", "5"}}};
  }
  const std::vector<RankTrace> ranks = last_traces(site.folder);
  if (ranks.empty()) return not_there();
  HttpReply reply{.type = perfetto ? "application/octet-stream" : "application/json"};
  const auto write = [&](std::string_view part) { reply.body += part; };
  if (perfetto)
    write_perfetto_trace(ranks, write);
  else
    write_chrome_trace(ranks, write);
  return reply;
}

HttpReply LiveSite::answer_of(Site& site, const std::string& what, const HttpRequest& request) {
  if (what.empty()) return page_reply(rendered(site, false)->page);
  if (what == "panels") return panels_of(site, request);
  if (what == "summary.json") {
    const std::lock_guard hold(mutex_);
    return json_reply(
        *once_a_poll(site.summary, [&] { return summary_json(site.live.view(), site.alerts.firing()); }));
  }
  if (what == "trace.json" || what == "trace.pftrace") return trace_reply(site, what == "trace.pftrace");
  if (what != "report.html") return not_there();
  try {
    return {.body = read_text_beneath(site.folder, "report.html"), .headers = {kReportPolicy}};
  } catch (const Error&) {  // there is none, or a link is in its place
    return not_there();
  }
}

HttpReply LiveSite::page_of_runs(const HttpRequest& request) {
  std::vector<std::string> links;
  for (const auto& site : runs_) links.push_back("/run/" + url_encoded(site->key) + "/");
  if (runs_.size() == 1 && request.path == "/")
    return {.status = 302, .headers = {{"Location", links.front()}}};
  std::shared_ptr<const std::string> panel;
  {
    const std::lock_guard hold(mutex_);
    panel = once_a_poll(runs_panel_, [&] { return runs_panel(views(), links); });
  }
  if (request.path == "/") return page_reply(runs_page(*panel));
  return json_reply(panels_json("Runs", {{"runs", *panel}}, {hash_of(*panel)}, parameter(request, "have")));
}

HttpReply LiveSite::metrics_reply(const HttpRequest& request) {
  const bool open = wants_open_metrics(request.accept);
  std::shared_ptr<const std::string> text;
  {
    const std::lock_guard hold(mutex_);
    text = once_a_poll(metrics_[open ? 1 : 0],
                       [&] { return run_metrics(views(), metrics_by_rank_).text(open); });
  }
  return {.type = std::string(metrics_type(open)), .body = *text};
}

HttpReply LiveSite::answer(const HttpRequest& request) {
  if (request.path == "/healthz") return {.type = "text/plain; charset=utf-8", .body = "ok\n"};
  if (request.path == "/live.js")
    return {.type = "text/javascript; charset=utf-8",
            .body = fmt::format("{}{}", kReportScript, kLiveScript)};
  if (request.path == "/" || request.path == "/panels") return page_of_runs(request);
  if (request.path == "/metrics") return metrics_reply(request);
  for (auto& site : runs_) {
    const std::string base = "/run/" + site->key;
    if (request.path == base)
      return {.status = 302, .headers = {{"Location", "/run/" + url_encoded(site->key) + "/"}}};
    if (request.path.starts_with(base + "/"))
      return answer_of(*site, request.path.substr(base.size() + 1), request);
  }
  return not_there();
}

}  // namespace longhaul::observe
