#include "comm/single.h"

#include <ATen/core/grad_mode.h>

#include <mutex>
#include <optional>

namespace longhaul::comm {
namespace {

void copy_to(const Tensor& source, const Tensor& target) {
  if (source.numel() == 0 || source.const_data_ptr() == target.const_data_ptr()) return;
  const at::NoGradGuard no_gradient;
  target.copy_(source);
}

// The n-th message sent is the n-th received.
void deliver(const Call& call) {
  std::vector<Tensor> sent, received;
  for (const Transfer& transfer : call.transfers)
    (transfer.direction == Direction::kSend ? sent : received).push_back(transfer.tensor);
  bool fits = sent.size() == received.size();
  for (size_t i = 0; fits && i < sent.size(); ++i) {
    fits = sent[i].scalar_type() == received[i].scalar_type() && sent[i].sizes() == received[i].sizes();
  }
  if (!fits) {
    throw Error({.code = ExitCode::kCommunication,
                 .what = "a rank alone must receive what it sends",
                 .expected = "as many receives as sends, of the same dtypes and shapes",
                 .found = describe(call),
                 .where = label(call)});
  }
  for (size_t i = 0; i < sent.size(); ++i) copy_to(sent[i], received[i]);
}

}  // namespace

struct Single::Fate {
  std::mutex mutex;  // abort comes from any thread
  std::optional<std::string> reason;
};

Single::Single(std::string name) : Single(std::move(name), std::make_shared<Fate>()) {}
Single::Single(std::string name, std::shared_ptr<Fate> fate)
    : Communicator(std::move(name), 0, 1), fate_(std::move(fate)) {}
Single::~Single() = default;

void Single::abort(const std::string& reason) {
  const std::lock_guard lock(fate_->mutex);
  if (!fate_->reason) fate_->reason = reason;
}

void Single::refuse_after_abort(const Call& call) const {
  const std::lock_guard lock(fate_->mutex);
  if (!fate_->reason) return;
  throw Aborted({.code = ExitCode::kCommunication,
                 .what = fmt::format("rank 0 of '{}' aborted", name()),
                 .found = *fate_->reason,
                 .where = fmt::format("rank 0 of '{}', {}, which was not started", name(), label(call))});
}

Work Single::start(Call call) {
  refuse_after_abort(call);
  if (call.kind == CallKind::kExchange) {
    deliver(call);
  } else if (call.input.defined()) {
    copy_to(call.input, call.output);
  }
  return Work();
}

std::vector<std::unique_ptr<Communicator>> Single::start_split(Call call) {
  refuse_after_abort(call);
  std::vector<std::unique_ptr<Communicator>> groups;
  for (const layout::GroupKind& kind : call.kinds) {
    groups.push_back(
        kind.groups.empty() ? nullptr : std::unique_ptr<Communicator>(new Single(kind.name + " 0", fate_)));
  }
  return groups;
}

}  // namespace longhaul::comm
