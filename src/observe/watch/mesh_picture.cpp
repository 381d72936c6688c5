// Ranks as cells, by pipeline stage, coloured by what they do; and one of them looked at closely.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/progress.h"
#include "base/text.h"
#include "observe/format.h"
#include "observe/watch/live_page.h"

namespace longhaul::observe {
namespace {

constexpr double kStuckAfter_s = 30;  // without progress; the driver's own deadlines are learnt per phase and decide what is done
constexpr int64_t kLogBytes = 6000;

std::string seconds_text(double seconds) { return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds); }

struct CellLook {
  std::string style, sign, title;
};

CellLook look_of(const RankStatus& rank, bool slow) {
  CellLook look{.style = rank.phase, .sign = "", .title = fmt::format("rank {} on {}: {}", rank.rank, rank.node, rank.phase)};
  if (rank.state == "lost") return {"lost", "×", fmt::format("rank {} on {}: lost", rank.rank, rank.node)};
  if (rank.state == "starting" || rank.state == "ended") {
    look.style += " " + rank.state;
    look.title += ", " + rank.state;
  } else if (rank.progress_age_s > kStuckAfter_s && rank.phase != "evaluation" && rank.phase != "checkpoint") {
    look.style += " stuck", look.sign = "!";
    look.title += fmt::format(", no progress for {}", seconds_text(rank.progress_age_s));
  } else if (slow) {
    look.style += " slow", look.sign = "▾";
    look.title += ", slower than its peers";
  }
  look.title += fmt::format(", step {}", rank.step);
  return look;
}

// "pp 2 × dp 4 × tp 2"
std::string mesh_text(const std::vector<MeshAxis>& mesh) {
  std::string text;
  for (const MeshAxis& axis : mesh) {
    if (axis.size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis.name, axis.size);
  }
  return text;
}

int64_t stages_of(const RunStatus& status) {
  for (const MeshAxis& axis : status.mesh) {
    if (axis.name == "pp" && axis.size > 0 && static_cast<int64_t>(status.ranks.size()) % axis.size == 0) return axis.size;
  }
  return 1;
}

std::string cells_of(std::span<const RankStatus> ranks, const std::map<int64_t, bool>& slow, size_t world) {
  const char* const crowd = world > 256 ? " crowd" : world > 32 ? " many" : "";
  std::string html = fmt::format("<div class=\"cells{}\" style=\"--cell:{}px\">", crowd, world > 256 ? 15 : world > 32 ? 34 : 60);
  for (const RankStatus& rank : ranks) {
    const auto found = slow.find(rank.rank);
    const CellLook look = look_of(rank, found != slow.end() && found->second);
    html += fmt::format("<a class=\"cell {}\" href=\"#rank-{}\" title=\"{}\"><b>{}</b><small>{}</small>{}</a>", html_escaped(look.style),
                        rank.rank, html_escaped(look.title), rank.rank, html_escaped(rank.state == "running" ? rank.phase : rank.state),
                        look.sign.empty() ? "" : "<em>" + look.sign + "</em>");
  }
  return html + "</div>";
}

std::string nodes_of(const RunStatus& status) {
  std::map<std::string, int64_t> ranks;
  for (const RankStatus& rank : status.ranks) ++ranks[rank.node];
  std::string html;
  size_t shown = 0;
  // Those with trouble first, where there are many.
  std::vector<NodeStatus> nodes = status.nodes;
  std::ranges::stable_sort(nodes, {}, [](const NodeStatus& node) { return node.state == "active" ? 1 : node.state == "spare" ? 2 : 0; });
  if (nodes.size() <= 24) nodes = status.nodes;
  for (const NodeStatus& node : nodes) {
    if (++shown > 24) break;
    std::string more = node.state == "active" ? counted(ranks[node.node], "rank") : html_escaped(node.state);
    if (node.state == "active") more += ", heard " + seconds_text(node.last_beat_age_s) + " ago";
    if (!node.reason.empty()) more += ": " + html_escaped(printable(node.reason));
    html += fmt::format("<span class=\"node {}\"><b>{}</b> {}</span>", html_escaped(node.state), html_escaped(node.node), more);
  }
  if (nodes.size() > 24) html += fmt::format("<span class=\"node\">and {} more</span>", nodes.size() - 24);
  return html.empty() ? "" : "<div class=\"nodes\">" + html + "</div>";
}

std::string fact(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, html_escaped(printable(value)));
}

