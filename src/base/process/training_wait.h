// TrainingWait: while an object lives, the training thread waits for other ranks. Background threads that
// move bytes (replicas of checkpoints) then leave the network and the cores to it: training_waits(),
// base/threads/pace.h. The count is process-wide.
//
//   // around all work of the training thread: calls of other threads do not count
//   const TrainingThread scope;
//   const TrainingWait waiting;  // in any thread; counts only in a training thread (comm/wrappers/traced.h)
#pragma once

namespace longhaul {

class TrainingThread {
 public:
  explicit TrainingThread(bool trains = true);
  ~TrainingThread();
  TrainingThread(const TrainingThread&) = delete;
  TrainingThread& operator=(const TrainingThread&) = delete;
  static bool current();  // true: the calling thread is a training thread

 private:
  bool before_;
};

class TrainingWait {
 public:
  TrainingWait();
  ~TrainingWait();
  TrainingWait(const TrainingWait&) = delete;
  TrainingWait& operator=(const TrainingWait&) = delete;

 private:
  bool counts_;
};

bool training_waits();  // true: some training thread of this process waits

}  // namespace longhaul
