#include "observe/report/report_timelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "layout/mesh.h"
#include "observe/charts/chart.h"
#include "observe/format.h"
#include "observe/trace/time_use.h"
#include "recipe/load.h"

namespace longhaul::observe {
namespace {

using layout::Pass;

constexpr double kWidth = 1080, kLeft = 66, kRight = 14, kTop = 6, kAxis = 30;
constexpr size_t kMostRows = 32;  // more cannot be read on a page

double share_of(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

struct Kind {
  const char* style;
  const char* name;
};

Kind kind_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return {"forward", "forward"};
    case Pass::kBackwardInput:
      return {"input", "backward, inputs"};
    case Pass::kBackwardWeight:
      return {"weight", "backward, weights"};
    default:
      return {"backward", "backward"};
  }
}

Kind kind_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return kind_of(Pass::kForward);
    case SpanKind::kBackward:
      return kind_of(Pass::kBackward);
    case SpanKind::kBackwardInput:
      return kind_of(Pass::kBackwardInput);
    case SpanKind::kBackwardWeight:
      return kind_of(Pass::kBackwardWeight);
    case SpanKind::kEvaluation:
      return {"evaluation", "evaluation"};
    case SpanKind::kData:
      return {"data", "waits for data"};
    case SpanKind::kCheckpoint:
      return {"copy", "checkpoint copy"};
    default:
      return {"update", "gradients, norm, optimizer"};
  }
}

// From milliseconds to places in the picture.
struct Scale {
  double end = 1;
  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / end; }
};

std::string axis(const Scale& scale, double bottom, const std::string& unit) {
  std::string svg;
  const std::vector<double> ticks = linear_ticks(0, scale.end, 8);
  const double apart = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  for (const double tick : ticks) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {}V{:.1f}\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"middle\">{}</text>",
        scale.x(tick), kTop, bottom, scale.x(tick), bottom + 18, tick_text(tick, apart));
  }
  return svg + fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 10,
                           bottom + 18, html_escaped(unit));
}

std::string row_name(const std::string& name, double middle) {
  return fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 10, middle + 4,
                     html_escaped(name));
}

std::string figure(const std::string& title, const std::string& caption, const std::string& keys,
                   double height, const std::string& svg) {
  return fmt::format(
      "<figure class=\"picture\"><figcaption><h3>{}</h3><span "
      "class=\"keys\">{}</span><p>{}</p></figcaption>\n<div class=\"scroll\"><svg "
      "viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg></div></figure>\n",
      html_escaped(title), keys, html_escaped(caption), kWidth, height, html_escaped(title), svg);
}

std::string key(const Kind& kind) {
  return fmt::format("<span class=\"key\"><i class=\"swatch {}\"></i>{}</span>", kind.style, kind.name);
}

double milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

bool is_pass(const Span& span) { return span.kind <= SpanKind::kBackwardWeight; }

// The passes of training: those of an evaluation after the step are not part of the schedule.
std::vector<Span> training_passes(const StepTrace& step) {
  int64_t end_ns = step.end_ns;
  for (const Span& span : step.spans) {
    if (span.kind == SpanKind::kEvaluation) end_ns = std::min(end_ns, span.begin_ns);
  }
  std::vector<Span> passes;
  for (const Span& span : step.spans) {
    if (is_pass(span) && span.end_ns <= end_ns) passes.push_back(span);
  }
  return passes;
}

Pass pass_of(SpanKind kind) {
  constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackward, Pass::kBackwardInput, Pass::kBackwardWeight};
  return kPasses[static_cast<size_t>(kind)];
}