// Its phases beside the median of its peers.
std::string phase_bars(const RunView& run, const LatencyMap::Row& row) {
  std::string html;
  double longest = 0;
  for (const double seconds : row.seconds) longest = std::isfinite(seconds) ? std::max(longest, seconds) : longest;
  for (size_t p = 0; p < run.latencies.phases.size() && longest > 0; ++p) {
    if (!std::isfinite(row.seconds[p])) continue;
    html +=
        fmt::format("<div>{}<i class=\"{}\" style=\"width:{:.1f}%\"></i><span>{} {}</span></div>", html_escaped(run.latencies.phases[p]),
                    row.z[p] > 4 ? "over" : "", row.seconds[p] / longest * 100, milliseconds_text(row.seconds[p] * 1000),
                    std::abs(row.z[p]) >= 0.5 ? fmt::format("z {:+.1f}", row.z[p]) : "as its peers");
  }
  return html.empty() ? "" : "<div class=\"bars\">" + html + "</div>";
}

std::string log_of(const RunView& run, int64_t rank) {
  try {
    const File file = File::open(run.folder / "logs" / fmt::format("rank-{}.log", rank), File::Mode::kRead);
    const int64_t begin = std::max<int64_t>(0, file.size() - kLogBytes);
    std::string text(static_cast<size_t>(file.size() - begin), '\0');
    text.resize(file.read_some(begin, std::as_writable_bytes(std::span(text))));
    if (begin > 0) text.erase(0, text.find('\n') + 1);
    return "<pre class=\"log\">" + html_escaped(printable(text, LineEnds::kKept)) + "</pre>";
  } catch (const Error&) {  // a run without a driver has no logs of ranks
    return "";
  }
}

}  // namespace

std::string mesh_picture(const RunView& run) {
  if (!run.status || run.status->ranks.empty()) {
    const std::string rows = run.latencies.rows.empty() ? "" : " Their recorded steps are compared below.";
    return fmt::format(
        "<div class=\"card\"><h2>Ranks</h2><p class=\"note\">{}, started without a driver, so only what they write is known.{} "
        "<code>longhaul launch</code> shows each of them here.</p></div>",
        counted(run.world(), "rank"), rows);
  }
  const RunStatus& status = *run.status;
  std::map<int64_t, bool> slow;
  for (const auto& row : run.latencies.rows) slow[row.rank] = row.straggler;
  const std::string shape = mesh_text(status.mesh);
  std::string html =
      fmt::format("<div class=\"card\"><h2>Ranks</h2><p class=\"note\">{}{}. Colours and words: what each does now.</p>",
                  counted(static_cast<int64_t>(status.ranks.size()), "rank"), shape.empty() ? "" : ", " + html_escaped(shape));
  const int64_t stages = stages_of(status);
  const size_t each = status.ranks.size() / static_cast<size_t>(stages);
  for (int64_t stage = 0; stage < stages; ++stage) {
    html += "<div class=\"stage\">";
    if (stages > 1) html += fmt::format("<span>stage {}</span>", stage);
    html += cells_of(std::span(status.ranks).subspan(static_cast<size_t>(stage) * each, each), slow, status.ranks.size()) + "</div>";
  }
  return html + nodes_of(status) + "</div>";
}

std::string rank_panel(const RunView& run, int64_t number) {
  std::string html = fmt::format("<div class=\"card\"><div class=\"rank-head\"><h2>Rank {}</h2><a href=\"#\">close</a></div>", number);
  const auto row = std::ranges::find(run.latencies.rows, number, &LatencyMap::Row::rank);
  const RankStatus* rank = nullptr;
  if (run.status) {
    const auto found = std::ranges::find(run.status->ranks, number, &RankStatus::rank);
    if (found != run.status->ranks.end()) rank = &*found;
  }
  if (rank == nullptr && row == run.latencies.rows.end()) return html + "<p class=\"note\">This run has no such rank.</p></div>";
  if (rank != nullptr) {
    const CollectiveStatus& call = rank->collective;
    html += "<dl class=\"facts\">" + fact("node", rank->node) + fact("process", fmt::to_string(rank->pid)) +
            fact("state", fmt::format("{}, generation {}", rank->state, rank->generation)) +
            fact("step", fmt::format("{}, micro-batch {}", rank->step, rank->micro_step)) +
            fact("phase", fmt::format("{} for {}", rank->phase, seconds_text(rank->phase_age_s))) +
            fact("heard", seconds_text(rank->beat_age_s) + " ago") + fact("last progress", seconds_text(rank->progress_age_s) + " ago") +
            fact("last call", call.sequence < 0 ? ""
                                                : fmt::format("{} {} of {}, number {}, {}", call.kind, call.name, call.group, call.sequence,
                                                              call.state)) +
            fact("loss", rank->loss ? fixed(*rank->loss, 4) : "") +
            fact("gradient norm", rank->gradient_norm ? fixed(*rank->gradient_norm, 3) : "") +
            fact("memory", rank->resident_bytes > 0 ? bytes_text(rank->resident_bytes) : "") +
            fact("step time", milliseconds_text(rank->step_seconds * 1000)) + "</dl>";
  }
  if (row != run.latencies.rows.end()) html += phase_bars(run, *row);
  return html + log_of(run, number) + "</div>";
}

}  // namespace longhaul::observe
