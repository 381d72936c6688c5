// AskedStore: access to rank 0's store through a thread of its own. If rank 0 does not answer (it is
// stopped, its machine hangs, the network is cut), c10d waits without end, whatever timeout it was given,
// and blocks all other queries meanwhile. Therefore no thread that must make progress queries the store
// directly.
//
//   std::future<int64_t> answer = store.ask([](Wire& wire) { return wire.add("left", 0); });
//   if (answer.wait_for(patience) == std::future_status::ready) use(answer.get());      // throws what the
//                                                                                       store threw
//
// ask() may be called from any thread; queries are answered in order. A query may be answered after its
// caller has gone, so it must hold everything it needs by value.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "base/threads/worker.h"
#include "comm/gloo/wire.h"

namespace longhaul::comm {

// Abandons a worker whose task may never end: no thread waits for it, and its thread ends with the process.
void leave_behind(std::unique_ptr<Worker> worker);

class AskedStore {
 public:
  explicit AskedStore(std::shared_ptr<Wire> wire)
      : wire_(std::move(wire)), worker_(std::make_unique<Worker>("store")) {}
  // Waits until all queries are answered; if there is no answer for a second or two, the thread is
  // abandoned, and with it the wire.
  ~AskedStore();
  AskedStore(const AskedStore&) = delete;
  AskedStore& operator=(const AskedStore&) = delete;

  template <class Question>
  auto ask(Question question) -> std::future<decltype(question(std::declval<Wire&>()))> {
    using Answer = decltype(question(std::declval<Wire&>()));
    const auto task = std::make_shared<std::packaged_task<Answer()>>(
        [wire = wire_, question = std::move(question)] { return question(*wire); });
    worker_->post([task] { (*task)(); });
    return task->get_future();
  }

 private:
  std::shared_ptr<Wire> wire_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace longhaul::comm
