// ByDevice: a communicator with two back ends over the same ranks. Calls with GPU tensors go to one; all
// other calls (CPU tensors, barriers) go to the other. Calls keep their order within each back end.
//
// A failure that one of the two learns of ends the other: whoever's stream stands in a call of the GPUs' back
// end is let go when a rank says over the CPUs' that it gives up, and the other way round. Before a call of
// the CPUs' back end the other is asked whether it is well, because numbers that come from a GPU are
// undefined after a failure there and must not be handed on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class ByDevice final : public Communicator {
 public:
  using Route = std::function<bool(const Tensor&)>;  // whether a call with this tensor goes to `gpu`
  static bool on_gpu(const Tensor& tensor) { return !tensor.is_cpu(); }

  // A whole world; the groups that are split off share its fate. Tests have other routes.
  ByDevice(std::unique_ptr<Communicator> cpu, std::unique_ptr<Communicator> gpu, Route route = on_gpu);
  void abort(const std::string& reason) override;
  bool in_order() const override { return gpu_->in_order(); }
  void require_well() override;
  Tell aborter() override;
  void on_failure(Tell tell) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  // a part of a world
  ByDevice(Route route, std::unique_ptr<Communicator> cpu, std::unique_ptr<Communicator> gpu);

  Route route_;
  std::unique_ptr<Communicator> cpu_, gpu_;
};

}  // namespace longhaul::comm
