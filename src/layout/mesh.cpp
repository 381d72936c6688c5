#include "layout/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "base/error.h"

namespace longhaul::layout {

namespace {

// Fastest first, as ranks are numbered; for an axis in two parts, the parts.
using Order = std::span<const Axis>;
constexpr Axis kDenseOrder[] = {Axis::kTpr, Axis::kTps, Axis::kCp, Axis::kDps, Axis::kDpr, Axis::kPp};
constexpr Axis kExpertOrder[] = {Axis::kEtp, Axis::kEp, Axis::kEdps, Axis::kEdpr, Axis::kPp};
constexpr std::array<std::string_view, kAxes> kAxisNames = {"pp",  "dp",  "dpr",  "dps",  "cp", "tp", "tps",
                                                            "tpr", "edp", "edpr", "edps", "ep", "etp"};

struct AxisInParts {
  Axis whole;
  AxisSet parts;
};
constexpr AxisInParts kInParts[] = {{Axis::kDp, {Axis::kDpr, Axis::kDps}},
                                    {Axis::kTp, {Axis::kTps, Axis::kTpr}},
                                    {Axis::kEdp, {Axis::kEdpr, Axis::kEdps}}};

Order order_of(AxisSet axes) {
  const AxisSet side = side_of(axes);
  LONGHAUL_ASSERT(!side.empty(), "axes {} belong to both sides", axes.text());
  return side == kDenseAxes ? Order(kDenseOrder) : Order(kExpertOrder);
}

size_t at(Axis axis) { return static_cast<size_t>(axis); }

// Product of the sizes, or nothing when it exceeds 64 bits.
std::optional<int64_t> product_of(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  }
  return product;
}

// world / (a·b·pp), or an error that shows the product.
int64_t rest_of_world(int64_t world, std::string_view side, Axis outer, int64_t outer_size, Axis inner,
                      int64_t inner_size, int64_t pp) {
  const std::optional<int64_t> product = product_of({pp, outer_size, inner_size});
  if (product && *product <= world && world % *product == 0) return world / *product;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = fmt::format("the {} do not fit on {} ranks", side, world),
       .expected = fmt::format("pp·{}·{} divides the number of ranks", name_of(outer), name_of(inner)),
       .found = fmt::format("{}·{}·{} = {}, and {} is not a multiple of it", pp, outer_size, inner_size,
                            product ? std::to_string(*product) : "more than 2^63", world),
       .hint = fmt::format("lower pp, {} or {}, or start a multiple of their product", name_of(outer),
                           name_of(inner))});
}

}  // namespace

std::string_view name_of(Axis axis) { return kAxisNames[at(axis)]; }

AxisSet parts_of(AxisSet axes) {
  for (const AxisInParts& each : kInParts) axes = axes.with(each.parts, each.whole);
  return axes;
}

AxisSet joined(AxisSet axes) {
  for (const AxisInParts& each : kInParts) {
    if (axes.contains(each.parts)) axes = (axes - each.parts) | AxisSet{each.whole};
  }
  return axes;
}

AxisSet side_of(AxisSet axes) {
  for (const AxisSet side : {kDenseAxes, kExpertAxes}) {
    if (parts_of(side).contains(parts_of(axes))) return side;
  }
  return {};
}

std::vector<Axis> AxisSet::axes() const {
  std::vector<Axis> list;
  for (size_t i = 0; i < kAxes; ++i) {
    if (contains(static_cast<Axis>(i))) list.push_back(static_cast<Axis>(i));
  }
  return list;
}

std::string AxisSet::text() const {
  if (empty()) return "none";
  std::vector<std::string_view> names;
  for (Axis axis : joined(*this).axes()) names.push_back(name_of(axis));
  return fmt::format("{}", fmt::join(names, "-"));
}

