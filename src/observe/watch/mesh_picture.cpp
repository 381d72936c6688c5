// Ranks as cells, by pipeline stage, coloured by their activity; and a closer view of one of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/files/file_beneath.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "observe/format.h"
#include "observe/watch/live_page.h"

namespace longhaul::observe {
namespace {

// Without progress; the driver learns its own deadlines per phase, and they decide the action.
constexpr double kStuckAfter_s = 30;
constexpr int64_t kLogBytes = 6000;
constexpr int64_t kMostNodes = 8;  // as many are shown separately

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

struct CellLook {
  std::string style, sign, title;
};

CellLook look_of(const RankStatus& rank, bool slow) {
  CellLook look{.style = "is-" + rank.phase,
                .sign = "",
                .title = fmt::format("rank {} on {}: {}", rank.rank, rank.node, rank.doing())};
  if (rank.state == "lost") return {"lost", "×", fmt::format("rank {} on {}: lost", rank.rank, rank.node)};
  if (rank.state == "starting" || rank.state == "ended") {
    look.style += " " + rank.state;
    look.title += ", " + rank.state;
  } else if (rank.progress_age_s > kStuckAfter_s && rank.phase != "evaluation" &&
             rank.phase != "checkpoint" && rank.phase != "task") {
    look.style += " stuck", look.sign = "!";
    look.title += fmt::format(", no progress for {}", seconds_text(rank.progress_age_s));
  } else if (slow) {
    look.style += " slow", look.sign = "▾";
    look.title += ", slower than its peers";
  }
  look.title += fmt::format(", step {}", rank.step);
  return look;
}

// "pp 2 × dp 4 × tp 2; of experts edp 2 × ep 4": the same ranks with two sets of axes.
std::string mesh_text(const std::vector<MeshAxis>& mesh) {
  std::string text, experts;
  for (const MeshAxis& axis : mesh) {
    std::string& side = axis.name == "edp" || axis.name == "ep" || axis.name == "etp" ? experts : text;
    if (axis.size > 1) side += fmt::format("{}{} {}", side.empty() ? "" : " × ", axis.name, axis.size);
  }
  return experts.empty() ? text : text + (text.empty() ? "of experts " : "; of experts ") + experts;
}

std::string cells_of(std::span<const RankStatus* const> ranks, const std::map<int64_t, bool>& slow,
                     size_t world) {
  const char* const crowd = world > 256 ? " crowd" : world > 32 ? " many" : "";
  std::string html = fmt::format("<div class=\"cells{}\" style=\"--cell:{}px\">", crowd,
                                 world > 256  ? 15
                                 : world > 32 ? 34
                                              : 84);
  for (const RankStatus* const each : ranks) {
    const RankStatus& rank = *each;
    const auto found = slow.find(rank.rank);
    const CellLook look = look_of(rank, found != slow.end() && found->second);
    html +=
        fmt::format("<a class=\"cell {}\" href=\"#rank-{}\" title=\"{}\"><b>{}</b><small>{}</small>{}</a>",
                    html_escaped(look.style), rank.rank, html_escaped(look.title), rank.rank,
                    html_escaped(rank.state == "running" ? rank.doing() : rank.state),
                    look.sign.empty() ? "" : "<em>" + look.sign + "</em>");
  }
  return html + "</div>";
}

std::string node_text(const NodeStatus& node, int64_t ranks) {
  std::string more = node.state == "active" ? fmt::format("{}, heard {} ago", counted(ranks, "rank"),
                                                          seconds_text(node.last_beat_age_s))
                                            : html_escaped(node.state);
  if (!node.reason.empty()) more += ": " + html_escaped(printable(node.reason));
  return fmt::format("<span class=\"node {}\"><b>{}</b> {}</span>", html_escaped(node.state),
                     html_escaped(node.node), more);
}

// If there are many ranks, the working ones are shown as one.
std::string nodes_of(const RunStatus& status) {
  std::map<std::string, int64_t> ranks;
  for (const RankStatus& rank : status.ranks) ++ranks[rank.node];
  const auto active = std::ranges::count(status.nodes, "active", &NodeStatus::state);
  double longest_s = 0;
  size_t shown = 0;
  std::string html;
  for (const NodeStatus& node : status.nodes) {
    const bool works = node.state == "active";
    if (works) longest_s = std::max(longest_s, node.last_beat_age_s);
    if ((works && active > kMostNodes) || ++shown > 2 * static_cast<size_t>(kMostNodes)) continue;
    html += node_text(node, ranks[node.node]);
  }
  if (active > kMostNodes)
    html = fmt::format("<span class=\"node\"><b>{}</b> active, each heard within {}</span>",
                       counted(active, "node"), seconds_text(longest_s)) +
           html;
  return html.empty() ? "" : "<div class=\"nodes\">" + html + "</div>";
}

std::string phases_of(const RunStatus& status) {
  std::vector<std::string> phases;
  for (const RankStatus& rank : status.ranks) {
    if (rank.state == "running" && std::ranges::find(phases, rank.phase) == phases.end())
      phases.push_back(rank.phase);
  }
  std::string html;
  for (const std::string& phase : ordered_phases(phases))
    html += fmt::format("<span><i class=\"swatch is is-{0}\"></i>{0}</span>", html_escaped(phase));
  return "<div class=\"share-keys\">" + html + "</div>";
}

std::string fact(const char* name, const std::string& value) {
  return value.empty()
             ? ""
             : fmt::format("<div{}><dt>{}</dt><dd>{}</dd></div>", value.size() > 40 ? " class=\"long\"" : "",
                           name, html_escaped(printable(value)));
}

// Its phases next to the median of its peers.
std::string phase_bars(const RunView& run, const LatencyMap::Row& row) {
  std::string html;
  double longest = 0;
  for (const double seconds : row.seconds)
    longest = std::isfinite(seconds) ? std::max(longest, seconds) : longest;
  for (size_t p = 0; p < run.latencies.phases.size() && longest > 0; ++p) {
    if (!std::isfinite(row.seconds[p])) continue;
    html += fmt::format("<div>{}<i class=\"{}\" style=\"width:{:.1f}%\"></i><span>{} {}</span></div>",
                        html_escaped(run.latencies.phases[p]), row.z[p] > 4 ? "over" : "",
                        row.seconds[p] / longest * 100, milliseconds_text(row.seconds[p] * 1000),
                        std::abs(row.z[p]) >= 0.5 ? fmt::format("z {:+.1f}", row.z[p]) : "as its peers");
  }
  return html.empty() ? "" : "<div class=\"bars\">" + html + "</div>";
}

}  // namespace

std::string log_of_rank(const std::filesystem::path& run_folder, int64_t rank) {
  if (rank < 0) return "";
  try {
    const FileBeneath file(run_folder, std::filesystem::path("logs") / fmt::format("rank-{}.log", rank));
    const int64_t begin = std::max<int64_t>(0, file.size() - kLogBytes);
    std::string text(static_cast<size_t>(file.size() - begin), '\0');
    text.resize(file.read_some(begin, std::as_writable_bytes(std::span(text))));
    if (begin > 0) text.erase(0, text.find('\n') + 1);
    return "<pre class=\"log\">" + html_escaped(printable(text, LineEnds::kKept)) + "</pre>";
  } catch (const Error&) {  // a run without a driver has no logs of ranks
    return "";
  }
}

std::string mesh_picture(const RunView& run) {
  if (!run.status || run.status->ranks.empty()) {
    const std::string rows = run.latencies.rows.empty() ? "" : " Their recorded steps are compared below.";
    return fmt::format(
        "<div class=\"card\"><h2>Ranks</h2><p class=\"note\">{}, started without a driver, so only what they "
        "write is known.{} "
        "<code>longhaul launch</code> shows each of them here.</p></div>",
        counted(run.world(), "rank"), rows);
  }
  const RunStatus& status = *run.status;
  std::map<int64_t, bool> slow;
  for (const auto& row : run.latencies.rows) slow[row.rank] = row.straggler;
  const std::string shape = mesh_text(status.mesh);
  std::string html = fmt::format(
      "<div class=\"card\"><h2>Ranks</h2><p class=\"note\">{}{}; colours: what each does now.</p>",
      counted(static_cast<int64_t>(status.ranks.size()), "rank"),
      shape.empty() ? "" : ", " + html_escaped(shape));
  std::map<int64_t, std::vector<const RankStatus*>> stages;
  for (const RankStatus& rank : status.ranks) stages[status.stage_of(rank.rank)].push_back(&rank);
  for (const auto& [stage, ranks] : stages) {
    html += "<div class=\"stage\">";
    if (stages.size() > 1) html += fmt::format("<span>stage {}</span>", stage);
    html += cells_of(ranks, slow, status.ranks.size()) + "</div>";
  }
  return html + phases_of(status) + nodes_of(status) + "</div>";
}

std::string rank_panel(const RunView& run, int64_t number, const std::string& log) {
  std::string html = fmt::format(
      "<div class=\"card\"><div class=\"rank-head\"><h2>Rank {}</h2><a href=\"#\">close</a></div>", number);
  const auto row = std::ranges::find(run.latencies.rows, number, &LatencyMap::Row::rank);
  const RankStatus* rank = nullptr;
  if (run.status) {
    const auto found = std::ranges::find(run.status->ranks, number, &RankStatus::rank);
    if (found != run.status->ranks.end()) rank = &*found;
  }
  if (rank == nullptr && row == run.latencies.rows.end())
    return html + "<p class=\"note\">This run has no such rank.</p></div>";
  if (rank != nullptr) {
    const CollectiveStatus& call = rank->collective;
    html +=
        "<dl class=\"facts\">" + fact("node", rank->node) + fact("process", fmt::to_string(rank->pid)) +
        fact("state", fmt::format("{}, generation {}", rank->state, rank->generation)) +
        fact("step", fmt::format("{}, micro-batch {}", rank->step, rank->micro_step)) +
        fact("phase", fmt::format("{} for {}", rank->doing(), seconds_text(rank->phase_age_s))) +
        fact("heard", seconds_text(rank->beat_age_s) + " ago") +
        fact("last progress", seconds_text(rank->progress_age_s) + " ago") +
        fact("last call", call.sequence < 0 ? ""
                                            : fmt::format("{} {} of {}, number {}, {}", call.kind, call.name,
                                                          call.group, call.sequence, call.state)) +
        fact("loss", rank->loss ? fixed(*rank->loss, 4) : "") +
        fact("gradient norm", rank->gradient_norm ? fixed(*rank->gradient_norm, 3) : "") +
        fact("memory", rank->resident_bytes > 0 ? bytes_text(rank->resident_bytes) : "") +
        fact("step time", milliseconds_text(rank->step_seconds * 1000)) + "</dl>";
  }
  if (row != run.latencies.rows.end()) html += phase_bars(run, *row);
  return html + log + "</div>";
}

}  // namespace longhaul::observe
