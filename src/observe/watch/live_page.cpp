#include "observe/watch/live_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "observe/format.h"
#include "observe/report/report.h"
#include "observe/report/report_page.h"
#include "observe/watch/live_style.h"

namespace longhaul::observe {
namespace {

constexpr int64_t kPairedRanks = 48;  // as many have room next to the loss

std::string live_tile(const std::string& name, const std::string& value, const std::string& unit,
                      const std::string& more) {
  return fmt::format(
      "<div class=\"tile\"><span class=\"name\">{}</span><b>{}{}</b><span class=\"more\">{}</span></div>\n",
      name, value, unit.empty() ? "" : " <small>" + unit + "</small>", more);
}

std::string clock_text(double unix_s) {
  const std::string text = wall_time_text(unix_s);  // 2026-11-21T02:36:05Z
  return text.size() == 20 ? text.substr(11, 8) + " UTC" : text;
}

std::string title_of(const RunView& run) {
  return run.history.start && !run.history.start->name.empty() ? run.history.start->name : run.name;
}

std::string badge(const StateText& state) {
  return fmt::format("<span class=\"status {}\">{}</span>", state.kind, html_escaped(state.word));
}

// "step 1,204 of 5,000 · generation 3 · 8 ranks on 4 nodes · 2 h 10 min to go"
std::string position_line(const RunView& run) {
  const int64_t step = run.step(), planned = run.planned_steps();
  std::vector<std::string> parts = {planned > 0
                                        ? fmt::format("step {} of {}", count_text(step), count_text(planned))
                                        : "step " + count_text(step)};
  if (run.generation() > 1) parts.push_back(fmt::format("generation {}", run.generation()));
  std::string ranks = counted(run.world(), "rank");
  if (run.status && !run.status->nodes.empty()) {
    const auto active = std::ranges::count(run.status->nodes, "active", &NodeStatus::state);
    ranks += " on " + counted(active, "node");
  }
  parts.push_back(ranks);
  if (run.history.start && !run.history.start->model.empty())
    parts.push_back(html_escaped(run.history.start->model));
  const double left = static_cast<double>(planned - step) * run.seconds_a_step();
  if (planned > step && left > 0 && !run.history.end)
    parts.push_back(duration_text(left) + " of steps to go");
  std::string line;
  for (const auto& part : parts) line += (line.empty() ? "" : " · ") + part;
  return line;
}

std::string head_panel(const RunView& run) {
  const StateText state = run.state();
  const double share =
      run.planned_steps() > 0
          ? std::min(1.0, static_cast<double>(run.step()) / static_cast<double>(run.planned_steps()))
          : 0;
  std::string html = fmt::format(
      "<header><div class=\"kicker\"><span class=\"dot\"></span><a href=\"/\">Longhaul</a> · "
      "live</div><h1>{}</h1><p>{}{}</p>",
      html_escaped(title_of(run)), badge(state), position_line(run));
  if (!state.sentence.empty()) html += fmt::format("<p class=\"note\">{}</p>", html_escaped(state.sentence));
  if (share > 0) {
    html += fmt::format(
        "<div class=\"progress\" role=\"progressbar\" aria-valuemin=\"0\" aria-valuemax=\"100\" "
        "aria-valuenow=\"{:.0f}\"><i style=\"width:{:.2f}%\"></i></div>",
        share * 100, share * 100);
  }
  return html + "</header>";
}

std::string alerts_panel(const std::vector<Alert>& alerts) {
  std::string html;
  for (const Alert& alert : alerts) {
    html += fmt::format(
        "<div class=\"alert {}\" role=\"alert\"><b>{}</b><span>{}</span><small>since {}</small></div>",
        alert.severity, html_escaped(alert.name), html_escaped(alert.summary), clock_text(alert.since));
  }
  return html.empty() ? "" : "<div class=\"alerts\">" + html + "</div>";
}

std::string ranks_tile(const RunView& run) {
  if (!run.status || run.status->ranks.empty()) return "";
  const auto running = std::ranges::count(run.status->ranks, "running", &RankStatus::state);
  const auto all = static_cast<int64_t>(run.status->ranks.size());
  const auto spares = std::ranges::count(run.status->nodes, "spare", &NodeStatus::state);
  return live_tile(
      "Ranks running",
      running < all ? fmt::format("<span class=\"bad\">{}</span>", running) : fmt::to_string(running),
      fmt::format("of {}", all), counted(spares, "spare node"));
}

std::string live_tiles(const RunView& run) {
  std::string html = "<div class=\"tiles\">\n";
  if (!run.history.steps.empty()) {
    const StepReport& last = run.history.steps.back();
    const auto& evaluations = run.history.evaluations;
    std::string held;
    if (!evaluations.empty() && evaluations.back().loss)
      held = "held out " + fixed(*evaluations.back().loss, 4);
    if (!evaluations.empty() && evaluations.back().bits_per_byte)
      held = fixed(*evaluations.back().bits_per_byte, 4) + " bits/byte held out";
    html += live_tile("Loss", fixed(last.loss, 4), "", held);
    std::string beside = last.mfu ? percent(*last.mfu) + " of the peak" : "";
    const std::string others = others_text(run.taken_by_others());
    if (!others.empty()) beside += (beside.empty() ? "" : "; ") + others;
    html += live_tile("Speed", compact(last.tokens_per_second), "tokens/s", beside);
    const auto skew = run.entry_skew_s();
    html += live_tile(
        "Step", milliseconds_text(run.seconds_a_step() * 1000), "",
        "gradient norm " + fixed(last.grad_norm, 3) +
            (skew ? fmt::format("; ranks {} apart behind their passes", milliseconds_text(*skew * 1000))
                  : ""));
    html +=
        live_tile("Trained on", compact(static_cast<double>(last.tokens)), "tokens",
                  run.totals.skipped_steps > 0 ? counted(run.totals.skipped_steps, "step") + " skipped" : "");
  }
  const auto hour = run.effective_ratio_hour();
  if (run.time.wall > 0)
    html += live_tile("Effective time", percent(run.effective_ratio()), "",
                      hour ? percent(*hour) + " in the last hour" : "of " + duration_text(run.time.wall));
  html += ranks_tile(run);
  const int64_t restarts = run.status ? run.status->restarts : std::max<int64_t>(0, run.generation() - 1);
  html += live_tile("Restarts", restarts > 0 ? count_text(restarts) : "none", "",
                    counted(static_cast<int64_t>(run.incidents.size()), "incident"));
  if (run.checkpoint_word.said > 0) {
    html +=
        live_tile("Last checkpoint", fmt::format("step {}", count_text(run.history.checkpoints.back().step)),
                  "", clock_text(run.checkpoint_word.said));
  }
  return html + "</div>";
}

std::vector<Chart> live_charts(const RunView& run, bool narrow) {
  std::vector<Chart> charts = report_charts(run.history);
  for (Chart& chart : charts) {
    const bool loss = &chart == &charts.front();
    chart.width = narrow ? 400 : loss ? 690 : 430;
    chart.height = narrow ? 230 : loss ? 330 : 220;
  }
  return charts;
}

std::string links_panel(const RunView& run) {
  std::string html =
      "<footer>Read from <code>" + html_escaped(run.folder.string()) +
      "</code>. As numbers: <a href=\"summary.json\">summary.json</a>, <a href=\"/metrics\">metrics</a>";
  if (run.traced)
    html +=
        ". Recorded steps: <a href=\"trace.pftrace\" download>Perfetto</a>, <a href=\"trace.json\" "
        "download>Chrome</a> (open at ui.perfetto.dev)";
  if (std::filesystem::is_regular_file(std::filesystem::symlink_status(run.folder / "report.html")))
    html += ". <a href=\"report.html\">The run's report</a>";
  html += ".";
  if (run.damaged_lines > 0)
    html += fmt::format(" {} could not be read.", counted(run.damaged_lines, "line"));
  return html + "</footer>";
}

std::string page_begin(const std::string& title, const std::string& base) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\"><title>{} · Longhaul</title>\n<style>{}{}</style></head>\n<body "
      "class=\"live\" data-base=\"{}\">\n"
      "<div class=\"offline-note\" role=\"status\">No answer from longhaul watch: what stands here is old. "
      "It is asked again.</div>\n",
      html_escaped(title), kReportStyle, kLiveStyle, html_escaped(base));
}

