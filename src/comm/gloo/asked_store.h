// AskedStore: rank 0's store, asked by a thread of its own. c10d waits without end for the answer of a rank 0 that stands still (stopped, its machine
// hung, the way there cut), whatever time-out it was given, and lets nobody else ask meanwhile; so nobody who must go on asks it himself.
//
//   std::future<int64_t> answer = store.ask([](Wire& wire) { return wire.add("left", 0); });
//   if (answer.wait_for(patience) == std::future_status::ready) use(answer.get());      // throws what the store threw
//
// From any thread. Questions are put in order. One may be answered when whoever asked has gone: it holds what it needs by value.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "base/threads/worker.h"
#include "comm/gloo/wire.h"

namespace longhaul::comm {

// Of a worker whose task may never end: nobody waits for it, and its thread goes with the process.
void leave_behind(std::unique_ptr<Worker> worker);

class AskedStore {
 public:
  explicit AskedStore(std::shared_ptr<Wire> wire) : wire_(std::move(wire)), worker_(std::make_unique<Worker>("store")) {}
  ~AskedStore();  // when all is answered; where nobody answers for a second or two the thread, and with it the wire, is left behind
  AskedStore(const AskedStore&) = delete;
  AskedStore& operator=(const AskedStore&) = delete;

  template <class Question>
  auto ask(Question question) -> std::future<decltype(question(std::declval<Wire&>()))> {
    using Answer = decltype(question(std::declval<Wire&>()));
    const auto task =
        std::make_shared<std::packaged_task<Answer()>>([wire = wire_, question = std::move(question)] { return question(*wire); });
    worker_->post([task] { (*task)(); });
    return task->get_future();
  }

 private:
  std::shared_ptr<Wire> wire_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace longhaul::comm
