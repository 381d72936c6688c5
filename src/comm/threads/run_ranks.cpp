#include "comm/threads/run_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "base/threads/parallel.h"
#include "base/threads/worker.h"

namespace longhaul::comm {
namespace {

std::string reason_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

bool is_consequence(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Aborted&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::exception_ptr run_one(std::unique_ptr<Communicator> communicator,
                           const std::function<void(Communicator&)>& body, int compute_threads) {
  set_threads(compute_threads);
  // for MKL, and because LibTorch would set its own number at this thread's first operator
  at::set_num_threads(compute_threads);
  std::exception_ptr thrown;
  try {
    body(*communicator);
  } catch (...) {
    thrown = std::current_exception();
    communicator->abort(reason_of(thrown));
  }
  return thrown;  // the rank leaves here: who still needs it is told
}

// How the ranks have ended, as they do.
class Endings {
 public:
  explicit Endings(int64_t size) : ended_(static_cast<size_t>(size)), thrown_(static_cast<size_t>(size)) {}

  void ended(size_t rank, std::exception_ptr thrown) {
    const std::lock_guard lock(mutex_);
    ended_[rank] = true;
    thrown_[rank] = std::move(thrown);
    changed_.notify_all();
  }

  void wait_for_all(const StuckRanks& stuck) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return missing().empty() || failure() != nullptr; });
    const auto all = [&] { return missing().empty(); };
    if (stuck.end != nullptr && !changed_.wait_for(lock, stuck.patience, all)) {
      const std::vector<int64_t> ranks = missing();
      const std::exception_ptr why = failure();
      lock.unlock();
      stuck.end(ranks, why);
      lock.lock();
    }
    changed_.wait(lock, all);
  }

  // The first rank's that has one of its own; null: all went well.
  std::exception_ptr failure() const {
    const auto first = [&](auto counts) { return std::find_if(thrown_.begin(), thrown_.end(), counts); };
    auto found = first([](const std::exception_ptr& one) { return one && !is_consequence(one); });
    if (found == thrown_.end()) found = first([](const std::exception_ptr& one) { return one != nullptr; });
    return found == thrown_.end() ? nullptr : *found;
  }

 private:
  std::vector<int64_t> missing() const {
    std::vector<int64_t> ranks;
    for (size_t rank = 0; rank < ended_.size(); ++rank) {
      if (!ended_[rank]) ranks.push_back(static_cast<int64_t>(rank));
    }
    return ranks;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> ended_;
  std::vector<std::exception_ptr> thrown_;
};

}  // namespace

void run_ranks(int64_t size, const std::function<void(Communicator& world)>& body,
               const ThreadGroupOptions& options, const StuckRanks& stuck) {
  std::vector<std::unique_ptr<Communicator>> communicators = ThreadGroup::make(size, options);
  const int before = threads();
  const int share = std::max(1, static_cast<int>(before / size));
  Endings endings(size);
  {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int64_t rank = 0; rank < size; ++rank)
      workers.push_back(std::make_unique<Worker>(fmt::format("rank {}", rank)));
    for (size_t rank = 0; rank < workers.size(); ++rank) {
      workers[rank]->post(
          [&, rank] { endings.ended(rank, run_one(std::move(communicators[rank]), body, share)); });
    }
    endings.wait_for_all(stuck);
    for (const auto& worker : workers) worker->wait();
  }
  set_threads(before);
  at::set_num_threads(before);  // LibTorch remembers one number for all threads that are yet to come
  if (const std::exception_ptr failure = endings.failure()) std::rethrow_exception(failure);
}

}  // namespace longhaul::comm
