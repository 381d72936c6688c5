#include "plan/memory_guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "layout/parameters.h"

namespace longhaul::plan {
namespace {

std::string text_of(double bytes) { return bytes_text(whole_bytes(bytes)); }

double needed(const MemoryRequest& request) { return needed_bytes(request, plan_memory(request)); }

// The largest value, halved as often as it takes, that fits; else the smallest one there is.
struct Lever {
  std::string setting;  // "train.micro_batch=4"
  double bytes = 0;
  std::string remark;
};

Lever lowered(MemoryRequest request, double available, const char* key, int64_t MemoryRequest::*value, int64_t least,
              const std::string& remark) {
  double bytes = needed(request);
  while (bytes > available && request.*value / 2 >= least) {
    request.*value /= 2;
    request.micro_batch = std::min(request.micro_batch, request.batch);
    bytes = needed(request);
  }
  return {fmt::format("{}={}", key, request.*value), bytes, remark};
}

// As above, over divisors of the batch.
Lever lowered_micro_batch(MemoryRequest request, double available) {
  double bytes = needed(request);
  while (bytes > available && request.micro_batch > 1) {
    do request.micro_batch /= 2;
    while (request.batch % request.micro_batch != 0);
    bytes = needed(request);
  }
  return {fmt::format("train.micro_batch={}", request.micro_batch), bytes, " and leaves the result as it is"};
}

Lever lowered_layers(MemoryRequest request, double available) {
  double bytes = needed(request);
  while (bytes > available && request.model.layers > 1) {
    request.model.layers /= 2;
    bytes = needed(request);
  }
  return {fmt::format("model.layers={}", request.model.layers), bytes, " in a smaller model"};
}

std::string advice(const MemoryRequest& request, double available) {
  constexpr int64_t kShortest = 16;
  std::vector<Lever> levers{lowered_micro_batch(request, available),
                            lowered(request, available, "train.sequence", &MemoryRequest::sequence, kShortest, ""),
                            lowered(request, available, "train.batch", &MemoryRequest::batch, 1, ""), lowered_layers(request, available)};
  const double now = needed(request);
  std::erase_if(levers, [&](const Lever& lever) { return lever.bytes > 0.95 * now; });  // does not help
  // Those that are enough come in their order, then the others by what they reach.
  std::stable_sort(levers.begin(), levers.end(),
                   [&](const Lever& a, const Lever& b) { return std::max(a.bytes, available) < std::max(b.bytes, available); });
  std::string text = levers.empty() || levers[0].bytes > available ? "no one option is enough; " : "";
  for (const Lever& lever : levers)
    text += fmt::format("{} takes {}{}; ", lever.setting, text_of(lever.bytes), lever.bytes <= available ? lever.remark : "");
  return text + "nothing was allocated";
}

std::string table(const MemoryPlan& plan) {
  const MemoryMoment& fullest = plan.fullest();
  std::string text = text_of(fullest.bytes.total() + plan.not_tensors);
  const auto row = [&](std::string_view name, double bytes) { text += fmt::format("\n            {:<18} {:>10}", name, text_of(bytes)); };
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    if (fullest.bytes[purpose] > 0) row(name_of(purpose), fullest.bytes[purpose]);
  }
  row("not tensors", plan.not_tensors);
  return text;
}

}  // namespace

double needed_bytes(const MemoryRequest& request, const MemoryPlan& plan) {
  return request.on_gpu ? plan.device_peak() : plan.peak() + plan.not_tensors;
}

void require_memory(const MemoryRequest& request, int64_t available_bytes) {
  const MemoryPlan plan = plan_memory(request);
  const auto available = static_cast<double>(available_bytes);
  if (needed_bytes(request, plan) <= available) return;
  throw Error({.code = ExitCode::kOutOfMemory,
               .what = "training does not fit into memory",
               .expected = fmt::format("at most {}, which is free here", bytes_text(available_bytes)),
               .found = table(plan),
               .where = fmt::format("{}; train.micro_batch={}, train.sequence={}, {} parameters", plan.fullest().name, request.micro_batch,
                                    request.sequence, count_text(layout::parameter_count(request.model))),
               .hint = advice(request, available)});
}

}  // namespace longhaul::plan
