// MeshGroups: a rank's communicators, one for each set of ranks that it talks to. Made once, all kinds at the same time.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "layout/mesh.h"

namespace longhaul::parallel {

class MeshGroups {
 public:
  // A collective call of all ranks of `world`, whose number is the mesh's.
  MeshGroups(comm::Communicator& world, const layout::Mesh& mesh);

  const layout::MeshRank& place() const { return place_; }
  comm::Communicator& world() const { return world_; }
  // The ranks that differ from this one in these coordinates only. One of Mesh::group_kinds.
  comm::Communicator& over(layout::AxisSet axes) const { return named(axes.text()); }
  comm::Communicator& named(const std::string& kind) const;
  int64_t size(layout::Axis axis) const { return place_.mesh.size(axis); }

 private:
  comm::Communicator& world_;
  layout::MeshRank place_;
  std::map<std::string, std::unique_ptr<comm::Communicator>> groups_;
};

}  // namespace longhaul::parallel
