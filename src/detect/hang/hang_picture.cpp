#include "detect/hang/hang_picture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace longhaul::detect {

std::vector<observe::MeshPicture::Axis> mesh_axes(const recipe::ParallelOptions& parallel, int64_t world) {
  const int64_t others = parallel.pp * parallel.cp * parallel.tp;
  return {{"pp", parallel.pp},
          {"dp", std::max<int64_t>(1, world / others)},
          {"cp", parallel.cp},
          {"tp", parallel.tp}};
}

observe::MeshPicture hang_picture(const HangReport& report, std::vector<observe::MeshPicture::Axis> axes) {
  using Mark = observe::MeshPicture::Mark;
  std::vector<int64_t> suspects;
  for (const HangSuspect& each : report.suspects) suspects.push_back(each.rank);
  observe::MeshPicture picture{
      .title = fmt::format("Who waits for whom: {}", name_of(report.kind)),
      .caption = suspects.empty() ? "" : fmt::format("look first at rank {}", fmt::join(suspects, ", ")),
      .axes = std::move(axes)};
  std::map<int64_t, observe::MeshPicture::Field> fields;
  int64_t world = 1;
  for (const auto& axis : picture.axes) world *= axis.size;
  for (int64_t rank = 0; rank < world; ++rank) {
    if (std::ranges::find(report.ranks, rank) == report.ranks.end())
      fields[rank] = {rank, Mark::kSilent, fmt::format("rank {} tells nothing", rank)};
  }
  for (const HangWait& wait : report.waits) {
    const std::string text = fmt::format("rank {} in {} of '{}'", wait.rank, wait.call, wait.group);
    fields[wait.rank] = {wait.rank, Mark::kWaits, text};
    for (const int64_t other : wait.for_ranks)
      picture.arrows.push_back({wait.rank, other, fmt::format("{}: rank {} is not there", text, other)});
  }
  for (const HangSuspect& suspect : report.suspects)
    fields[suspect.rank] = {suspect.rank, Mark::kSuspect, suspect.text};
  for (auto& [rank, field] : fields) picture.fields.push_back(std::move(field));
  // Arrows to a suspect matter most: they are always drawn.
  std::stable_partition(picture.arrows.begin(), picture.arrows.end(), [&](const auto& arrow) {
    return std::ranges::find(suspects, arrow.to) != suspects.end();
  });
  return picture;
}

}  // namespace longhaul::detect
