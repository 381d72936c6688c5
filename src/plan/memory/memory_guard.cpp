#include "plan/memory/memory_guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "layout/parameters.h"

namespace longhaul::plan {
namespace {

std::string text_of(double bytes) { return bytes_text(whole_bytes(bytes)); }

// The largest value that fits, found by repeated halving; else the smallest possible one.
struct Lever {
  std::string setting;  // "train.micro_batch=4"
  double bytes = 0;
  std::string remark;
};

class Advice {
 public:
  Advice(const MemoryRequest& request, double available, const MemoryOwner& owner)
      : request_(request), available_(available), owner_(owner) {}

  std::string text() const {
    constexpr int64_t kShortest = 16;
    constexpr const char* kSameResult = " and leaves the result as it is";
    std::vector<Lever> levers{
        lowered(
            "train.micro_batch", [](MemoryRequest& r) -> int64_t& { return r.micro_batch; }, 1, kSameResult),
        lowered(
            "train.sequence", [](MemoryRequest& r) -> int64_t& { return r.sequence; }, kShortest),
        lowered(
            "train.batch", [](MemoryRequest& r) -> int64_t& { return r.batch; }, owner_.replicas),
        lowered(
            "model.layers", [](MemoryRequest& r) -> int64_t& { return r.model.layers; }, owner_.stages,
            " in a smaller model")};
    if (owner_.changes) {
      for (const MemoryOwner::Change& change : owner_.changes())
        levers.push_back({change.setting, needed_bytes(request_, change.plan), kSameResult});
    }
    const double now = needed_bytes(request_, owner_.plan(request_));
    std::erase_if(levers, [&](const Lever& lever) { return lever.bytes > 0.95 * now; });  // does not help
    // Sufficient changes come first, in their order, then the others by what they achieve.
    std::stable_sort(levers.begin(), levers.end(), [&](const Lever& a, const Lever& b) {
      return std::max(a.bytes, available_) < std::max(b.bytes, available_);
    });
    std::string text = levers.empty() || levers[0].bytes > available_ ? "no one option is enough; " : "";
    for (const Lever& lever : levers)
      text += fmt::format("{} takes {}{}; ", lever.setting, text_of(lever.bytes),
                          lever.bytes <= available_ ? lever.remark : "");
    return text + (owner_.hint.empty() ? "" : owner_.hint + "; ") + "nothing was allocated";
  }

 private:
  // Sizes that the replicas can share, in whole micro-batches.
  bool possible(const MemoryRequest& request) const {
    return request.batch % (request.micro_batch * owner_.replicas) == 0;
  }

  Lever lowered(const char* key, int64_t& (*value)(MemoryRequest&), int64_t least,
                const char* remark = "") const {
    MemoryRequest request = request_;
    Lever lever{fmt::format("{}={}", key, value(request)), needed_bytes(request, owner_.plan(request)),
                remark};
    while (lever.bytes > available_ && value(request) / 2 >= least) {
      value(request) /= 2;
      request.micro_batch =
          std::min(request.micro_batch, std::max<int64_t>(1, request.batch / owner_.replicas));
      if (!possible(request)) continue;
      try {
        lever.bytes = needed_bytes(request, owner_.plan(request));
      } catch (const Error& error) {
        // the pipeline's schedule does not allow so few micro-batches, or its stages need other layers
        if (error.code() != ExitCode::kUsage) throw;
        break;
      }
      lever.setting = fmt::format("{}={}", key, value(request));
    }
    return lever;
  }

  const MemoryRequest& request_;
  double available_;
  const MemoryOwner& owner_;
};

std::string table(const MemoryPlan& plan) {
  const MemoryMoment& fullest = plan.fullest();
  std::string text = text_of(fullest.bytes.total() + plan.communication + plan.not_tensors);
  const auto row = [&](std::string_view name, double bytes) {
    text += fmt::format("\n            {:<18} {:>10}", name, text_of(bytes));
  };
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    if (fullest.bytes[purpose] > 0) row(name_of(purpose), fullest.bytes[purpose]);
  }
  if (plan.communication > 0) row("communication", plan.communication);
  row("not tensors", plan.not_tensors);
  return text;
}

}  // namespace

double needed_bytes(const MemoryRequest& request, const MemoryPlan& plan) {
  return request.on_gpu ? plan.device_peak() : plan.peak() + plan.communication + plan.not_tensors;
}

void require_memory(const MemoryRequest& request, int64_t available_bytes, const MemoryOwner& owner) {
  const MemoryPlan plan = owner.plan(request);
  const auto available = static_cast<double>(available_bytes);
  if (needed_bytes(request, plan) <= available) return;
  throw Error(
      {.code = ExitCode::kOutOfMemory,
       .what = owner.what,
       .expected = fmt::format("at most {}, which is free here", bytes_text(available_bytes)),
       .found = table(plan),
       .where = fmt::format(
           "{}; train.micro_batch={}, train.sequence={}, {} parameters", plan.fullest().name,
           request.micro_batch, request.sequence,
           count_text(owner.parameters > 0 ? owner.parameters : layout::parameter_count(request.model))),
       .hint = Advice(request, available, owner).text()});
}

}  // namespace longhaul::plan
