// A communicator that carries out the calls of its rank one after the other, as NCCL does with those of a
// communicator: an exchange whose partner has not come holds up all that was started after it. Sends end when
// they are received, so nothing is buffered. Groups that are split off are in order by themselves.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/threads/worker.h"
#include "comm/communicator.h"

namespace longhaul::testing {

class InOrder final : public comm::Communicator {
 public:
  explicit InOrder(comm::Communicator& inner)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner) {}
  explicit InOrder(std::unique_ptr<comm::Communicator> inner)
      : Communicator(inner->name(), inner->rank(), inner->size()),
        owned_(std::move(inner)),
        inner_(*owned_) {}

  void abort(const std::string& reason) override { inner_.abort(reason); }
  bool in_order() const override { return true; }

  comm::Work start(comm::Call call) override {
    auto state = std::make_shared<Queued>();
    queue_.post([this, state, call = std::move(call)]() mutable {
      try {
        inner_.start(std::move(call)).wait();
        state->ended.set_value();
      } catch (...) {
        state->ended.set_exception(std::current_exception());
      }
    });
    return comm::Work(state);
  }
  std::vector<std::unique_ptr<comm::Communicator>> start_split(comm::Call call) override {
    queue_.wait();
    auto groups = inner_.start_split(std::move(call));
    for (auto& group : groups) {
      if (group != nullptr) group = std::make_unique<InOrder>(std::move(group));
    }
    return groups;
  }

 private:
  struct Queued final : comm::Work::State {
    std::promise<void> ended;
    std::shared_future<void> end = ended.get_future().share();
    void wait() override { end.get(); }
    bool done() override { return end.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  };

  std::unique_ptr<comm::Communicator> owned_;
  comm::Communicator& inner_;
  Worker queue_{"calls in order"};
};

}  // namespace longhaul::testing
