#include "observe/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/progress.h"
#include "base/statistics.h"
#include "base/text/base64.h"
#include "base/text/text.h"
#include "observe/events/event_log.h"
#include "observe/format.h"
#include "observe/report/report_page.h"
#include "observe/report/report_timelines.h"
#include "observe/table.h"

namespace longhaul::observe {
namespace {

template <class Value>
std::vector<double> column(const RunHistory& run, Value value) {
  std::vector<double> values;
  for (const StepReport& step : run.steps) {
    const double v = value(step);
    if (std::isfinite(v)) values.push_back(v);
  }
  return values;
}

std::string tile(const std::string& name, const std::string& value, const std::string& unit,
                 const std::string& more) {
  return fmt::format(
      "<div class=\"tile\"><span class=\"name\">{}</span><b>{}{}</b><span class=\"more\">{}</span></div>\n",
      name, value, unit.empty() ? "" : " <small>" + unit + "</small>", more);
}

// For a task with other measures than those of text.
std::string metrics_tile(const Evaluation& last) {
  std::vector<std::pair<std::string, double>> all(last.metrics.begin(), last.metrics.end());
  if (last.loss) all.emplace(all.begin(), "loss", *last.loss);
  if (all.empty()) return "";
  std::string more;
  for (size_t i = 1; i < all.size(); ++i)
    more += fmt::format("{} {}<br>", html_escaped(all[i].first), fixed(all[i].second, 4));
  return tile("Held out", fixed(all[0].second, 4), html_escaped(all[0].first), more);
}

std::string quality_tile(const RunHistory& run) {
  if (run.evaluations.empty()) return "";
  const Evaluation& last = run.evaluations.back();
  if (!last.bits_per_byte) return metrics_tile(last);
  std::string more;
  auto against = [&](const std::string& name, double theirs) {
    const double less = 1 - *last.bits_per_byte / theirs;
    if (!std::isfinite(less)) return;
    more += fmt::format("<span class=\"{}\">{:.1f} % {}</span> {}<br>", less > 0 ? "win" : "loss",
                        std::abs(less) * 100, less > 0 ? "below" : "above", name);
  };
  if (run.baseline) {
    const std::string part =
        run.baseline->of_bytes ? fmt::format(" (of {})", bytes_text(*run.baseline->of_bytes)) : "";
    against("gzip −9" + part, run.baseline->gzip_bits_per_byte);
    against("xz −9" + part, run.baseline->xz_bits_per_byte);
  }
  if (more.empty() && last.perplexity) more = "perplexity " + fixed(*last.perplexity, 2);
  return tile("Held-out text", fixed(*last.bits_per_byte, 3), "bits/byte", more);
}

std::string loss_tile(const RunHistory& run) {
  std::vector<Point> points;
  for (const StepReport& step : run.steps) points.push_back({static_cast<double>(step.step), step.loss});
  const auto smooth = smoothed(points, smoothing_window(points.size()));
  if (smooth.empty()) return tile("Training loss", "nan", "", "no step had a finite loss");
  return tile("Training loss", fixed(smooth.back().y, 3), "nats/token",
              fmt::format("from {} at step {}", fixed(smooth.front().y, 2), grouped(smooth.front().x)));
}

std::string tiles(const RunHistory& run) {
  std::string html = "<div class=\"tiles\">\n" + quality_tile(run);
  if (!run.steps.empty()) {
    const StepReport& last = run.steps.back();
    html += loss_tile(run);
    const std::string planned =
        run.start && run.start->steps > last.step ? " of " + count_text(run.start->steps) : "";
    html += tile("Trained on", compact(static_cast<double>(last.tokens)), "tokens",
                 fmt::format("{}{} step{}", count_text(last.step), planned, last.step == 1 ? "" : "s"));
    const double mfu = median(column(run, [](const StepReport& s) { return s.mfu.value_or(std::nan("")); }));
    const double full =
        median(column(run, [](const StepReport& s) { return s.mfu_full_attention.value_or(std::nan("")); }));
    std::string share = "median step";
    if (std::isfinite(mfu)) share = fmt::format("{} of the measured peak (MFU, causal)", percent(mfu));
    if (std::isfinite(mfu) && std::isfinite(full))
      share += fmt::format("<br>{} with full attention counted", percent(full));
    const double hardware =
        median(column(run, [](const StepReport& s) { return s.hfu.value_or(std::nan("")); }));
    if (std::isfinite(hardware) && hardware != mfu)
      share += fmt::format("<br>{} with recomputation counted (HFU)", percent(hardware));
    const std::string others = others_text(taken_by_others(run.steps));
    if (!others.empty()) share += "<br>" + others + ": faster without";
    html +=
        tile("Speed", compact(median(column(run, [](const StepReport& s) { return s.tokens_per_second; }))),
             "tokens/s", share);
    double spent_ms = 0;
    for (const StepReport& step : run.steps)
      spent_ms += std::isfinite(step.milliseconds) ? step.milliseconds : 0;
    html +=
        tile("Time in steps", duration_text(spent_ms / 1000), "",
             fmt::format(
                 "{} a step<br>{} first to last",
                 milliseconds_text(median(column(run, [](const StepReport& s) { return s.milliseconds; }))),
                 duration_text(run.last_wall_time - run.first_wall_time)));
  }
  if (run.start) {
    const RunStart& s = *run.start;
    const std::string used = s.parameters_per_token > 0 && s.parameters_per_token < s.parameters
                                 ? fmt::format("{} per token, without embedding and head",
                                               compact(static_cast<double>(s.parameters_per_token)))
                                 : html_escaped(s.model);
    html += tile("Parameters", compact(static_cast<double>(s.parameters)), "", used);
  }
  return html + "</div>\n";
}

std::string status(const RunHistory& run) {
  std::string kind = "warn", word = "not ended";
  if (run.end) {
    word = run.end->reason;
    kind = word == "finished" ? "good" : word == "error" ? "bad" : "warn";
  }
  return fmt::format("<span class=\"status {}\">{}</span>", kind, html_escaped(word));
}

std::string header(const RunHistory& run) {
  const RunStart start = run.start.value_or(RunStart{});
  const std::string title = start.name.empty() ? run.run : start.name;
  std::string when = wall_time_text(run.first_wall_time);  // 2026-11-21T02:36:05Z
  if (when.size() == 20) when = when.substr(0, 10) + " " + when.substr(11, 5) + " UTC";
  std::vector<std::string> parts = {when};
  if (!start.model.empty()) parts.push_back(start.model);
  if (!start.dtype.empty()) parts.push_back(fmt::format("{} on {}", start.dtype, start.processor));
  if (start.threads > 0) parts.push_back(counted(start.threads, "thread"));
  if (!run.resumes.empty()) {
    const std::string times = run.resumes.size() == 1 ? "once" : fmt::format("{} times", run.resumes.size());
    parts.push_back(fmt::format("resumed {} ({} done again)", times, counted(run.repeated_steps, "step")));
  }
  std::string line;
  for (const auto& part : parts) line += (line.empty() ? "" : " · ") + html_escaped(part);
  return fmt::format(
      "<header><div class=\"kicker\">Longhaul run report</div><h1>{}</h1><p>{}{}</p></header>\n",
      html_escaped(title), status(run), line);
}

std::string charts_html(const RunHistory& run) {
  const auto charts = report_charts(run);
  if (charts.empty()) return "<p class=\"note\">No step has been recorded yet.</p>\n";
  std::string html = "<div class=\"charts\">\n";
  for (const Chart& chart : charts) html += chart.html();
  html += "</div>\n<p class=\"legend\">";
  auto key = [&](const char* style, const char* text) {
    html +=
        fmt::format("<svg viewBox=\"0 0 10 10\"><path class=\"flag {}\" d=\"M5 0l4 5l-4 5l-4 -5z\"/></svg>{}",
                    style, text);
  };
  if (!run.checkpoints.empty()) key("save", "checkpoint");
  if (!run.resumes.empty()) key("resume", "resumed");
  if (std::any_of(run.steps.begin(), run.steps.end(),
                  [](const auto& s) { return !std::isfinite(s.loss) || s.skipped.value_or(false); })) {
    key("bad", "skipped or not finite");
  }
  return html + " <output id=\"step\"></output></p>\n";
}

std::string troubles(const RunHistory& run) {
  if (run.alarms.empty() && run.nonfinite.empty()) return "";
  std::string html =
      "<section><h2>What went wrong on the way</h2><div "
      "class=\"table\"><table><tr><th>when</th><th>what</th><th>details</th></tr>\n";
  constexpr size_t kMost = 50;
  size_t shown = 0;
  for (const auto& [when, alarm] : run.alarms) {
    if (++shown > kMost) break;
    html += fmt::format("<tr><td class=\"dim\">{}</td><td class=\"bad\">{}</td><td>{}</td></tr>\n",
                        wall_time_text(when), html_escaped(alarm.kind), html_escaped(alarm.message));
  }
  for (const NonFinite& n : run.nonfinite) {
    if (++shown > kMost) break;
    html += fmt::format(
        "<tr><td class=\"dim\">step {}</td><td class=\"bad\">not finite</td><td>{} of <code>{}</code>, first "
        "in "
        "<code>{}</code></td></tr>\n",
        count_text(n.step), html_escaped(n.phase), html_escaped(n.layer), html_escaped(n.tensor));
  }
  html += "</table></div>";
  const size_t all = run.alarms.size() + run.nonfinite.size();
  if (all > kMost) html += fmt::format("<p class=\"note\">{} more are in events.jsonl.</p>", all - kMost);
  return html + "</section>\n";
}

// The metrics that any evaluation of the run has.
struct EvaluationColumn {
  std::string heading;
  int decimals = 4;
  std::function<std::optional<double>(const Evaluation&)> value;
};

std::vector<EvaluationColumn> evaluation_columns(const RunHistory& run) {
  std::vector<EvaluationColumn> columns = {{"loss", 4, &Evaluation::loss},
                                           {"bits per byte", 4, &Evaluation::bits_per_byte},
                                           {"perplexity", 2, &Evaluation::perplexity}};
  for (const std::string& name : metric_names(run.evaluations)) {
    columns.push_back(
        {html_escaped(name), 4, [name](const Evaluation& e) { return metric(e.metrics, name); }});
  }
  std::erase_if(columns, [&](const EvaluationColumn& column) {
    return std::ranges::none_of(run.evaluations,
                                [&](const Evaluation& e) { return column.value(e).has_value(); });
  });
  return columns;
}

std::string evaluations(const RunHistory& run) {
  if (run.evaluations.size() < 2) return "";
  const std::vector<EvaluationColumn> columns = evaluation_columns(run);
  std::string html = fmt::format(
      "<details><summary>All {} evaluations as a table</summary><div class=\"table\"><table><tr><th "
      "class=\"n\">step</th>",
      run.evaluations.size());
  for (const EvaluationColumn& column : columns)
    html += fmt::format("<th class=\"n\">{}</th>", column.heading);
  html += "</tr>\n";
  for (const Evaluation& e : run.evaluations) {
    html += fmt::format("<tr><td class=\"n\">{}</td>", count_text(e.step));
    for (const EvaluationColumn& column : columns) {
      const auto value = column.value(e);
      html += fmt::format("<td class=\"n\">{}</td>", value ? fixed(*value, column.decimals) : "");
    }
    html += "</tr>\n";
  }
  return html + "</table></div></details>\n";
}

std::string growths(const RunHistory& run) {
  if (run.growths.empty()) return "";
  std::string html =
      "<section><h2>How the batch grew</h2><div class=\"table\"><table><tr><th class=\"n\">behind "
      "step</th><th class=\"n\">sequences a step</th>"
      "<th class=\"n\">before</th><th class=\"n\">critical batch, tokens</th></tr>\n";
  for (const BatchGrowth& g : run.growths) {
    html += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>\n",
        count_text(g.step), count_text(g.batch), count_text(g.batch_before),
        compact(g.critical_batch_tokens));
  }
  return html + "</table></div></section>\n";
}

std::string samples(const RunHistory& run) {
  if (run.samples.empty()) return "";
  std::string html = fmt::format(
      "<section><h2>What it writes</h2><p class=\"note\">Sampled after step {}; the prompt is grey.</p>\n",
      count_text(run.samples.back().step));
  for (const Sample& sample : run.samples) {
    html += fmt::format("<pre><span class=\"prompt\">{}</span><span class=\"text\">{}</span></pre>\n",
                        html_escaped(sample.prompt), html_escaped(sample.text));
  }
  return html + "</section>\n";
}

std::string recipe_section(const std::vector<RecipeChange>& changes, const std::string& remark) {
  std::string html = "<section><h2>Recipe</h2>";
  if (!remark.empty()) return html + "<p class=\"note\">" + html_escaped(remark) + "</p></section>\n";
  if (changes.empty()) return html + "<p class=\"note\">Every value is the default.</p></section>\n";
  html +=
      "<p class=\"note\">Values that are not the default, and where they come from.</p><div "
      "class=\"table\"><table><tr><th>option</th><th>value</th><th>default</th><th>from</th></tr>\n";
  for (const auto& change : changes) {
    html += fmt::format(
        "<tr><td class=\"c key\">{}</td><td class=\"c\">{}</td><td class=\"c dim\">{}</td><td "
        "class=\"dim\">{}</td></tr>\n",
        html_escaped(change.key), html_escaped(change.value), html_escaped(change.default_value),
        html_escaped(change.origin));
  }
  return html + "</table></div></section>\n";
}

std::string memory(const RunHistory& run) {
  if (run.memory.empty()) return "";
  std::string html =
      "<section><h2>Memory</h2><p class=\"note\">What was planned, and what the allocator counted, by "
      "purpose.</p><div "
      "class=\"table\"><table><tr><th>purpose</th><th class=\"n\">planned</th><th class=\"n\">peak</th><th "
      "class=\"n\">difference</th>"
      "<th class=\"n\">at the end</th></tr>\n";
  for (const MeasuredMemory& m : run.memory) {
    html += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>\n",
        html_escaped(m.purpose), m.planned_bytes ? bytes_text(*m.planned_bytes) : "",
        bytes_text(m.peak_bytes), plan_difference(m), bytes_text(m.bytes));
  }
  return html + "</table></div></section>\n";
}

