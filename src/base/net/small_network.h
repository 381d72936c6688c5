// SmallNetwork: a network of this process's own, for drills and tests of links that drop: a switch, and
// machines that are plugged into it, each with an address and nothing but the loopback and that one link.
// A machine is a group of processes: on() says with which words they are started there.
//
//   SmallNetwork network(3);
//   start_child({.argv = network.on(0, {"longhaul", "node", …}), …});
//   network.cut(0);   … network.join(0);
//
// The thread that makes one is at the switch until it goes, and so is what it starts: kAtSwitch reaches it.
// Only who may make networks and mount has some, where there are the programs ip and nsenter. Nothing of it
// is seen by the machine's other processes, or stays when this one is killed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

class SmallNetwork {
 public:
  static constexpr const char* kAtSwitch = "10.77.0.1";

  explicit SmallNetwork(int64_t machines);  // at most 200
  ~SmallNetwork();                          // what runs on its machines must have ended
  SmallNetwork(const SmallNetwork&) = delete;
  SmallNetwork& operator=(const SmallNetwork&) = delete;
  bool usable() const { return usable_; }

  static std::string address_of(int64_t machine);
  static std::vector<std::string> on(int64_t machine, const std::vector<std::string>& argv);
  void cut(int64_t machine) const;   // its link goes down: nothing arrives, and nobody is told
  void join(int64_t machine) const;  // up again

 private:
  int before_ = -1;  // the network that the thread was in
  bool usable_ = false;
};

}  // namespace longhaul
