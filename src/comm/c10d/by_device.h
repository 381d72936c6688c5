// ByDevice: a communicator of two back ends over the same ranks: calls with tensors on a GPU go to one, all others (on the CPU, and barriers) to the other.
// Calls keep their order within each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class ByDevice final : public Communicator {
 public:
  ByDevice(std::unique_ptr<Communicator> cpu, std::unique_ptr<Communicator> gpu);
  void abort(const std::string& reason) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  std::unique_ptr<Communicator> cpu_, gpu_;
};

}  // namespace longhaul::comm
