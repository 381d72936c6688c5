// TrainingWait: while one lives, the thread that trains waits for other ranks. Whoever moves bytes beside it (replicas of checkpoints) then keeps off the
// network and the cores that it waits for: training_waits(), base/threads/pace.h. One count a process.
//
//   const TrainingThread scope;                 // of the thread that trains, around all it does: calls of other threads are none of training's
//   const TrainingWait waiting;                 // of any thread; counts where it is one that trains (comm/wrappers/traced.h)
#pragma once

namespace longhaul {

class TrainingThread {
 public:
  explicit TrainingThread(bool trains = true);
  ~TrainingThread();
  TrainingThread(const TrainingThread&) = delete;
  TrainingThread& operator=(const TrainingThread&) = delete;
  static bool current();  // whether the calling thread is one

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

bool training_waits();  // any thread of this process that trains

}  // namespace longhaul
