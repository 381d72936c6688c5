// Ranks that are threads and share an evaluation: what they add is added.
#pragma once

#include <barrier>
#include <mutex>
#include <thread>
#include <vector>

#include "evaluate/share.h"

namespace longhaul::evaluate {

// evaluate_on(share) of each rank, in the order of the ranks. Each may add as often as it likes, all alike.
template <class Result, class Function>
std::vector<Result> on_ranks(int64_t ranks, const Function& evaluate_on) {
  std::vector<double> sum;
  std::mutex mutex;
  std::barrier there(ranks);
  std::vector<Result> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto add = [&](std::vector<double>& numbers) {
        {
          const std::lock_guard lock(mutex);
          sum.resize(numbers.size());
          for (size_t i = 0; i < numbers.size(); ++i) sum[i] += numbers[i];
        }
        there.arrive_and_wait();
        numbers = sum;
        there.arrive_and_wait();
        if (rank == 0) sum.clear();
        there.arrive_and_wait();
      };
      results[static_cast<size_t>(rank)] =
          evaluate_on(EvaluationShare{.ranks = ranks, .rank = rank, .sum_over_ranks = add});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace longhaul::evaluate