std::string environment(const RunHistory& run) {
  if (!run.start) return "";
  const RunStart& s = *run.start;
  std::string features;
  for (const auto& feature : s.cpu_features) features += (features.empty() ? "" : " ") + feature;
  const auto peak = s.peak_flops_per_second ? compact(*s.peak_flops_per_second) + "FLOP/s" : std::string();
  const std::vector<std::pair<const char*, std::string>> rows = {
      {"run", run.run},
      {"Longhaul", s.version},
      {"commit", s.commit},
      {"compiler", s.compiler},
      {"LibTorch", s.libtorch},
      {"host", s.host},
      {"system", s.operating_system},
      {"processor", s.processor},
      {"instructions", features},
      {"device", s.device},
      {"threads", count_text(s.threads)},
      {"memory", s.memory_bytes ? bytes_text(*s.memory_bytes) : ""},
      {"measured peak", peak},
      {"beside", others_text(taken_by_others(run.steps))},
      {"precision", s.dtype},
      {"seed", fmt::to_string(s.seed)},
      {"recipe hash", s.recipe_hash},
      {"tokens a step", count_text(s.tokens_per_step)},
      {"sequence", count_text(s.sequence)},
      {"vocabulary", count_text(s.vocabulary)},
      {"training tokens", s.training_tokens ? count_text(*s.training_tokens) : ""},
      {"training text", s.training_bytes ? bytes_text(*s.training_bytes) : ""},
      {"held-out text", s.heldout_bytes ? bytes_text(*s.heldout_bytes) : ""}};
  std::string html = "<section><h2>Environment</h2><div class=\"table\"><table>\n";
  for (const auto& [name, value] : rows) {
    if (!value.empty())
      html += fmt::format("<tr><td class=\"dim\">{}</td><td>{}</td></tr>\n", name, html_escaped(value));
  }
  return html + "</table></div></section>\n";
}

