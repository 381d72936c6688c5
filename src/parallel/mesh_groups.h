// MeshGroups: the communicators of one rank, one for each group of ranks that it exchanges tensors with. All
// groups of one kind are made at the same time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "layout/mesh.h"

namespace longhaul::parallel {

class MeshGroups {
 public:
  // A collective call of all ranks of `world`, which has as many ranks as the mesh.
  MeshGroups(comm::Communicator& world, const layout::Mesh& mesh);

  const layout::MeshRank& place() const { return place_; }
  comm::Communicator& world() const { return world_; }
  // The group of ranks that differ from this one in these coordinates only; `over` is one of
  // Mesh::group_kinds.
  comm::Communicator& over(layout::AxisSet axes) const { return named(axes.text()); }
  comm::Communicator& named(const std::string& kind) const;
  int64_t size(layout::Axis axis) const { return place_.mesh.size(axis); }

 private:
  comm::Communicator& world_;
  layout::MeshRank place_;
  std::map<std::string, std::unique_ptr<comm::Communicator>> groups_;
};

}  // namespace longhaul::parallel
