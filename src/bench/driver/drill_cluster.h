// DrillCluster: the nodes of a supervised run that drills are done to (bench/driver/faults.h) as machines of
// their own: each in a network of its own at one switch, with the driver's machine there too
// (base/net/small_network.h). Their daemons reach the driver by way of a proxy, which can leave connections
// half open.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/net/small_network.h"
#include "base/net/tcp_proxy.h"

namespace longhaul::bench {

class DrillCluster {
 public:
  static constexpr const char* kDriver = "10.77.0.1:29400";  // where it listens

  // Error 70 where there can be none: kinds_not_here() tells.
  explicit DrillCluster(int64_t machines);
  ~DrillCluster();  // daemons that are still there are killed
  DrillCluster(const DrillCluster&) = delete;
  DrillCluster& operator=(const DrillCluster&) = delete;

  // Daemons of nodes "node-0", …, the first two for ranks and the others spare, with these in their
  // environment.
  void start(const std::filesystem::path& run, int64_t slots, const std::vector<std::string>& environment);

  void cut(const std::string& node) const;
  void join(const std::string& node) const;
  // what it says to the driver by the connections that it has now arrives no more
  void silence(const std::string& node);

 private:
  int64_t machines_;
  SmallNetwork network_;
  TcpProxy proxy_;
  std::vector<int> daemons_;
};

}  // namespace longhaul::bench