std::string slot(const Panel& panel) {
  return fmt::format("<div class=\"panel\" id=\"panel-{}\">{}</div>\n", panel.id, panel.html);
}

std::string spark(const RunHistory& history) {
  std::vector<Point> points;
  for (const StepReport& step : history.steps) {
    if (std::isfinite(step.loss)) points.push_back({static_cast<double>(step.step), step.loss});
  }
  points = smoothed(points, smoothing_window(points.size()));
  if (points.size() < 2) return "";
  const auto [low, high] = std::ranges::minmax_element(points, {}, &Point::y);
  const double height = std::max(1e-9, high->y - low->y), width = points.back().x - points.front().x;
  std::string path;
  for (const Point& p : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                        (p.x - points.front().x) / width * 296 + 2, 38 - (p.y - low->y) / height * 34);
  return fmt::format(
      "<svg class=\"spark\" viewBox=\"0 0 300 42\" role=\"img\" aria-label=\"training loss\"><path "
      "class=\"line\" d=\"{}\"/></svg>",
      path);
}

}  // namespace

std::string time_bar(const RunView& run) {
  const TimeShares& time = run.time;
  if (time.wall <= 0) return "";
  const std::vector<std::tuple<const char*, const char*, double>> parts = {
      {"productive", "steps that count", time.productive},
      {"repeated", "steps done again", time.repeated},
      {"checkpoint", "copying checkpoints", time.checkpoint},
      {"starting", "starting", time.starting},
      {"stopped", "no process", time.stopped},
      {"other", "evaluation and other", std::max(0.0, time.other())}};
  double sum = 0;
  for (const auto& [style, name, seconds] : parts) sum += seconds;
  std::string bar, keys;
  for (const auto& [style, name, seconds] : parts) {
    if (seconds < 0.0005 * sum) continue;
    bar += fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\" title=\"{}: {}\"></i>", style,
                       seconds / sum * 100, name, duration_text(seconds));
    keys += fmt::format("<span><i class=\"swatch {}\"></i>{} <b>{}</b> {}</span>", style, name,
                        percent(seconds / sum), duration_text(seconds));
  }
  // The tile beside it then has another number.
  const std::string_view note =
      run.status && run.status->effective_ratio
          ? "As rank 0's events tell it. \"Effective time\" is by the driver's clock, which also counts the "
            "start of processes and the time until a fault was judged."
          : "";
  return fmt::format(
      "<div class=\"card\"><h2>Where {} went</h2><p class=\"note\">{}</p><div class=\"share\">{}</div><div "
      "class=\"share-keys\">{}</div></div>",
      duration_text(time.wall), note, bar, keys);
}

