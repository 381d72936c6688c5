#include "comm/c10d/nccl.h"

#include "base/error.h"
#include "base/process/variables.h"

#ifdef LONGHAUL_WITH_NCCL
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "comm/c10d/by_device.h"
#include "comm/c10d/c10d_group.h"

namespace longhaul::comm {

bool has_nccl() { return true; }

namespace {

// c10d's own watchdog ends the process by SIGABRT, unless it is told to clean up alone: C10dGroup sees the
// error then, and the run ends with its own. Of what the user has set nothing is changed. More queues than
// the eight by default keep streams that wait for different ranks apart.
void set_defaults() {
  set_variable_if_unset("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2");
  set_variable_if_unset("CUDA_DEVICE_MAX_CONNECTIONS", "32");
}

}  // namespace

std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> cpu, const Placement& place,
                                        at::Device gpu, Timeout timeout) {
  set_defaults();
  const DeviceScope scope(gpu);
  c10d::TCPStoreOptions address;
  address.port = place.port;
  address.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "/longhaul/nccl/attempt_" + place.attempt, c10::make_intrusive<c10d::TCPStore>(place.host, address));
  const auto maker = [store, gpu, timeout](const std::string& keys, int64_t rank,
                                           int64_t size) -> std::shared_ptr<c10d::Backend> {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    const auto made =
        c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>(keys, store),
                                                    static_cast<int>(rank), static_cast<int>(size), options);
    // At once, as all members come here in the same order; later, two ranks that wait for each other's first
    // call would not meet. And the memory that it takes is gone before the run asks how much is free.
    made->eagerConnectSingleDevice(gpu);
    return {made.get(), [made](c10d::Backend*) {}};
  };
  std::unique_ptr<Communicator> tensors = C10dGroup::make(maker, cpu->rank(), cpu->size(), timeout);
  return std::make_unique<ByDevice>(std::move(cpu), std::move(tensors));
}

}  // namespace longhaul::comm

#else

namespace longhaul::comm {

bool has_nccl() { return false; }

std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator>, const Placement& place, at::Device,
                                        Timeout) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "ranks cannot exchange over NCCL",
               .expected = "a Longhaul that NCCL is compiled into",
               .found = "this one was built without it",
               .where = fmt::format("rank {} of {}", place.rank, place.size),
               .hint = "parallel.backend=gloo, or LibTorch with CUDA and nccl.h at the build"});
}

}  // namespace longhaul::comm
#endif
