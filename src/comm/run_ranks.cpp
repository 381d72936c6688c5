#include "comm/run_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "base/worker.h"

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

std::exception_ptr run_one(std::unique_ptr<Communicator> communicator, const std::function<void(Communicator&)>& body,
                           int compute_threads) {
  set_threads(compute_threads);
  at::set_num_threads(compute_threads);  // for MKL, and because LibTorch would set its own number at this thread's first operator
  std::exception_ptr thrown;
  try {
    body(*communicator);
  } catch (...) {
    thrown = std::current_exception();
    communicator->abort(reason_of(thrown));
  }
  return thrown;  // the rank leaves here: who still needs it is told
}

}  // namespace

void run_ranks(int64_t size, const std::function<void(Communicator& world)>& body, const ThreadGroupOptions& options) {
  std::vector<std::unique_ptr<Communicator>> communicators = ThreadGroup::make(size, options);
  const int before = threads();
  const int share = std::max(1, static_cast<int>(before / size));
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(size));
  {
    std::vector<std::unique_ptr<Worker>> workers;
    for (int64_t rank = 0; rank < size; ++rank) workers.push_back(std::make_unique<Worker>(fmt::format("rank {}", rank)));
    for (size_t rank = 0; rank < workers.size(); ++rank) {
      workers[rank]->post([&, rank] { thrown[rank] = run_one(std::move(communicators[rank]), body, share); });
    }
    for (const auto& worker : workers) worker->wait();
  }
  set_threads(before);
  at::set_num_threads(before);  // LibTorch remembers one number for all threads that are yet to come
  const auto first = [&](auto counts) { return std::find_if(thrown.begin(), thrown.end(), counts); };
  auto found = first([](const std::exception_ptr& one) { return one && !is_consequence(one); });
  if (found == thrown.end()) found = first([](const std::exception_ptr& one) { return one != nullptr; });
  if (found != thrown.end()) std::rethrow_exception(*found);
}

}  // namespace longhaul::comm
