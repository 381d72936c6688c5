#include "run/shared_cores.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/checksum.h"
#include "base/machine/cores.h"
#include "base/machine/machine.h"
#include "base/memory/shared_memory.h"
#include "base/process/process.h"
#include "base/threads/parallel.h"

namespace longhaul::run {
namespace {

constexpr int64_t kCoreWords = 64;  // of 64 cores each
constexpr int64_t kWords = 6 + kCoreWords;
constexpr double kQuotaUnits = 1000;

Tensor words_of(const RankCores& rank) {
  const Tensor words = at::zeros({kWords}, at::kLong);
  int64_t* const all = words.mutable_data_ptr<int64_t>();
  all[0] = rank.machine;
  all[1] = rank.threads;
  all[2] = std::llround(rank.quota * kQuotaUnits);
  all[3] = rank.process;
  all[4] = rank.process_space;
  all[5] = rank.boot;
  for (const int core : rank.cores) {
    if (core < 64 * kCoreWords) all[6 + core / 64] |= static_cast<int64_t>(uint64_t{1} << core % 64);
  }
  return words;
}

RankCores rank_of(const Tensor& words) {
  const int64_t* const all = words.const_data_ptr<int64_t>();
  RankCores rank{.machine = all[0],
                 .threads = all[1],
                 .quota = static_cast<double>(all[2]) / kQuotaUnits,
                 .process = all[3],
                 .process_space = all[4],
                 .boot = all[5]};
  for (int core = 0; core < 64 * kCoreWords; ++core) {
    if ((static_cast<uint64_t>(all[6 + core / 64]) >> core % 64 & 1U) != 0) rank.cores.push_back(core);
  }
  return rank;
}

RankCores own_cores() {
  const double quota = core_quota();
  std::error_code none;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
  return {.machine = static_cast<int64_t>(shared_memory_id()),
          .threads = threads(),
          .quota = std::isfinite(quota) ? quota : 0,
          .cores = allowed_cores(),
          .process = process_id(),
          .process_space = static_cast<int64_t>(xxh3(space)),
          .boot = static_cast<int64_t>(xxh3(machine().boot))};
}

std::vector<RankCores> all_ranks(comm::Communicator& processes) {
  const RankCores own = own_cores();
  const Tensor all = at::empty({processes.size() * kWords}, at::kLong);
  processes.all_gather(words_of(own), all, {"cores of the ranks"}).wait();
  std::vector<RankCores> ranks;
  for (int64_t rank = 0; rank < processes.size(); ++rank)
    ranks.push_back(rank_of(all.narrow(0, rank * kWords, kWords)));
  return ranks;
}

// Rank 0's, on all.
MachineProfile of_first(comm::Communicator& processes) {
  MachineProfile profile;
  if (processes.rank() == 0) profile = measured_profile();
  double* const rates[] = {&profile.gemm_fp32, &profile.gemm_bf16, &profile.gemm_fp64,
                           &profile.memory_bytes_per_second, &profile.measured_at};
  const Tensor all = at::zeros({std::ssize(rates) + 2}, at::kDouble);
  double* const numbers = all.mutable_data_ptr<double>();
  for (size_t i = 0; i < std::size(rates); ++i) numbers[i] = *rates[i];
  numbers[std::size(rates)] = profile.busy ? 1 : 0;
  numbers[std::size(rates) + 1] = static_cast<double>(profile.measurements);
  processes.broadcast(all, 0, {.name = "measured peak", .timeout = std::chrono::hours(1)}).wait();
  for (size_t i = 0; i < std::size(rates); ++i) *rates[i] = numbers[i];
  profile.busy = numbers[std::size(rates)] != 0;
  profile.measurements = static_cast<int64_t>(numbers[std::size(rates) + 1]);
  return profile;
}

}  // namespace

double threads_at_once(std::span<const RankCores> ranks) {
  struct OfMachine {
    int64_t threads = 0;
    double quota = 0;
    std::set<int> cores;
  };
  std::map<int64_t, OfMachine> machines;
  for (const RankCores& rank : ranks) {
    OfMachine& machine = machines[rank.machine];
    machine.threads += rank.threads;
    machine.quota = std::max(machine.quota, rank.quota);
    machine.cores.insert(rank.cores.begin(), rank.cores.end());
  }
  double sum = 0;
  for (const auto& [number, machine] : machines) {
    const auto cores = static_cast<double>(machine.cores.size());
    sum += std::min({static_cast<double>(machine.threads), cores, machine.quota > 0 ? machine.quota : cores});
  }
  return sum;
}

std::optional<OtherPrograms::Run> run_on_first_machine(std::span<const RankCores> ranks) {
  std::vector<RankCores> here;
  for (const RankCores& rank : ranks) {
    if (rank.boot == ranks[0].boot) here.push_back(rank);
  }
  OtherPrograms::Run run;
  std::set<int> cores;
  std::set<int64_t> processes;  // ranks may be threads of one
  for (const RankCores& rank : here) {
    if (rank.process_space != here[0].process_space) return std::nullopt;
    processes.insert(rank.process);
    cores.insert(rank.cores.begin(), rank.cores.end());
  }
  run.processes.assign(processes.begin(), processes.end());
  run.cores.assign(cores.begin(), cores.end());
  run.wanted = threads_at_once(here);
  return run;
}

MeasuredPeak measured_peak(comm::Communicator* processes, at::Device device) {
  if (processes == nullptr) {
    MeasuredPeak alone{measured_profile(/*fresh=*/false, device)};
    const RankCores own = own_cores();
    if (device.is_cpu()) alone.here = run_on_first_machine({&own, 1});
    return alone;
  }
  if (!device.is_cpu())
    return {measured_profile(/*fresh=*/false, device), static_cast<double>(processes->size())};
  const std::vector<RankCores> ranks = all_ranks(*processes);
  const double own = threads_at_once({&ranks[0], 1});  // whose threads may outnumber its cores by themselves
  return {of_first(*processes), threads_at_once(ranks) / own, run_on_first_machine(ranks)};
}

}  // namespace longhaul::run
