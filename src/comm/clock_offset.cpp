#include "comm/clock_offset.h"

#include "base/checksum.h"

namespace longhaul::comm {
namespace {

constexpr int64_t kRounds = 16;

ClockOffset measured(Communicator& world, const std::function<int64_t()>& now_ns) {
  ClockOffset best{.error_ns = INT64_MAX};
  const Tensor asked = at::zeros({1}, at::kLong), answer = at::zeros({1}, at::kLong);
  for (int64_t round = 0; round < kRounds; ++round) {
    const int64_t before = now_ns();
    world.exchange({send_to(0, asked)}, {.name = "what time is it"}).wait();
    world.exchange({receive_from(0, answer)}, {.name = "the time"}).wait();
    const int64_t took = now_ns() - before;
    if (took / 2 < best.error_ns) best = {answer.item<int64_t>() - (before + took / 2), took / 2};
  }
  return best;
}

void answer_all(Communicator& world, const std::vector<int64_t>& askers,
                const std::function<int64_t()>& now_ns) {
  const Tensor asked = at::zeros({1}, at::kLong);
  for (const int64_t rank : askers) {
    for (int64_t round = 0; round < kRounds; ++round) {
      world.exchange({receive_from(rank, asked)}, {.name = "what time is it"}).wait();
      world.exchange({send_to(rank, at::full({1}, now_ns(), at::kLong))}, {.name = "the time"}).wait();
    }
  }
}

}  // namespace

ClockOffset clock_offset(Communicator& world, const std::string& clock_of,
                         const std::function<int64_t()>& now_ns) {
  const Tensor clocks = at::empty({world.size()}, at::kLong);
  world.all_gather(at::full({1}, static_cast<int64_t>(xxh3(clock_of)), at::kLong), clocks, {.name = "clocks"})
      .wait();
  const auto* const clock = clocks.const_data_ptr<int64_t>();
  std::vector<int64_t> others;
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    if (clock[rank] != clock[0]) others.push_back(rank);
  }
  if (world.rank() == 0) {
    answer_all(world, others, now_ns);
    return {};
  }
  return clock[world.rank()] == clock[0] ? ClockOffset{} : measured(world, now_ns);
}

}  // namespace longhaul::comm
