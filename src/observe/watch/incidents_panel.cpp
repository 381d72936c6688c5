// Faults and the reactions to them, the newest first, each as a story; after them the alarms.
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/text/text.h"
#include "observe/format.h"
#include "observe/watch/live_page.h"

namespace longhaul::observe {
namespace {

constexpr size_t kShownIncidents = 8, kShownTroubles = 30;

std::string when_text(double unix_s) { return unix_s > 0 ? wall_time_text(unix_s).substr(5, 14) : ""; }

std::string short_time(const std::optional<double>& milliseconds) {
  return milliseconds ? milliseconds_text(*milliseconds) : "–";
}

std::string story_of(const Incident& incident) {
  std::string where = incident.rank >= 0 ? fmt::format("rank {}", incident.rank) : "";
  if (!incident.node.empty()) where += (where.empty() ? "" : " on ") + html_escaped(printable(incident.node));
  std::string when = when_text(incident.wall_time);
  std::ranges::replace(when, 'T', ' ');
  std::string html =
      fmt::format("<div class=\"incident\"><h3><span class=\"tag\">{}</span>{}<small>{}</small></h3>",
                  html_escaped(printable(incident.fault)), where, html_escaped(when));
  if (!incident.action.empty() || incident.open) {
    std::string action = incident.open ? "it is being dealt with" : printable(incident.action);
    std::ranges::replace(action, '_', ' ');  // "evict_node"
    html += fmt::format(
        "<p>{}{}</p>", html_escaped(action),
        incident.lost_steps > 0 ? fmt::format("; {} done again", counted(incident.lost_steps, "step")) : "");
  }
  html += fmt::format(
      "<ol><li class=\"detected\"><b>{}</b>to notice</li><li class=\"diagnosed\"><b>{}</b>to "
      "understand</li><li class=\"recovered\"><b>{}</b>until it trained</li></ol>",
      short_time(incident.detected_milliseconds), short_time(incident.diagnosed_milliseconds),
      short_time(incident.recovered_milliseconds));
  std::string list;
  for (const std::string& line : incident.evidence)
    list += "<li>" + html_escaped(printable(brief(line, 600))) + "</li>";
  if (!incident.suspects.empty()) {
    std::string all;
    for (const std::string& suspect : incident.suspects)
      all += (all.empty() ? "" : ", ") + html_escaped(printable(suspect));
    list += "<li>suspected: " + all + "</li>";
  }
  return html + (list.empty() ? "" : "<ul>" + list + "</ul>") + "</div>";
}

std::string troubles_of(const RunView& run) {
  if (run.troubles.empty()) return "";
  std::string html = fmt::format("<details><summary>{}</summary><div class=\"table\"><table>",
                                 counted(static_cast<int64_t>(run.troubles.size()), "alarm"));
  size_t shown = 0;
  for (auto each = run.troubles.rbegin(); each != run.troubles.rend() && shown < kShownTroubles;
       ++each, ++shown) {
    std::string when = when_text(each->wall_time);
    std::ranges::replace(when, 'T', ' ');
    html += fmt::format("<tr><td class=\"dim key\">{}</td><td class=\"bad\">{}</td><td>{}{}</td></tr>", when,
                        html_escaped(printable(each->kind)),
                        each->rank > 0 ? fmt::format("rank {}: ", each->rank) : "",
                        html_escaped(printable(brief(each->text, 400))));
  }
  return html + "</table></div></details>";
}

}  // namespace

std::string incidents_panel(const RunView& run) {
  std::string html = "<div class=\"card\"><h2>Incidents</h2>";
  if (run.incidents.empty())
    return html + "<p class=\"note\">None: no rank, node or disk has failed.</p>" + troubles_of(run) +
           "</div>";
  html += "<div class=\"scroll-box\">";
  size_t shown = 0;
  std::string older;
  for (auto each = run.incidents.rbegin(); each != run.incidents.rend(); ++each)
    (++shown <= kShownIncidents ? html : older) += story_of(*each);
  if (!older.empty())
    html += fmt::format("<details><summary>{} before</summary>{}</details>", shown - kShownIncidents, older);
  return html + "</div>" + troubles_of(run) + "</div>";
}

}  // namespace longhaul::observe
