// A back end of c10d that moves nothing between ranks and writes down what was asked of it: how each call was
// waited for, which calls came as one group, which times they were given. It stands for NCCL's where that
// computes the same: what matters of a wait on a GPU is that the host gives no time to wait for (LibTorch:
// ProcessGroupNCCL::WorkNCCL::wait).
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "comm/c10d/c10d_group.h"

namespace longhaul::comm {

class RecordingBackend {
 public:
  RecordingBackend();
  C10dGroup::Maker maker() const;  // all back ends that it makes write into this object

  // "all_reduce", "group begins", "send 1", …; with the time given to it where there is one
  std::vector<std::string> calls() const;
  std::vector<int64_t> waited_ms() const;  // the time of each wait; 0: none, the stream waits
  std::vector<std::string> ended() const;  // "abort world", "shutdown tp 0", by the keys of the back end
  std::future<void> aborted() const;       // of the first abort; call it once
  void find_error(int c10d_error_type);    // what getError() answers from now on
  void do_not_complete();                  // works that start from now on are not successful

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace longhaul::comm