std::vector<Panel> live_panels(const RunView& run, const std::vector<Alert>& alerts, bool narrow) {
  const std::vector<Chart> charts = live_charts(run, narrow);
  std::string
      loss =
          charts.empty()
              ? "<div class=\"card\"><h2>Loss</h2><p class=\"note\">No step has been recorded yet.</p></div>"
              : charts.front().html(),
      rest;
  for (size_t i = 1; i < charts.size(); ++i) rest += charts[i].html();
  if (!charts.empty())
    rest = "<div class=\"charts\">" + rest + "</div><p class=\"legend\"><output id=\"step\"></output></p>";
  std::vector<Panel> panels = {
      {"head", head_panel(run)},
      {"alerts", alerts_panel(alerts)},
      {"tiles", live_tiles(run)},
      {"loss", loss},
      {"mesh", mesh_picture(run)},
      {"rank", ""},
      {"latency", latency_picture(run.latencies, narrow                       ? 330
                                                 : run.world() > kPairedRanks ? 1200
                                                                              : 660)},
      {"incidents", incidents_panel(run)},
      {"time", time_bar(run)},
      {"charts", rest},
      {"links", links_panel(run)}};
  // Many ranks need the whole width: then the incidents are next to the loss.
  const auto place = [&](const char* id) { return std::ranges::find(panels, id, &Panel::id); };
  if (run.world() > kPairedRanks) std::rotate(place("mesh"), place("incidents"), place("incidents") + 1);
  return panels;
}

std::string live_page(const RunView& run, const std::string& base, const std::vector<Panel>& panels) {
  const bool wide = run.world() > kPairedRanks;
  std::string html = page_begin(title_of(run), base);
  for (const Panel& panel : panels) {
    if (panel.id == "loss" || (panel.id == "latency" && !wide)) html += "<div class=\"pair panel\">";
    html += slot(panel);
    if (panel.id == (wide ? "incidents" : "mesh") || (panel.id == "incidents" && !wide)) html += "</div>\n";
  }
  return html + "<script src=\"/live.js\"></script>\n</body></html>\n";
}

std::string runs_panel(std::span<const RunView* const> runs, const std::vector<std::string>& links) {
  std::string html = fmt::format(
      "<header><div class=\"kicker\"><span class=\"dot\"></span>Longhaul · "
      "live</div><h1>{}</h1></header><div class=\"runs\">",
      counted(static_cast<int64_t>(runs.size()), "run"));
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunView& run = *runs[i];
    const std::string loss =
        run.history.steps.empty() ? "" : " · loss " + fixed(run.history.steps.back().loss, 4);
    html +=
        fmt::format("<a class=\"run card\" href=\"{}\">{} <small>{}</small><h2>{}</h2><p>{}{}</p>{}</a>\n",
                    html_escaped(links[i]), badge(run.state()), html_escaped(run.name),
                    html_escaped(title_of(run)), position_line(run), loss, spark(run.history));
  }
  return html + "</div>";
}

std::string runs_page(const std::string& panel) {
  return page_begin("Runs", "/") + slot({"runs", panel}) +
         "<script src=\"/live.js\"></script>\n</body></html>\n";
}

}  // namespace longhaul::observe
