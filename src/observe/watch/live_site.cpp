#include "observe/watch/live_site.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/file.h"
#include "base/http.h"
#include "observe/chrome_trace.h"
#include "observe/perfetto_trace.h"
#include "observe/report_page.h"
#include "observe/watch/live_style.h"
#include "observe/watch/run_metrics.h"

namespace longhaul::observe {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTracedSteps = 5;  // that a download has

// Styles stand in the page, scripts come from this server alone, nothing comes from elsewhere.
const std::pair<std::string, std::string> kPagePolicy = {
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"};
// The report is one file with its script inside.
const std::pair<std::string, std::string> kReportPolicy = {
    "Content-Security-Policy",
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"};

HttpReply page_reply(std::string html) { return {.body = std::move(html), .headers = {kPagePolicy}}; }
HttpReply json_reply(std::string text) { return {.type = "application/json", .body = std::move(text)}; }
HttpReply not_there() { return {.status = 404, .type = "text/plain; charset=utf-8", .body = "There is nothing here.\n"}; }

std::string parameter(const HttpRequest& request, const char* name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

int64_t rank_in(const HttpRequest& request) {
  const std::string text = parameter(request, "rank");
  int64_t rank = -1;
  std::from_chars(text.data(), text.data() + std::min<size_t>(text.size(), 9), rank);
  return rank;
}

std::string hash_of(const std::string& text) { return fmt::format("{:012x}", xxh3(text) >> 16); }

// Those of `panels` whose hash is not in `have`: "head.0123456789ab,tiles.…".
std::string panels_json(const std::string& title, const std::vector<Panel>& panels, const std::vector<std::string>& hashes,
                        const std::string& have) {
  std::set<std::string, std::less<>> known;
  for (size_t begin = 0; begin < have.size();) {
    const size_t end = std::min(have.find(',', begin), have.size());
    known.insert(have.substr(begin, end - begin));
    begin = end + 1;
  }
  ordered_json list = ordered_json::object();
  for (size_t i = 0; i < panels.size(); ++i) {
    if (!known.contains(panels[i].id + "." + hashes[i])) list[panels[i].id] = {{"hash", hashes[i]}, {"html", panels[i].html}};
  }
  return ordered_json{{"title", title}, {"panels", list}}.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// The last steps of all ranks that have been recorded.
std::vector<RankTrace> last_traces(const std::filesystem::path& folder) {
  std::vector<RankTrace> ranks = read_trace(folder);
  std::set<int64_t> steps;
  for (const RankTrace& rank : ranks) {
    for (const StepTrace& step : rank.steps) steps.insert(step.step);
  }
  while (steps.size() > kTracedSteps) steps.erase(steps.begin());
  for (RankTrace& rank : ranks) std::erase_if(rank.steps, [&](const StepTrace& step) { return !steps.contains(step.step); });
  return ranks;
}

HttpReply trace_reply(const std::filesystem::path& folder, bool perfetto) {
  if (!has_trace(folder)) return not_there();
  HttpReply reply{.type = perfetto ? "application/octet-stream" : "application/json"};
  const auto write = [&](std::string_view part) { reply.body += part; };
  const std::vector<RankTrace> ranks = last_traces(folder);
  if (perfetto)
    write_perfetto_trace(ranks, write);
  else
    write_chrome_trace(ranks, write);
  return reply;
}

}  // namespace

std::string summary_json(const RunView& run, const std::vector<Alert>& firing) {
  const StateText state = run.state();
  ordered_json summary = {{"run", run.name},
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
  ordered_json slow = ordered_json::array(), alerts = ordered_json::array(), incidents = ordered_json::array();
  for (const auto& row : run.latencies.rows) {
    if (row.straggler) slow.push_back({{"rank", row.rank}, {"node", row.place.node}, {"score", row.score}});
  }
  for (const Alert& alert : firing)
    alerts.push_back({{"name", alert.name}, {"severity", alert.severity}, {"summary", alert.summary}, {"since", alert.since}});
  for (const Incident& incident : run.incidents) incidents.push_back(incident_json(incident));
  summary["stragglers"] = slow, summary["alerts"] = alerts, summary["incidents"] = incidents;
  return summary.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

LiveSite::LiveSite(const std::vector<std::filesystem::path>& runs, bool metrics_by_rank) : metrics_by_rank_(metrics_by_rank) {
  std::set<std::string> names;
  for (const auto& folder : runs) {
    auto& site = runs_.emplace_back(std::make_unique<Site>(folder));
    const std::string name = site->live.view().name;
    site->key = name;
    for (int again = 2; !names.insert(site->key).second; ++again) site->key = fmt::format("{}~{}", name, again);
  }
}

std::vector<AlertNews> LiveSite::poll(double now_wall_s) {
  const std::lock_guard hold(mutex_);
  std::vector<AlertNews> news;
  ++polls_;
  for (auto& site : runs_) {
    site->live.poll(now_wall_s);
    for (Alert& alert : site->alerts.look_at(site->live.view())) news.push_back({&site->live.view(), std::move(alert)});
  }
  return news;
}

std::vector<const RunView*> LiveSite::views() const {
  std::vector<const RunView*> all;
  for (const auto& site : runs_) all.push_back(&site->live.view());
  return all;
}

const LiveSite::Rendered& LiveSite::rendered(Site& site, bool narrow) {
  Rendered& rendered = site.rendered[narrow ? 1 : 0];
  if (rendered.of_poll == polls_) return rendered;
  rendered = {.of_poll = polls_, .panels = live_panels(site.live.view(), site.alerts.firing(), narrow, -1)};
  for (const Panel& panel : rendered.panels) rendered.hashes.push_back(hash_of(panel.html));
  return rendered;
}

HttpReply LiveSite::panels_of(Site& site, const HttpRequest& request) {
  const RunView& run = site.live.view();
  const Rendered& whole = rendered(site, parameter(request, "narrow") == "1");
  std::vector<Panel> panels = whole.panels;
  std::vector<std::string> hashes = whole.hashes;
  const int64_t rank = rank_in(request);
  const auto at = static_cast<size_t>(std::ranges::find(panels, "rank", &Panel::id) - panels.begin());
  if (rank >= 0 && at < panels.size()) {
    panels[at].html = rank_panel(run, rank);
    hashes[at] = hash_of(panels[at].html);
  }
  const std::string title = fmt::format("{} · {} · step {}", run.state().word, run.name, run.step());
  return json_reply(panels_json(title, panels, hashes, parameter(request, "have")));
}

HttpReply LiveSite::answer_of(Site& site, const std::string& what, const HttpRequest& request) {
  const RunView& run = site.live.view();
  if (what.empty()) {
    std::vector<Panel> panels = rendered(site, false).panels;
    return page_reply(live_page(run, "/run/" + url_encoded(site.key) + "/", panels));
  }
  if (what == "panels") return panels_of(site, request);
  if (what == "summary.json") return json_reply(summary_json(run, site.alerts.firing()));
  if (what == "trace.json" || what == "trace.pftrace") return trace_reply(run.folder, what == "trace.pftrace");
  if (what == "report.html" && std::filesystem::exists(run.folder / "report.html"))
    return {.body = read_text(run.folder / "report.html"), .headers = {kReportPolicy}};
  return not_there();
}

HttpReply LiveSite::page_of_runs(const HttpRequest& request) {
  std::vector<std::string> links;
  for (const auto& site : runs_) links.push_back("/run/" + url_encoded(site->key) + "/");
  if (runs_.size() == 1 && request.path == "/") return {.status = 302, .headers = {{"Location", links.front()}}};
  const auto all = views();
  const std::string panel = runs_panel(all, links);
  if (request.path == "/") return page_reply(runs_page(panel));
  return json_reply(panels_json("Runs", {{"runs", panel}}, {hash_of(panel)}, parameter(request, "have")));
}

HttpReply LiveSite::metrics_reply(const HttpRequest& request) const {
  const bool open = wants_open_metrics(request.accept);
  return {.type = std::string(metrics_type(open)), .body = run_metrics(views(), metrics_by_rank_).text(open)};
}

HttpReply LiveSite::answer(const HttpRequest& request) {
  if (request.path == "/healthz") return {.type = "text/plain; charset=utf-8", .body = "ok\n"};
  if (request.path == "/live.js")
    return {.type = "text/javascript; charset=utf-8", .body = fmt::format("{}{}", kReportScript, kLiveScript)};
  const std::lock_guard hold(mutex_);
  if (request.path == "/" || request.path == "/panels") return page_of_runs(request);
  if (request.path == "/metrics") return metrics_reply(request);
  for (auto& site : runs_) {
    const std::string base = "/run/" + site->key;
    if (request.path == base) return {.status = 302, .headers = {{"Location", "/run/" + url_encoded(site->key) + "/"}}};
    if (request.path.starts_with(base + "/")) return answer_of(*site, request.path.substr(base.size() + 1), request);
  }
  return not_there();
}

}  // namespace longhaul::observe
