// LeavableWorker: a Worker (base/threads/worker.h) whose tasks may hang in what does not answer: a device's
// driver, a disk, a file system of the network. Its end waits a little for them. After that the thread is
// left to itself, with what its tasks hold, until the process ends.
//
//   LeavableWorker worker("samples");
//   // state: a shared_ptr, for it may be needed longer than by its owner
//   worker.post([state] { state->loop(); });
//   … state is told to end …
//   if (!worker.end()) log_warning("… hangs and is left behind");
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace longhaul {

class LeavableWorker {
 public:
  explicit LeavableWorker(std::string name);
  ~LeavableWorker();  // as end()
  LeavableWorker(const LeavableWorker&) = delete;
  LeavableWorker& operator=(const LeavableWorker&) = delete;

  void post(std::function<void()> task);
  // Waits until its tasks have ended, so long at most; false: one of them hangs, and the thread is left
  // behind. Then nothing is posted any more.
  bool end(double patience_s = 2);

 private:
  struct Open;
  std::shared_ptr<Open> open_;
  std::unique_ptr<class Worker> worker_;
};

}  // namespace longhaul
