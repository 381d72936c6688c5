#include "comm/recording_backend.h"

#include <fmt/format.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace longhaul::comm {

struct RecordingBackend::State {
  std::mutex mutex;
  std::vector<std::string> calls, ended;
  std::vector<int64_t> waited_ms;
  c10d::ErrorType error = c10d::ErrorType::SUCCESS;
  bool completes = true, any_abort = false;
  std::promise<void> first_abort;
};

namespace {

using State = RecordingBackend::State;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;

class RecordedWork final : public c10d::Work {
 public:
  RecordedWork(std::shared_ptr<State> state, bool completes)
      : state_(std::move(state)), completes_(completes) {}
  bool wait(std::chrono::milliseconds timeout) override {
    const std::lock_guard lock(state_->mutex);
    state_->waited_ms.push_back(timeout.count());
    return true;
  }
  bool isCompleted() override { return completes_; }
  bool isSuccess() const override { return completes_; }

 private:
  std::shared_ptr<State> state_;
  bool completes_;
};

class Backend final : public c10d::Backend {
 public:
  Backend(std::shared_ptr<State> state, std::string keys, int rank, int size)
      : c10d::Backend(rank, size), state_(std::move(state)), keys_(std::move(keys)) {}
  const std::string getBackendName() const override { return "recording"; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { note("group begins"); }
  WorkPointer endCoalescing() override { return note("group ends"); }
  WorkPointer send(std::vector<at::Tensor>&, int peer, int) override {
    return note(fmt::format("send {}", peer));
  }
  WorkPointer recv(std::vector<at::Tensor>&, int peer, int) override {
    return note(fmt::format("receive {}", peer));
  }
  WorkPointer allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions& options) override {
    return note(fmt::format("all_reduce {}", options.timeout.count()));
  }
  WorkPointer reduce_scatter(std::vector<at::Tensor>&, std::vector<std::vector<at::Tensor>>&,
                             const c10d::ReduceScatterOptions&) override {
    return note("reduce_scatter of a list");
  }
  WorkPointer allgather(std::vector<std::vector<at::Tensor>>&, std::vector<at::Tensor>&,
                        const c10d::AllgatherOptions&) override {
    return note("all_gather of a list");
  }
  // As if every rank had this one's values, plus 100 times its number.
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) override {
    for (int r = 0; r < getSize(); ++r)
      output.narrow(0, r * input.size(0), input.size(0)).copy_(input.add(100 * r));
    return note("all_gather");
  }
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions&) override {
    output.copy_(input.narrow(0, getRank() * output.size(0), output.size(0)).mul(getSize()));
    return note("reduce_scatter");
  }
  c10d::ErrorType getError() override {
    const std::lock_guard lock(state_->mutex);
    return state_->error;
  }
  void abort() override {
    const std::lock_guard lock(state_->mutex);
    state_->ended.push_back("abort " + keys_);
    if (!std::exchange(state_->any_abort, true)) state_->first_abort.set_value();
  }
  void shutdown() override {
    const std::lock_guard lock(state_->mutex);
    state_->ended.push_back("shutdown " + keys_);
  }

 private:
  WorkPointer note(std::string call) {
    const std::lock_guard lock(state_->mutex);
    state_->calls.push_back(std::move(call));
    return c10::make_intrusive<RecordedWork>(state_, state_->completes);
  }

  std::shared_ptr<State> state_;
  std::string keys_;
};

}  // namespace

RecordingBackend::RecordingBackend() : state_(std::make_shared<State>()) {}

C10dGroup::Maker RecordingBackend::maker() const {
  return [state = state_](const std::string& keys, int64_t rank,
                          int64_t size) -> std::shared_ptr<c10d::Backend> {
    const auto made =
        c10::make_intrusive<Backend>(state, keys, static_cast<int>(rank), static_cast<int>(size));
    return {made.get(), [made](c10d::Backend*) {}};
  };
}

std::vector<std::string> RecordingBackend::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls;
}
std::vector<int64_t> RecordingBackend::waited_ms() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waited_ms;
}
std::vector<std::string> RecordingBackend::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->ended;
}
std::future<void> RecordingBackend::aborted() const { return state_->first_abort.get_future(); }
void RecordingBackend::find_error(int c10d_error_type) {
  const std::lock_guard lock(state_->mutex);
  state_->error = static_cast<c10d::ErrorType>(c10d_error_type);
}
void RecordingBackend::do_not_complete() {
  const std::lock_guard lock(state_->mutex);
  state_->completes = false;
}

}  // namespace longhaul::comm
