// What the tests of communicators share: values that differ by rank, sums taken by plain loops, and what
// every rank's errors were.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/net/network.h"
#include "base/process/launch.h"
#include "c10d_on_gloo.h"
#include "comm/threads/run_ranks.h"
#include "comm/world.h"

namespace longhaul::comm {

inline constexpr int64_t kGroupSizes[] = {1, 2, 3, 4, 7};

// The back end that these tests try: LONGHAUL_TEST_COMM=gloo takes connections over the loopback, with
// threads instead of processes at both ends, so that a test may look at all ranks at once
// (multi_process_test.cpp has processes).
inline bool on_gloo() { return variable("LONGHAUL_TEST_COMM") == "gloo"; }

inline void run_body(Communicator& world, const std::function<void(Communicator&)>& body) {
  try {
    body(world);
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

// run_ranks on the chosen back end. LONGHAUL_TEST_COMM=c10d: what NCCL's communicator is made of, over c10d's
// own Gloo.
inline void on_ranks(int64_t size, const std::function<void(Communicator&)>& body,
                     const ThreadGroupOptions& options = {}) {
  if (variable("LONGHAUL_TEST_COMM") == "c10d") {
    const C10dStore store;
    return run_ranks(size, [&](Communicator& thread) {
      run_body(*store.join(thread.rank(), size, options.timeout), body);
    });
  }
  if (!on_gloo()) return run_ranks(size, body, options);
  const uint16_t port = free_port();
  run_ranks(size, [&](Communicator& thread) {
    const Placement placement{.rank = thread.rank(), .size = size, .host = "127.0.0.1", .port = port};
    const auto world = join_world({.join_timeout = Timeout(20000), .timeout = options.timeout}, placement);
    run_body(*world, body);
  });
}

inline int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Numbers that no two ranks share, of either sign; with fractions where the dtype has them.
inline Tensor values_of(int64_t rank, const std::vector<int64_t>& sizes, ScalarType type, uint64_t seed = 1) {
  std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(rank));
  std::uniform_real_distribution<double> uniform(-100, 100);
  Tensor numbers = at::empty(sizes, at::kDouble);
  double* data = numbers.mutable_data_ptr<double>();
  for (int64_t i = 0; i < numbers.numel(); ++i) data[i] = uniform(random);
  return numbers.to(type);
}

inline std::vector<double> numbers(const Tensor& tensor) {
  const Tensor wide = tensor.to(at::kDouble).contiguous();
  return {wide.const_data_ptr<double>(), wide.const_data_ptr<double>() + wide.numel()};
}

// The sum in the order given: bf16 in fp32 and rounded once.
inline double plain_sum(const std::vector<double>& terms, ScalarType type) {
  double sum = terms.front();
  for (size_t i = 1; i < terms.size(); ++i) {
    sum = type == at::kFloat || type == at::kBFloat16
              ? static_cast<double>(static_cast<float>(sum) + static_cast<float>(terms[i]))
              : sum + terms[i];
  }
  return type == at::kBFloat16
             ? static_cast<double>(static_cast<float>(at::BFloat16(static_cast<float>(sum))))
             : sum;
}

// Element by element over all ranks, which hold values_of(rank, sizes, type, seed).
inline std::vector<double> plain_sums(int64_t ranks, const std::vector<int64_t>& sizes, ScalarType type,
                                      uint64_t seed = 1) {
  std::vector<std::vector<double>> of_rank;
  for (int64_t rank = 0; rank < ranks; ++rank) of_rank.push_back(numbers(values_of(rank, sizes, type, seed)));
  std::vector<double> sums;
  for (size_t i = 0; i < of_rank.front().size(); ++i) {
    std::vector<double> terms;
    for (const auto& one : of_rank) terms.push_back(one[i]);
    sums.push_back(plain_sum(terms, type));
  }
  return sums;
}

// Uneven shares, some of them empty.
inline std::vector<int64_t> uneven_rows(int64_t ranks) {
  std::vector<int64_t> rows;
  for (int64_t rank = 0; rank < ranks; ++rank) rows.push_back((rank * 2 + 3) % 5 % 4);
  return rows;
}

inline std::vector<double> part(const std::vector<double>& all, int64_t first, int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

// Comes later than others by an arbitrary time.
inline void dawdle(std::mt19937_64& random) {
  for (uint64_t turns = random() % 4 == 0 ? random() % 30 : 0; turns > 0; --turns) std::this_thread::yield();
}

// The error of each rank as text; empty where it ended well. What hangs ends in some seconds, and says who
// was waited for.
inline std::vector<std::string> errors_of(int64_t size, const std::function<void(Communicator&)>& body,
                                          const ThreadGroupOptions& options = {.timeout = Timeout(20000)}) {
  std::vector<std::string> texts(static_cast<size_t>(size));
  on_ranks(
      size,
      [&](Communicator& world) {
        try {
          body(world);
        } catch (const Error& error) {
          texts[static_cast<size_t>(world.rank())] = error.what();
        }
      },
      options);
  return texts;
}

}  // namespace longhaul::comm