std::string box(const PassPicture::Box& box, int64_t chunks, const Scale& scale, double y, double height,
                const std::string& unit) {
  const double x = scale.x(box.begin), width = std::max(0.4, scale.x(box.end) - x);
  const double shade =
      chunks > 1 ? 1 - 0.5 * static_cast<double>(box.chunk) / static_cast<double>(chunks - 1) : 1;
  const Kind kind = kind_of(box.pass);
  const std::string chunk = chunks > 1 ? fmt::format(", chunk {}", box.chunk) : "";
  std::string svg = fmt::format(
      "<rect class=\"box {}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
      "fill-opacity=\"{:.2f}\"><title>{} of micro-batch "
      "{}{}: {} {}</title></rect>",
      kind.style, x, y, width, height, shade, kind.name, box.micro_batch, chunk,
      fixed(box.end - box.begin, 2), unit);
  const std::string number = std::to_string(box.micro_batch);
  if (width >= 7.0 * static_cast<double>(number.size()) + 3) {
    svg += fmt::format("<text class=\"number\" x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                       x + width / 2, y + height / 2 + 4, number);
  }
  return svg;
}

double end_of(const PassPicture& picture) {
  double end = 1e-9;
  for (const auto& row : picture.rows) {
    for (const auto& each : row) end = std::max(end, each.end);
  }
  return end;
}

// Share of the picture in which nothing is computed.
double bubble_of(const PassPicture& picture) {
  double busy = 0;
  for (const auto& row : picture.rows) {
    for (const auto& each : row) busy += each.end - each.begin;
  }
  return 1 - busy / (end_of(picture) * static_cast<double>(picture.rows.size()));
}

}  // namespace

std::string PassPicture::html() const {
  constexpr double kRow = 30, kBox = 24;
  int64_t chunks = 1;
  std::vector<Pass> seen;
  for (const auto& row : rows) {
    for (const Box& each : row) {
      chunks = std::max(chunks, each.chunk + 1);
      if (std::ranges::find(seen, each.pass) == seen.end()) seen.push_back(each.pass);
    }
  }
  std::ranges::sort(seen);
  const Scale scale{end_of(*this)};
  const double bottom = kTop + kRow * static_cast<double>(rows.size());
  std::string svg = axis(scale, bottom, unit), keys;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = kTop + kRow * static_cast<double>(i) + (kRow - kBox) / 2;
    svg += row_name(names[i], y + kBox / 2);
    for (const Box& each : rows[i]) svg += box(each, chunks, scale, y, kBox, unit);
    svg += "\n";
  }
  for (const Pass pass : seen) keys += key(kind_of(pass));
  if (chunks > 1) keys += "<span class=\"key\">later chunks are paler</span>";
  return figure(title, caption, keys, bottom + kAxis, svg);
}

PassPicture measured_passes(const std::vector<RankTrace>& ranks) {
  std::vector<const RankTrace*> pipeline;
  for (const RankTrace& rank : ranks) {
    if (rank.rank.dp == 0 && rank.rank.cp == 0 && rank.rank.tp == 0 && !rank.steps.empty())
      pipeline.push_back(&rank);
  }
  std::ranges::sort(pipeline, {}, [](const RankTrace* rank) { return rank->rank.pp; });
  PassPicture picture{.unit = "ms"};
  int64_t origin_ns = std::numeric_limits<int64_t>::max();
  for (const RankTrace* rank : pipeline) {
    for (const Span& span : training_passes(rank->steps.back()))
      origin_ns = std::min(origin_ns, span.begin_ns);
  }
  for (const RankTrace* rank : pipeline) {
    picture.names.push_back(fmt::format("rank {}", rank->rank.rank));
    auto& row = picture.rows.emplace_back();
    for (const Span& span : training_passes(rank->steps.back())) {
      row.push_back({pass_of(span.kind), span.chunk, span.micro_batch,
                     milliseconds(span.begin_ns - origin_ns), milliseconds(span.end_ns - origin_ns)});
    }
  }
  if (pipeline.empty()) return picture;
  picture.title = fmt::format("Step {} as measured", pipeline.front()->steps.back().step);
  picture.caption = fmt::format(
      "{} from the first pass to the last; {} of the ranks' time lies between passes. Numbers are "
      "micro-batches.",
      milliseconds_text(end_of(picture)), percent(bubble_of(picture)));
  return picture;
}

PassPicture simulated_passes(const layout::Schedule& schedule, const layout::PassCosts& costs) {
  const layout::Timeline timeline = layout::simulate(schedule, costs);
  PassPicture picture{.title = "The schedule, simulated"};
  for (size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    picture.names.push_back(fmt::format("stage {}", rank));
    auto& row = picture.rows.emplace_back();
    for (const layout::PassSpan& span : timeline.ranks[rank]) {
      row.push_back({span.action.pass, span.action.chunk, span.action.micro_batch, span.begin, span.end});
    }
  }
  return picture;
}

