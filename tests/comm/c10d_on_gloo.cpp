#define USE_C10D_GLOO
#include "c10d_on_gloo.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>

#include "comm/c10d/c10d_group.h"

namespace longhaul::comm {

struct C10dStore::State {
  c10::intrusive_ptr<c10d::HashStore> store = c10::make_intrusive<c10d::HashStore>();
};

C10dStore::C10dStore() : state_(std::make_shared<State>()) {}

std::unique_ptr<Communicator> C10dStore::join(int64_t rank, int64_t size, Timeout timeout) const {
  const auto maker = [state = state_, timeout](const std::string& keys, int64_t own,
                                               int64_t of) -> std::shared_ptr<c10d::Backend> {
    const auto options = c10d::ProcessGroupGloo::Options::create(std::min(timeout, Timeout(60000)));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
    const auto made = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>(keys, state->store), static_cast<int>(own),
        static_cast<int>(of), options);
    return {made.get(), [made](c10d::Backend*) {}};
  };
  return C10dGroup::make(maker, rank, size, std::min(timeout, Timeout(60000)));
}

}  // namespace longhaul::comm
