#include "comm/c10d/nccl.h"

#include "base/error.h"

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

std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator> cpu, const Placement& place, Timeout timeout) {
  c10d::TCPStoreOptions address;
  address.port = place.port;
  address.waitWorkers = false;
  const auto store = c10::make_intrusive<c10d::PrefixStore>("/longhaul/nccl/attempt_" + place.attempt,
                                                            c10::make_intrusive<c10d::TCPStore>(place.host, address));
  const auto maker = [store, timeout](const std::string& keys, int64_t rank, int64_t size) -> std::shared_ptr<c10d::Backend> {
    const auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    const auto made = c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>(keys, store),
                                                                  static_cast<int>(rank), static_cast<int>(size), options);
    return {made.get(), [made](c10d::Backend*) {}};
  };
  std::unique_ptr<Communicator> gpu = C10dGroup::make(maker, cpu->rank(), cpu->size(), timeout);
  return std::make_unique<ByDevice>(std::move(cpu), std::move(gpu));
}

}  // namespace longhaul::comm

#else

namespace longhaul::comm {

bool has_nccl() { return false; }

std::unique_ptr<Communicator> with_nccl(std::unique_ptr<Communicator>, const Placement& place, Timeout) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "ranks cannot exchange over NCCL",
               .expected = "a Longhaul that NCCL is compiled into",
               .found = "this one was built without it",
               .where = fmt::format("rank {} of {}", place.rank, place.size),
               .hint = "parallel.backend=gloo, or LibTorch with CUDA and nccl.h at the build"});
}

}  // namespace longhaul::comm
#endif
