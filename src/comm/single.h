// Single: the group of one rank, on any device. Its calls are done when they return; all they do is copy
// when input and output are not the same memory. A message to itself must be received in the exchange that
// sends it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class Single final : public Communicator {
 public:
  explicit Single(std::string name = "world");
  ~Single() override;
  void abort(const std::string& reason) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  struct Fate;  // the failure state, shared with the groups that are split off
  Single(std::string name, std::shared_ptr<Fate> fate);
  void refuse_after_abort(const Call& call) const;

  std::shared_ptr<Fate> fate_;
};

}  // namespace longhaul::comm
