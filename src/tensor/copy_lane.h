// CopyLane: copies between two tiers of memory, in the order in which they were asked for, while the device
// computes. On a GPU a lane is a stream of its own, and events order its copies behind what was queued before
// them and before what waits for them. On the CPU, whose second tier is memory too, it is a thread with
// memcpy, slowed to a stated rate where a link is to be imitated. One source serves both.
//
//   const auto copy = lane.start(host, activations);   // after everything that this thread has queued
//   copy->before_next();                               // what is queued from now on finds it done
//
// Both tensors stay until the copy is done: memory that is freed while a copy reads it is given to the next
// tensor. For one thread at a time.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/threads/worker.h"
#include "tensor/tensor.h"

namespace longhaul {

class Copy {
 public:
  explicit Copy(at::Device device);
  void before_next();  // the current stream waits for it; on the CPU the caller does
  void finish();       // the caller waits for it
  bool done() const;
  double seconds();              // it took; waits for it
  std::exception_ptr failure();  // of work that has thrown (CopyLane::start); waits for it

 private:
  friend class CopyLane;
  struct Landing;  // on the CPU
  std::shared_ptr<Landing> landing_;
  std::optional<c10::Event> begun_, ended_;  // on a GPU
};

class CopyLane {
 public:
  // `name`: of the thread. bytes_per_second: on the CPU; 0: as fast as it goes.
  CopyLane(std::string name, at::Device device, double bytes_per_second = 0);
  ~CopyLane();  // when all copies are done
  // Contiguous tensors of as many bytes. after: another lane's copy that must be done before; null: none.
  std::shared_ptr<Copy> start(const Tensor& to, const Tensor& from, std::shared_ptr<Copy> after = nullptr);
  // In a lane of the CPU: work of its thread that moves so many bytes; what it holds goes before anyone is
  // told.
  std::shared_ptr<Copy> start(std::function<void()> work, int64_t bytes,
                              std::shared_ptr<Copy> after = nullptr);

  void let_go();  // forgets the tensors of copies that are done

 private:
  struct Held {
    std::shared_ptr<Copy> copy;
    Tensor to, from;
  };
  at::Device device_;
  std::optional<c10::Stream> stream_;  // on a GPU
  std::deque<Held> held_;              // likewise
  std::unique_ptr<Worker> worker_;     // on the CPU
  struct Link;
  std::shared_ptr<Link> link_;  // likewise
};

}  // namespace longhaul