Mesh::Mesh(int64_t world, const MeshShape& shape) : world_(world) {
  if (world < 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a mesh needs ranks",
                 .expected = "at least 1",
                 .found = std::to_string(world)});
  }
  const std::pair<Axis, int64_t> chosen[] = {{Axis::kPp, shape.pp},
                                             {Axis::kCp, shape.cp},
                                             {Axis::kTp, shape.tp},
                                             {Axis::kEp, shape.ep},
                                             {Axis::kEtp, shape.etp}};
  for (const auto& [axis, length] : chosen) {
    if (length < 1) {
      throw Error({.code = ExitCode::kUsage,
                   .what = fmt::format("the parallel size {} is impossible", name_of(axis)),
                   .expected = "at least 1",
                   .found = std::to_string(length)});
    }
    size_[at(axis)] = length;
  }
  size_[at(Axis::kDp)] =
      rest_of_world(world, "dense layers", Axis::kCp, shape.cp, Axis::kTp, shape.tp, shape.pp);
  size_[at(Axis::kEdp)] =
      rest_of_world(world, "experts", Axis::kEp, shape.ep, Axis::kEtp, shape.etp, shape.pp);
  if (shape.copies < 1 || size(Axis::kDp) % shape.copies != 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "copies of the shares do not come out even",
                 .expected = fmt::format("a divisor of the {} data ranks", size(Axis::kDp)),
                 .found = std::to_string(shape.copies),
                 .where = "parallel.zero_copies",
                 .hint = fmt::format("parallel.zero_copies={}",
                                     std::gcd(size(Axis::kDp), std::max<int64_t>(1, shape.copies)))});
  }
  size_[at(Axis::kDpr)] = shape.copies;
  // Experts may have fewer copies than there are.
  size_[at(Axis::kEdpr)] = std::gcd(size(Axis::kEdp), shape.copies);
  size_[at(Axis::kDps)] = size(Axis::kDp) / size(Axis::kDpr);
  size_[at(Axis::kEdps)] = size(Axis::kEdp) / size(Axis::kEdpr);
  LONGHAUL_ASSERT(shape.key_copies >= 1 && shape.tp % shape.key_copies == 0,
                  "{} copies of key heads on tp {}", shape.key_copies, shape.tp);
  size_[at(Axis::kTpr)] = shape.key_copies;
  size_[at(Axis::kTps)] = shape.tp / shape.key_copies;
  for (const Order& order : {Order(kDenseOrder), Order(kExpertOrder)}) {
    int64_t stride = 1;
    for (Axis axis : order) {
      stride_[at(axis)] = stride;  // pp's is world / pp on both sides
      stride *= size(axis);
    }
  }
  stride_[at(Axis::kDp)] = stride(Axis::kDps);
  stride_[at(Axis::kTp)] = stride(Axis::kTpr);
  stride_[at(Axis::kEdp)] = stride(Axis::kEdps);
}

int64_t Mesh::size(AxisSet axes) const {
  axes = parts_of(axes);
  int64_t product = 1;
  for (Axis axis : order_of(axes)) {
    if (axes.contains(axis)) product *= size(axis);
  }
  return product;
}

int64_t Mesh::coordinate(int64_t rank, Axis axis) const {
  LONGHAUL_ASSERT(rank >= 0 && rank < world_, "rank {} of {}", rank, world_);
  return rank / stride(axis) % size(axis);
}

std::array<int64_t, kAxes> Mesh::coordinates(int64_t rank) const {
  std::array<int64_t, kAxes> all{};
  for (size_t i = 0; i < kAxes; ++i) all[i] = coordinate(rank, static_cast<Axis>(i));
  return all;
}

int64_t Mesh::rank_at(std::initializer_list<std::pair<Axis, int64_t>> coordinates) const {
  AxisSet axes;
  int64_t rank = 0;
  for (const auto& [axis, index] : coordinates) {
    LONGHAUL_ASSERT(!axes.contains(axis), "{} given twice", name_of(axis));
    LONGHAUL_ASSERT(index >= 0 && index < size(axis), "{} {} of {}", name_of(axis), index, size(axis));
    axes = axes | AxisSet{axis};
    rank += index * stride(axis);
  }
  order_of(axes);  // refuses axes of both sides
  return rank;
}

