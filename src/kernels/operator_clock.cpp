#include "kernels/operator_clock.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/error.h"

namespace longhaul::kernels {

struct OperatorClock::Recording {
  struct Entry {
    std::string op, pass;
    int64_t outer;  // the entry around it; -1: none
    Event begin, end;
    double flops = 0, bytes = 0;
  };
  at::Device device;
  mutable std::mutex mutex;
  std::vector<Entry> entries;
  int64_t first_open = -1;
};

namespace {

std::atomic<OperatorClock::Recording*> running{nullptr};
thread_local int64_t innermost = -1;

void add_to_innermost(double flops, double bytes) {
  if (!operators_are_timed()) return;
  OperatorClock::Recording* const recording = running.load(std::memory_order_relaxed);
  const std::lock_guard lock(recording->mutex);
  OperatorClock::Recording::Entry& entry = recording->entries[static_cast<size_t>(innermost)];
  entry.flops += flops;
  entry.bytes += bytes;
}

}  // namespace

OperatorClock::OperatorClock(at::Device device)
    : recording_(new Recording{.device = device, .mutex = {}, .entries = {}}) {
  OperatorClock::Recording* none = nullptr;
  LONGHAUL_ASSERT(running.compare_exchange_strong(none, recording_.get()),
                  "two clocks of operators run at once");
}

OperatorClock::~OperatorClock() { running = nullptr; }

std::vector<OperatorTime> OperatorClock::rows() const {
  const std::lock_guard lock(recording_->mutex);
  const auto& entries = recording_->entries;
  std::vector<double> own(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) own[i] = entries[i].end.milliseconds_since(entries[i].begin);
  const std::vector<double> whole = own;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].outer >= 0) own[static_cast<size_t>(entries[i].outer)] -= whole[i];
  }
  std::map<std::pair<std::string, std::string>, OperatorTime> by_name;
  for (size_t i = 0; i < entries.size(); ++i) {
    OperatorTime& row = by_name[{entries[i].op, entries[i].pass}];
    row.op = entries[i].op;
    row.pass = entries[i].pass;
    ++row.calls;
    row.milliseconds += own[i];
    row.flops += entries[i].flops;
    row.bytes += entries[i].bytes;
  }
  std::vector<OperatorTime> rows;
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  std::ranges::stable_sort(rows, std::greater<>(), &OperatorTime::milliseconds);
  return rows;
}

OperatorFrame::OperatorFrame(std::string_view op, std::string_view pass)
    : recording_(running.load(std::memory_order_relaxed)) {
  if (recording_ == nullptr) return;
  const std::lock_guard lock(recording_->mutex);
  outer_ = innermost;
  entry_ = static_cast<int64_t>(recording_->entries.size());
  recording_->entries.push_back({.op = std::string(op),
                                 .pass = std::string(pass),
                                 .outer = outer_ >= 0 ? outer_ : recording_->first_open,
                                 .begin = Event(recording_->device),
                                 .end = Event(recording_->device)});
  if (recording_->first_open < 0) recording_->first_open = entry_;
  innermost = entry_;
  recording_->entries.back().begin.record(Stream::current(recording_->device));
}

OperatorFrame::~OperatorFrame() {
  if (recording_ == nullptr) return;
  const std::lock_guard lock(recording_->mutex);
  recording_->entries[static_cast<size_t>(entry_)].end.record(Stream::current(recording_->device));
  if (recording_->first_open == entry_) recording_->first_open = -1;
  innermost = outer_;
}

void OperatorFrame::moves(const std::vector<Tensor>& tensors) {
  if (recording_ == nullptr) return;
  double bytes = 0;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const void* const place = tensor.unsafeGetTensorImpl();
    const void* const data = tensor.has_storage() && tensor.numel() > 0 ? tensor.const_data_ptr() : place;
    if (std::ranges::find(counted_, data) != counted_.end()) continue;
    counted_.push_back(data);
    bytes += static_cast<double>(tensor.nbytes());
  }
  const std::lock_guard lock(recording_->mutex);
  recording_->entries[static_cast<size_t>(entry_)].bytes += bytes;
}

bool operators_are_timed() { return running.load(std::memory_order_relaxed) != nullptr && innermost >= 0; }

void count_flops(double flops) { add_to_innermost(flops, 0); }
void count_bytes(double bytes) { add_to_innermost(0, bytes); }

void count_product(const Tensor& rows, const Tensor& weight) {
  if (!operators_are_timed()) return;
  count_flops(2.0 * static_cast<double>(rows.size(0)) *
              static_cast<double>(weight.size(-2) * weight.size(-1)));
}

}  // namespace longhaul::kernels