layout::PassCosts measured_costs(const PassPicture& measured, int64_t chunks) {
  double sum[4] = {}, count[4] = {};
  for (const auto& row : measured.rows) {
    for (const auto& each : row) {
      sum[static_cast<size_t>(each.pass)] += each.end - each.begin;
      count[static_cast<size_t>(each.pass)] += 1;
    }
  }
  const auto mean = [&](Pass pass) {
    const auto at = static_cast<size_t>(pass);
    return count[at] > 0 ? sum[at] / count[at] * static_cast<double>(chunks) : 0;
  };
  // In a backward pass in one piece, gradients of inputs and of weights take about equally long; where both
  // kinds occur, those in two pieces are used.
  const double whole = mean(Pass::kBackward), input = mean(Pass::kBackwardInput),
               weight = mean(Pass::kBackwardWeight);
  return {.forward = mean(Pass::kForward),
          .backward_input = input > 0 ? input : whole / 2,
          .backward_weight = weight > 0 ? weight : whole / 2};
}

namespace {

std::string slice(const Kind& kind, const char* more, Interval time, int64_t origin_ns, const Scale& scale,
                  double y, double height, const std::string& title) {
  const double x = scale.x(milliseconds(time.begin - origin_ns)),
               width = scale.x(milliseconds(time.end - origin_ns)) - x;
  if (width < 0.1) return "";  // too narrow to see
  return fmt::format(
      "<rect class=\"{}{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"><title>{}: "
      "{}</title></rect>",
      more, kind.style, x, y, width, height, html_escaped(title),
      milliseconds_text(milliseconds(time.end - time.begin)));
}

std::string row_of(const StepTrace& step, int64_t origin_ns, const Scale& scale, double y,
                   std::vector<std::string>& keys) {
  constexpr double kCompute = 20, kCalls = 7;
  std::vector<Span> spans = step.spans;
  // The longest are in the background.
  std::ranges::stable_sort(spans, {}, [](const Span& span) { return span.begin_ns - span.end_ns; });
  std::string svg;
  const auto note = [&](const Kind& kind) {
    if (std::string text = key(kind); std::ranges::find(keys, text) == keys.end())
      keys.push_back(std::move(text));
  };
  for (const Span& span : spans) {
    note(kind_of(span.kind));
    svg += slice(kind_of(span.kind), "", {span.begin_ns, span.end_ns}, origin_ns, scale, y, kCompute,
                 std::string(name_of(span.kind)));
  }
  constexpr Kind kStill{"still", "stands still for a call"}, kCall{"call", "communication"};
  for (const CallSpan& call : step.calls) {
    note(kStill), note(kCall);
    const std::string title = fmt::format("{} '{}' in {}", call.kind, call.name, call.group);
    for (const Interval& blocked : blocked_by(call))
      svg += slice(kStill, "", blocked, origin_ns, scale, y, kCompute, title);
    svg += slice(kCall, "", {call.begin_ns, call.end_ns}, origin_ns, scale, y + kCompute + 2, kCalls, title);
  }
  return svg;
}

std::string use_table(const std::vector<TimeUse>& all) {
  std::string html =
      "<div class=\"table\"><table><tr><th>rank</th><th class=\"n\">wall</th><th class=\"n\">busy</th><th "
      "class=\"n\">communication "
      "exposed</th><th class=\"n\">idle</th></tr>\n";
  for (const TimeUse& use : all) {
    html += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
        "class=\"n\">{}</td></tr>\n",
        use.rank, milliseconds_text(milliseconds(use.wall_ns)), percent(share_of(use.busy_ns, use.wall_ns)),
        percent(share_of(use.exposed_ns, use.wall_ns)), percent(share_of(use.idle_ns, use.wall_ns)));
  }
  return html + "</table></div>\n";
}

// Number of ranks of a run without a trace: by its recipe, or by the events that they have written.
int64_t world_of(const std::filesystem::path& run_folder, const recipe::ParallelOptions& parallel) {
  if (parallel.ranks > 0 || !std::filesystem::is_directory(run_folder / "events")) return parallel.world();
  int64_t others = 0;
  for (const auto& file : list_files(run_folder / "events")) others += file.extension() == ".jsonl" ? 1 : 0;
  return std::max(parallel.world(), 1 + others);
}