std::vector<std::vector<int64_t>> Mesh::groups(AxisSet axes) const {
  axes = parts_of(axes);
  // The ranks reached along the wanted axes, fastest first: the numbering keeps both lists ascending within
  // their axes.
  const auto enumerate = [&](bool wanted) {
    std::vector<int64_t> ranks = {0};
    for (Axis axis : order_of(axes)) {
      if (axes.contains(axis) != wanted) continue;
      std::vector<int64_t> more;
      more.reserve(ranks.size() * static_cast<size_t>(size(axis)));
      for (int64_t i = 0; i < size(axis); ++i) {
        for (int64_t rank : ranks) more.push_back(rank + i * stride(axis));
      }
      ranks = std::move(more);
    }
    return ranks;
  };
  const std::vector<int64_t> members = enumerate(true);
  std::vector<std::vector<int64_t>> all;
  for (int64_t base : enumerate(false)) {
    std::vector<int64_t>& group = all.emplace_back(members);
    for (int64_t& rank : group) rank += base;
  }
  return all;
}

std::vector<int64_t> Mesh::group_of(int64_t rank, AxisSet axes) const {
  axes = parts_of(axes);
  std::vector<int64_t> group = {rank};
  for (Axis axis : order_of(axes)) {
    if (axes.contains(axis)) group.front() -= coordinate(rank, axis) * stride(axis);
  }
  for (Axis axis : order_of(axes)) {
    if (!axes.contains(axis)) continue;
    const std::vector<int64_t> faster = group;
    for (int64_t i = 1; i < size(axis); ++i) {
      for (int64_t member : faster) group.push_back(member + i * stride(axis));
    }
  }
  return group;
}

int64_t Mesh::index_in_group(int64_t rank, AxisSet axes) const {
  axes = parts_of(axes);
  int64_t index = 0;
  int64_t place = 1;
  for (Axis axis : order_of(axes)) {
    if (!axes.contains(axis)) continue;
    index += coordinate(rank, axis) * place;
    place *= size(axis);
  }
  return index;
}

std::vector<GroupKind> Mesh::group_kinds() const {
  using enum Axis;
  std::vector<GroupKind> kinds;
  const auto add = [&](AxisSet axes) { kinds.push_back({axes.text(), groups(axes)}); };
  for (AxisSet axes :
       {AxisSet{kDp, kCp}, AxisSet{kDp}, AxisSet{kCp}, AxisSet{kPp, kTp}, AxisSet{kTp}, AxisSet{kPp}})
    add(axes);
  for (AxisSet axes : {AxisSet{kDp, kCp, kTp}, AxisSet{kDp, kTp}, AxisSet{kCp, kTp}}) add(axes);
  for (AxisSet axes :
       {AxisSet{kEp}, AxisSet{kEtp}, AxisSet{kEp, kEtp}, AxisSet{kPp, kEp, kEtp}, AxisSet{kEdp}})
    add(axes);
  const bool key_copies = size(kTpr) > 1 && size(kTps) > 1;
  if (key_copies) add({kDp, kCp, kTpr}), add({kTps});
  if (size(kDpr) == 1) return kinds;
  if (key_copies) add({kDps, kCp, kTpr});
  for (AxisSet axes : {AxisSet{kDps}, AxisSet{kDps, kCp}, AxisSet{kDps, kTp}, AxisSet{kDps, kCp, kTp}})
    add(axes);
  for (AxisSet axes : {AxisSet{kDpr}, AxisSet{kEdps}, AxisSet{kEdpr}}) add(axes);
  return kinds;
}

AxisSet Mesh::shared_over(AxisSet copies) const {
  if (size(Axis::kDpr) == 1) return copies;
  return copies.with({Axis::kDps}, Axis::kDp).with({Axis::kEdps}, Axis::kEdp);
}

AxisSet Mesh::shares_copied_over(AxisSet copies) const {
  if (size(Axis::kDpr) == 1) return {};
  return (copies.contains(Axis::kDp) ? AxisSet{Axis::kDpr} : AxisSet{}) |
         (copies.contains(Axis::kEdp) ? AxisSet{Axis::kEdpr} : AxisSet{});
}

std::string Mesh::text() const {
  const std::string copies =
      size(Axis::kTpr) > 1 ? fmt::format(" ({} ranks a key head)", size(Axis::kTpr)) : "";
  return fmt::format("{} ranks: pp {} × dp {} × cp {} × tp {}{}, experts pp {} × edp {} × ep {} × etp {}",
                     world_, size(Axis::kPp), size(Axis::kDp), size(Axis::kCp), size(Axis::kTp), copies,
                     size(Axis::kPp), size(Axis::kEdp), size(Axis::kEp), size(Axis::kEtp));
}

}  // namespace longhaul::layout
