// TierNodes: the nodes on which the ranks of a run are placed, the memory tier of each node
// (storage/node_tier.h), and the transfer of files between nodes. When both nodes are on this machine
// (several nodes in a drill), a file is read from one tier and written to the other; otherwise it goes
// through the communicator in messages of at most 4 MiB, each with its crc32c.
//
// A node is defined by its tier. Environment variables tell a process which one it has:
// LONGHAUL_MEMORY_TIER is the folder, LONGHAUL_NODE is the name that people know, and LONGHAUL_NODE_DISK is
// a folder on a disk of the node's own, in which nodes have folders by their names.
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
  // Processes on the same machine reach each other's tiers; 0: detected (base/memory/shared_memory.h).
  uint64_t machine = 0;
  // A folder on the node's own disk, for copies that should survive a restart (node_disk.h); empty: none.
  std::filesystem::path disk{};
};
std::optional<TierPlace> tier_place_of_process();  // none: the process has no memory tier

// A file of a checkpoint that is sent from the node of rank `from` to the node of rank `to`.
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
  bool is_first(int64_t rank) const { return ranks_of(node_of(rank)).front() == rank; }  // in its node
  // Its index among the ranks of its node.
  int64_t place_of(int64_t rank) const;
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

// A collective call: every rank of the group passes the same list. folder_of: the folder where a node's
// files of the checkpoint lie. A failure on one rank does not block the others; that rank throws it after
// all transfers have finished. bytes_per_second: the average rate to which this rank limits what it sends,
// or copies on its machine, so that bandwidth is left for training; 0: no limit.
using FolderOfNode = std::function<std::filesystem::path(int64_t node)>;
void move_files(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes,
                const FolderOfNode& folder_of, std::span<const FileMove> moves, double bytes_per_second = 0);

}  // namespace longhaul::checkpoint