// The schedule of the run in this folder; nothing if it has no pipeline. `measured`: the passes of a step, or
// empty.
std::optional<layout::Schedule> schedule_of(const std::filesystem::path& run_folder,
                                            const PassPicture& measured) {
  if (!std::filesystem::exists(run_folder / "recipe.toml")) return std::nullopt;
  const recipe::Recipe recipe = recipe::load(run_folder / "recipe.toml").recipe;
  const recipe::ParallelOptions& parallel = recipe.parallel;
  if (parallel.pp == 1) return std::nullopt;
  int64_t micro_batches = 0;
  for (const auto& row : measured.rows) {
    for (const auto& each : row) micro_batches = std::max(micro_batches, each.micro_batch + 1);
  }
  if (micro_batches == 0) {
    const layout::Mesh mesh(
        world_of(run_folder, parallel),
        {.pp = parallel.pp, .cp = parallel.cp, .tp = parallel.tp, .ep = parallel.ep, .etp = parallel.etp});
    micro_batches = recipe.train.batch / mesh.size(layout::Axis::kDp) / recipe.train.micro_batch;
  }
  return layout::make_schedule(layout::Pipeline(parallel.pp, parallel.arranged_pipeline()), micro_batches);
}

}  // namespace

std::string rank_timelines(const std::vector<RankTrace>& ranks) {
  constexpr double kRow = 40;
  int64_t begin_ns = std::numeric_limits<int64_t>::max(), end_ns = std::numeric_limits<int64_t>::min();
  for (const RankTrace& rank : ranks) {
    begin_ns = std::min(begin_ns, rank.steps.back().begin_ns);
    end_ns = std::max(end_ns, rank.steps.back().end_ns);
  }
  const size_t shown = std::min(ranks.size(), kMostRows);
  const Scale scale{std::max(1e-9, milliseconds(end_ns - begin_ns))};
  const double bottom = kTop + kRow * static_cast<double>(shown);
  std::string svg = axis(scale, bottom, "ms"), keys;
  std::vector<std::string> all_keys;
  for (size_t i = 0; i < shown; ++i) {
    const double y = kTop + kRow * static_cast<double>(i) + 5;
    svg += row_name(fmt::format("rank {}", ranks[i].rank.rank), y + 12) +
           row_of(ranks[i].steps.back(), begin_ns, scale, y, all_keys) + "\n";
  }
  for (const std::string& each : all_keys) keys += each;
  const std::string more =
      shown < ranks.size()
          ? fmt::format(" The first {} of {} ranks; longhaul trace has all.", shown, ranks.size())
          : "";
  return figure(fmt::format("Step {}, rank by rank", ranks.front().steps.back().step),
                "Above what the computing thread did, below the calls that were under way." + more, keys,
                bottom + kAxis, svg) +
         use_table(time_use(ranks));
}

std::string timelines_section(const std::filesystem::path& run_folder) {
  const std::vector<RankTrace> ranks = read_last_step(run_folder);
  PassPicture measured;
  if (!ranks.empty()) measured = measured_passes(ranks);
  const std::optional<layout::Schedule> schedule = schedule_of(run_folder, measured);
  if (ranks.empty() && !schedule) return "";
  std::string html = "<section><h2>Who did what when</h2>";
  layout::PassCosts costs;
  if (schedule) {
    const int64_t chunks = schedule->pipeline.chunks();
    if (!ranks.empty()) costs = measured_costs(measured, chunks);
    PassPicture simulated = simulated_passes(*schedule, costs);
    simulated.unit = ranks.empty() ? "passes" : "ms";
    const std::string bubble = fmt::format("{} of the ranks' time is bubble", percent(bubble_of(simulated)));
    simulated.caption =
        ranks.empty()
            ? "No step was recorded (observe.trace_every), so this is the schedule alone, every pass as long "
              "as a forward pass: " +
                  bubble + "."
            : "With passes as long as the mean of those above, and transfers that take no time: " + bubble +
                  ".";
    if (!ranks.empty()) html += measured.html();
    html += simulated.html();
  }
  if (!ranks.empty()) html += rank_timelines(ranks);
  return html + "</section>\n";
}

}  // namespace longhaul::observe
