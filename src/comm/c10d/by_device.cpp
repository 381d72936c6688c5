#include "comm/c10d/by_device.h"

#include <utility>

namespace longhaul::comm {
namespace {

bool on_cpu(const Call& call) {
  const Tensor& first = call.input.defined() ? call.input : call.transfers.empty() ? call.output : call.transfers.front().tensor;
  return !first.defined() || first.is_cpu();
}

}  // namespace

ByDevice::ByDevice(std::unique_ptr<Communicator> cpu, std::unique_ptr<Communicator> gpu)
    : Communicator(cpu->name(), cpu->rank(), cpu->size()), cpu_(std::move(cpu)), gpu_(std::move(gpu)) {
  LONGHAUL_ASSERT(gpu_->rank() == rank() && gpu_->size() == size(), "{} and {} are not of the same ranks", name(), gpu_->name());
}

void ByDevice::abort(const std::string& reason) {
  cpu_->abort(reason);
  gpu_->abort(reason);
}

Work ByDevice::start(Call call) { return (on_cpu(call) ? *cpu_ : *gpu_).start(std::move(call)); }

std::vector<std::unique_ptr<Communicator>> ByDevice::start_split(Call call) {
  std::vector<std::unique_ptr<Communicator>> cpu = cpu_->start_split(call), gpu = gpu_->start_split(std::move(call)), both;
  for (size_t kind = 0; kind < cpu.size(); ++kind)
    both.push_back(cpu[kind] ? std::make_unique<ByDevice>(std::move(cpu[kind]), std::move(gpu[kind])) : nullptr);
  return both;
}

}  // namespace longhaul::comm
