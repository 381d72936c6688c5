// TierNodes: which nodes the ranks of a run stand on, where each keeps its memory tier (storage/node_tier.h), and how files come from one
// node to another: read there and written here where both are this machine's (several nodes in a drill), else through the communicator in
// messages of at most 4 MiB, each with its crc32c.
//
// A node is what has one tier; the environment says which a process has: LONGHAUL_MEMORY_TIER, the folder, LONGHAUL_NODE, the name people know,
// and LONGHAUL_NODE_DISK, a folder on a disk of the node's own, where nodes have folders by their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/disk/writers.h"
#include "storage/file_system.h"

namespace longhaul::checkpoint {

struct TierPlace {
  std::filesystem::path tier;
  std::string node;
  uint64_t machine = 0;          // processes of the same reach each other's tiers; 0: as it is (base/memory/shared_memory.h)
  std::filesystem::path disk{};  // of the node's own, for what should outlive its memory (node_disk.h); empty: none
};
std::optional<TierPlace> tier_place_of_process();  // none: it has no memory tier

// A file of a checkpoint that goes from the node of one rank to that of another.
struct FileMove {
  std::string name;
  int64_t bytes = 0, from = 0, to = 0;
};

class TierNodes {
 public:
  // A collective call. kUsage where some ranks have a tier and others none.
  TierNodes(const Writers& ranks, const std::optional<TierPlace>& own);

  bool any() const { return !nodes_.empty(); }
  int64_t nodes() const { return static_cast<int64_t>(nodes_.size()); }
  const std::vector<int64_t>& node_of_rank() const { return node_of_rank_; }
  int64_t node_of(int64_t rank) const { return node_of_rank_[static_cast<size_t>(rank)]; }
  const std::vector<int64_t>& ranks_of(int64_t node) const { return nodes_[static_cast<size_t>(node)].ranks; }
  bool is_first(int64_t rank) const { return ranks_of(node_of(rank)).front() == rank; }  // of its node
  int64_t place_of(int64_t rank) const;                                                  // among the ranks of its node
  const std::filesystem::path& tier_of(int64_t node) const { return nodes_[static_cast<size_t>(node)].tier; }
  const std::string& name_of(int64_t node) const { return nodes_[static_cast<size_t>(node)].name; }
  bool same_machine(int64_t a, int64_t b) const;  // nodes

 private:
  struct Node {
    std::filesystem::path tier;
    std::string name;
    uint64_t machine = 0;
    std::vector<int64_t> ranks;
  };
  std::vector<Node> nodes_;
  std::vector<int64_t> node_of_rank_;
};

// Every rank of the group calls it with the same list. folder_of: of a node, where its files of the checkpoint lie. What fails on one rank
// keeps no other waiting; it is thrown there when all has come through. bytes_per_second: that this rank sends, or copies on its machine, in the
// mean, so that something is left to others; 0: as many as it can.
using FolderOfNode = std::function<std::filesystem::path(int64_t node)>;
void move_files(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes, const FolderOfNode& folder_of,
                std::span<const FileMove> moves, double bytes_per_second = 0);

}  // namespace longhaul::checkpoint