// The picture of addresses that the first rank drew last (train.arena); empty where there is none. It is an
// image, so that nothing that a file of the run folder holds is run.
std::string addresses_section(const std::filesystem::path& folder) {
  std::error_code missing;
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".svg") || name.find("-0-of-") == std::string::npos) continue;
    if (newest.empty() || entry.last_write_time() > std::filesystem::last_write_time(newest))
      newest = entry.path();
  }
  if (newest.empty()) return "";
  return fmt::format(
      "<section><h2>Where a step's tensors lie</h2>\n<img alt=\"addresses of tensors over time\" "
      "style=\"max-width:100%\" src=\"data:image/svg+xml;base64,{}\"/></section>\n",
      base64(read_text(newest)));
}

}  // namespace

std::string report_html(const RunHistory& run, const std::vector<RecipeChange>& changes,
                        const std::string& recipe_remark, const std::string& timelines,
                        const std::string& closing) {
  const std::string title = run.start && !run.start->name.empty() ? run.start->name : run.run;
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n"
      "<title>{} · Longhaul</title>\n<style>{}</style></head>\n<body>\n",
      html_escaped(title), kReportStyle);
  html += header(run) + tiles(run) + charts_html(run) + evaluations(run) + growths(run) + troubles(run) +
          samples(run) + timelines;
  html += "<div class=\"columns\">" + recipe_section(changes, recipe_remark) + "<div>" + memory(run) +
          environment(run) + "</div></div>\n" + closing;
  html += fmt::format(
      "<footer>Made by Longhaul{} from events.jsonl, last written {}. The page is one file and needs nothing "
      "else.</footer>\n",
      run.start ? " " + html_escaped(run.start->version) : "", wall_time_text(run.last_wall_time));
  return html + fmt::format("<script>{}</script>\n</body></html>\n", kReportScript);
}

std::filesystem::path write_report(const std::filesystem::path& run_folder, const std::string& closing) {
  const RunHistory run = read_run(run_folder);
  const auto recipe_file = run_folder / "recipe.toml";
  std::vector<RecipeChange> changes;
  std::string remark;
  if (!std::filesystem::exists(recipe_file)) {
    remark = "The run folder has no recipe.toml.";
  } else {
    try {
      changes = recipe_changes(recipe_file);
    } catch (const Error& error) {  // an incomplete page says more than none
      remark = "recipe.toml cannot be read: " + std::string(error.what());
    }
  }
  std::string timelines = addresses_section(run_folder / "arena");
  try {
    timelines += timelines_section(run_folder);
  } catch (const Error& error) {
    timelines += fmt::format(
        "<section><h2>Who did what when</h2><p class=\"note\">It cannot be shown: {}</p></section>\n",
        html_escaped(error.what()));
  }
  const auto page = run_folder / "report.html";
  write_text_atomically(page, report_html(run, changes, remark, timelines, closing));
  return page;
}

}  // namespace longhaul::observe
