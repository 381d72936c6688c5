#include "comm/c10d/by_device.h"

#include <utility>

namespace longhaul::comm {
namespace {

// The tensor that tells where a call belongs; undefined: it has none.
Tensor example_of(const Call& call) {
  return call.input.defined()     ? call.input
         : call.transfers.empty() ? call.output
                                  : call.transfers.front().tensor;
}

}  // namespace

ByDevice::ByDevice(std::unique_ptr<Communicator> cpu, std::unique_ptr<Communicator> gpu, Route route)
    : ByDevice(std::move(route), std::move(cpu), std::move(gpu)) {
  cpu_->on_failure(gpu_->aborter());
  gpu_->on_failure(cpu_->aborter());
}

ByDevice::ByDevice(Route route, std::unique_ptr<Communicator> cpu, std::unique_ptr<Communicator> gpu)
    : Communicator(cpu->name(), cpu->rank(), cpu->size()),
      route_(std::move(route)),
      cpu_(std::move(cpu)),
      gpu_(std::move(gpu)) {
  LONGHAUL_ASSERT(gpu_->rank() == rank() && gpu_->size() == size(), "{} and {} are not of the same ranks",
                  name(), gpu_->name());
}

void ByDevice::abort(const std::string& reason) {
  cpu_->abort(reason);
  gpu_->abort(reason);
}

Communicator::Tell ByDevice::aborter() {
  return [cpu = cpu_->aborter(), gpu = gpu_->aborter()](const std::string& reason) {
    cpu(reason);
    gpu(reason);
  };
}

// the other half's failures come there too
void ByDevice::on_failure(Tell tell) { cpu_->on_failure(std::move(tell)); }

// Where the GPUs' half was let go because the other has failed, the other's words are the better ones: they
// name a rank and a call.
void ByDevice::require_well() {
  try {
    gpu_->require_well();
  } catch (const Aborted&) {
    cpu_->require_well();
    throw;
  }
}

Work ByDevice::start(Call call) {
  require_well();
  const Tensor example = example_of(call);
  return (example.defined() && route_(example) ? *gpu_ : *cpu_).start(std::move(call));
}

std::vector<std::unique_ptr<Communicator>> ByDevice::start_split(Call call) {
  std::vector<std::unique_ptr<Communicator>> cpu = cpu_->start_split(call),
                                             gpu = gpu_->start_split(std::move(call)), both;
  for (size_t kind = 0; kind < cpu.size(); ++kind)
    both.push_back(cpu[kind] ? std::unique_ptr<Communicator>(
                                   new ByDevice(route_, std::move(cpu[kind]), std::move(gpu[kind])))
                             : nullptr);
  return both;
}

}  // namespace longhaul::comm
