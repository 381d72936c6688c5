#include "base/threads/parallel.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/machine/cores.h"

namespace longhaul {
namespace {

// Runs each piece once, in a thread of its own as far as there are threads; `piece` handles exceptions.
#ifdef __SANITIZE_THREAD__
// GNU OpenMP's barriers are invisible to ThreadSanitizer: under it the team consists of plain threads, which
// it follows.
thread_local bool plain_team = false;

bool in_team() { return plain_team; }

template <typename Piece>
void run_pieces(int64_t pieces, const Piece& piece) {
  std::vector<std::thread> team;
  for (int64_t i = 0; i < pieces; ++i) {
    team.emplace_back([&piece, i] {
      plain_team = true;
      piece(i);
    });
  }
  for (std::thread& thread : team) thread.join();
}
#else
bool in_team() { return omp_in_parallel() != 0; }

template <typename Piece>
void run_pieces(int64_t pieces, const Piece& piece) {
  // The whole team starts, even for fewer pieces: a smaller team would make OpenMP end threads and start them
  // again.
#pragma omp parallel for schedule(static, 1)
  for (int64_t i = 0; i < pieces; ++i) piece(i);
}
#endif

thread_local int64_t opened_regions = 0;

}  // namespace

int threads() { return in_team() ? 1 : omp_get_max_threads(); }

void set_threads(int count) {
  LONGHAUL_ASSERT(count >= 0, "count {}", count);
  omp_set_num_threads(count == 0 ? usable_cores() : count);
}

int usable_cores() {
  // Rounded down: a static split over more threads than the quota carries waits for the one that was
  // throttled.
  const double cores = std::min<double>(static_cast<double>(allowed_cores().size()), core_quota());
  return std::max(1, static_cast<int>(cores));
}

void let_waiting_threads_sleep(char** arguments) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  std::error_code unknown;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || ::setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  ::execv(program.c_str(), arguments);
}

void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& body) {
  LONGHAUL_ASSERT(grain >= 1, "grain {}", grain);
  if (begin >= end) return;
  const int64_t count = end - begin;
  const int64_t pieces = std::clamp<int64_t>(count / grain, 1, threads());
  if (pieces == 1) return body(begin, end);

  ++opened_regions;
  std::exception_ptr error;
  std::mutex error_mutex;
  // the first `longer` pieces have one element more
  const int64_t share = count / pieces, longer = count % pieces;
  run_pieces(pieces, [&](int64_t piece) {
    const int64_t from = begin + piece * share + std::min(piece, longer);
    try {
      body(from, from + share + (piece < longer ? 1 : 0));
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

int64_t parallel_regions() { return opened_regions; }

}  // namespace longhaul
