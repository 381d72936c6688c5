#include "plan/memory/addresses/address_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/progress.h"
#include "observe/charts/chart.h"

namespace longhaul::plan {
namespace {

constexpr size_t kMostDrawn = 4000;
constexpr double kWide = 960, kHigh = 380, kTitle = 26;  // pixels

constexpr std::string_view kAddressStyle = R"css(<style>
svg.addresses{--ink:#1d2433;--soft:#5b6478;--kept:#2f6db5;--brief:#d98e2b;--limit:#c8322b;font:13px system-ui,sans-serif;max-width:100%}
@media (prefers-color-scheme:dark){svg.addresses{--ink:#e6e9f0;--soft:#9aa3b5;--kept:#5a94d8;--brief:#e0a24d;--limit:#e2574f}}
.addresses text{fill:var(--ink)} .addresses .kept{fill:var(--kept)} .addresses .brief{fill:var(--brief)}
.addresses rect{opacity:.8} .addresses .cut{stroke:var(--soft);stroke-width:.4} .addresses .limit{stroke:var(--limit);stroke-dasharray:6 3}
</style>
)css";

}  // namespace

std::string address_picture(std::span<const TensorLife> requests, const AddressPlan& plan,
                            std::span<const int64_t> cuts) {
  int64_t last = 1;
  for (const TensorLife& request : requests) last = std::max(last, request.end);
  const double across = kWide / static_cast<double>(last);
  const double up = kHigh / static_cast<double>(std::max<int64_t>(1, plan.peak));
  const auto y = [&](int64_t address) { return kTitle + kHigh - static_cast<double>(address) * up; };
  std::string svg = fmt::format(
      "<svg class=\"addresses\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "role=\"img\">\n{2}<text x=\"0\" y=\"16\">{3}</text>\n",
      kWide, kTitle + kHigh + 4, kAddressStyle,
      observe::html_escaped(fmt::format("{} at most live at one time, in a block of {}; blue: kept across "
                                        "layers; time to the right, addresses up",
                                        bytes_text(plan.live), bytes_text(plan.peak))));
  std::vector<size_t> drawn(requests.size());
  std::iota(drawn.begin(), drawn.end(), size_t{0});
  std::ranges::stable_sort(drawn, std::greater{}, [&](size_t i) { return requests[i].bytes; });
  if (drawn.size() > kMostDrawn) drawn.resize(kMostDrawn);
  for (const size_t i : drawn) {
    const TensorLife& life = requests[i];
    const auto cut = std::ranges::upper_bound(cuts, life.begin);
    const bool kept = cut != cuts.end() && *cut < life.end;
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{} at "
        "{}</title></rect>\n",
        kept ? "kept" : "brief", static_cast<double>(life.begin) * across, y(plan.addresses[i] + life.bytes),
        static_cast<double>(life.end - life.begin) * across, static_cast<double>(life.bytes) * up,
        bytes_text(life.bytes), bytes_text(plan.addresses[i]));
  }
  for (const int64_t cut : cuts)
    svg += fmt::format("<path class=\"cut\" d=\"M{0:.2f} {1}V{2}\"/>\n", static_cast<double>(cut) * across,
                       kTitle, kTitle + kHigh);
  return svg + fmt::format("<path class=\"limit\" d=\"M0 {0:.2f}H{1}\"/>\n</svg>\n", y(plan.live), kWide);
}

}  // namespace longhaul::plan
