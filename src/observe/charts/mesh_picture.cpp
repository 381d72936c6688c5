#include "observe/charts/mesh_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "observe/charts/chart.h"

namespace longhaul::observe {
namespace {

constexpr double kMeshGap = 14, kMeshLeft = 16, kMeshTop = 66;  // pixels

constexpr std::string_view kMeshStyle = R"css(<style>
svg{--ink:#1d2433;--soft:#5b6478;--card:#fff;--field:#eef1f6;--waits:#f3c766;--suspect:#c8322b;font:13px system-ui,sans-serif}
@media (prefers-color-scheme:dark){svg{--ink:#e6e9f0;--soft:#9aa3b5;--card:#161a22;--field:#2a3140;--waits:#9a7620;--suspect:#e2574f}}
.page{fill:var(--card)} .title{font-size:16px;font-weight:600} text{fill:var(--ink)} .soft{fill:var(--soft)}
.field rect{fill:var(--field);stroke:var(--soft);stroke-width:.5} .waits rect{fill:var(--waits)} .suspect rect{fill:var(--suspect);stroke-width:2;stroke:var(--ink)}
.silent rect{fill:var(--card);stroke-dasharray:3 2} .field text{text-anchor:middle;font-size:11px} .suspect text{fill:#fff;font-weight:700}
.arrow{fill:none;stroke:var(--ink);stroke-width:1;opacity:.45;marker-end:url(#head)} #head path{fill:var(--ink)}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
)css";

// The positions of the fields of a mesh.
class MeshPlaces {
 public:
  explicit MeshPlaces(const std::vector<MeshPicture::Axis>& axes) {
    for (const auto& axis : axes) ranks_ *= axis.size;
    width_ = ranks_ <= 256 ? 46 : ranks_ <= 1024 ? 30 : 14;
    height_ = ranks_ <= 256 ? 30 : ranks_ <= 1024 ? 20 : 14;
    double step_x = width_, step_y = height_;
    bool across = true;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis, across = !across) {
      double& step = across ? step_x : step_y;
      axes_.push_back({axis->size, across, step});
      step = step * static_cast<double>(axis->size) + kMeshGap;
    }
    right_ = kMeshLeft + step_x, bottom_ = kMeshTop + step_y;
  }
  int64_t ranks() const { return ranks_; }
  double width() const { return width_; }
  double height() const { return height_; }
  double right() const { return right_; }
  double bottom() const { return bottom_; }
  bool labelled() const { return ranks_ <= 1024; }
  std::pair<double, double> corner(int64_t rank) const {
    double x = kMeshLeft, y = kMeshTop;
    for (const Steps& axis : axes_) {
      (axis.across ? x : y) += static_cast<double>(rank % axis.size) * axis.step;
      rank /= axis.size;
    }
    return {x, y};
  }

 private:
  struct Steps {
    int64_t size;
    bool across;
    double step;
  };
  std::vector<Steps> axes_;  // fastest first
  int64_t ranks_ = 1;
  double width_, height_, right_, bottom_;
};

struct MarkLook {
  const char *style, *sign, *meaning;
};
MarkLook look_of(MeshPicture::Mark mark) {
  switch (mark) {
    case MeshPicture::Mark::kWaits:
      return {"waits", " …", "waits"};
    case MeshPicture::Mark::kSuspect:
      return {"suspect", " ✖", "look here first"};
    case MeshPicture::Mark::kSilent:
      return {"silent", " ?", "tells nothing"};
    case MeshPicture::Mark::kPlain:
      break;
  }
  return {"plain", "", "does not wait"};
}

std::string field_svg(const MeshPlaces& places, const MeshPicture::Field& field) {
  const auto [x, y] = places.corner(field.rank);
  const MarkLook look = look_of(field.mark);
  std::string svg = fmt::format(
      "<g class=\"field {}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\" rx=\"3\"/>",
      look.style, html_escaped(field.tooltip.empty() ? fmt::format("rank {}", field.rank) : field.tooltip),
      x + 1, y + 1, places.width() - 2, places.height() - 2);
  if (places.labelled()) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}{}</text>", x + places.width() / 2,
                       y + places.height() / 2 + 4, field.rank, places.width() > 40 ? look.sign : "");
  }
  return svg + "</g>\n";
}

// Slightly curved, so that arrows in both directions do not hide each other.
std::string arrow_svg(const MeshPlaces& places, const MeshPicture::Arrow& arrow) {
  auto [x, y] = places.corner(arrow.from);
  auto [to_x, to_y] = places.corner(arrow.to);
  x += places.width() / 2, to_x += places.width() / 2;
  y += places.height() / 2, to_y += places.height() / 2;
  const double dx = to_x - x, dy = to_y - y, length = std::max(std::hypot(dx, dy), 1.0);
  const double stop = (length - places.height() / 2) / length;  // at the edge of the field
  return fmt::format(
      "<path class=\"arrow\" d=\"M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}\"><title>{}</title></path>\n", x,
      y, x + dx / 2 - dy * 0.12, y + dy / 2 + dx * 0.12, x + dx * stop, y + dy * stop,
      html_escaped(arrow.tooltip));
}

std::string axes_text(const std::vector<MeshPicture::Axis>& axes) {
  std::string text;
  for (const auto& axis : axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis.name, axis.size);
  return text;
}

}  // namespace

std::string MeshPicture::svg() const {
  const MeshPlaces places(axes);
  std::map<int64_t, Field> by_rank;
  for (int64_t rank = 0; rank < places.ranks(); ++rank) by_rank[rank] = {.rank = rank};
  for (const Field& field : fields) {
    if (by_rank.contains(field.rank)) by_rank[field.rank] = field;
  }
  const double width = std::max(places.right(), 560.0), height = places.bottom() + 34;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n",
      width, height);
  svg += fmt::format("<title>{}</title>\n{}<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
                     html_escaped(title), kMeshStyle);
  svg += fmt::format(
      "<text class=\"title\" x=\"{0}\" y=\"26\">{1}</text><text class=\"soft\" x=\"{0}\" "
      "y=\"46\">{2}</text>\n",
      kMeshLeft, html_escaped(title), html_escaped(caption));
  for (const auto& [rank, field] : by_rank) svg += field_svg(places, field);
  size_t drawn = 0;
  for (const Arrow& arrow : arrows) {
    if (!by_rank.contains(arrow.from) || !by_rank.contains(arrow.to) || drawn == kMostArrows) continue;
    svg += arrow_svg(places, arrow);
    ++drawn;
  }
  std::string legend = axes_text(axes) + ", the last across";
  for (const Mark mark : {Mark::kWaits, Mark::kSuspect, Mark::kSilent})
    legend += fmt::format(" ·{} {}", look_of(mark).sign, look_of(mark).meaning);
  if (drawn < arrows.size()) legend += fmt::format(" · {} more arrows", arrows.size() - drawn);
  svg += fmt::format("<text class=\"soft\" x=\"{}\" y=\"{:.0f}\">{}</text>\n", kMeshLeft,
                     places.bottom() + 14, html_escaped(legend));
  return svg + "</svg>\n";
}

}  // namespace longhaul::observe
