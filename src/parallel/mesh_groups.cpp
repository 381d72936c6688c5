#include "parallel/mesh_groups.h"

#include "base/error.h"

namespace longhaul::parallel {

MeshGroups::MeshGroups(comm::Communicator& world, const layout::Mesh& mesh)
    : world_(world), place_{mesh, world.rank()} {
  LONGHAUL_ASSERT(world.size() == mesh.world(), "{} ranks, a mesh of {}", world.size(), mesh.world());
  const std::vector<layout::GroupKind> kinds = mesh.group_kinds();
  std::vector<std::unique_ptr<comm::Communicator>> groups =
      world.split(kinds, {.name = "groups of the mesh"});
  for (size_t i = 0; i < kinds.size(); ++i) groups_[kinds[i].name] = std::move(groups[i]);
}

comm::Communicator& MeshGroups::named(const std::string& kind) const {
  const auto found = groups_.find(kind);
  LONGHAUL_ASSERT(found != groups_.end() && found->second != nullptr, "rank {} stands in no group {}",
                  place_.rank, kind);
  return *found->second;
}

}  // namespace longhaul::parallel
