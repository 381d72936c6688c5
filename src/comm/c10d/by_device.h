// ByDevice: a communicator with two back ends over the same ranks. Calls with GPU tensors go to one; all
// other calls (CPU tensors, barriers) go to the other. Calls keep their order within each back end.
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
