// Writers: what the ranks that save one checkpoint together tell each other. Each step of it either worked on all of them, or throws the
// same error on all: the first that a rank had, in the order of ranks, with the rank in it. So no rank takes for saved what is not.
//
// One process has nobody to tell: what it does is done, and what it throws is thrown as it is. Calls come from one thread, and all ranks make
// the same ones; the group is of this use alone (Communicator::split), because they come beside those of training.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::checkpoint {

class Writers {
 public:
  explicit Writers(std::unique_ptr<comm::Communicator> group = nullptr) : group_(std::move(group)) {}  // null: one process

  int64_t rank() const { return group_ ? group_->rank() : 0; }
  int64_t size() const { return group_ ? group_->size() : 1; }

  comm::Communicator* group() const { return group_.get(); }  // null: one process

  // `work` is done on every rank. What all of them returned, in their order, on rank 0; on the others nothing. `longer`: how much more
  // than an hour the slowest may take.
  std::vector<nlohmann::json> each(const std::string& name, const std::function<nlohmann::json()>& work, comm::Timeout longer = {}) const;
  // `work` is done on rank 0. What it returned, on all.
  nlohmann::json first(const std::string& name, const std::function<nlohmann::json()>& work) const;
  // `work` is done on every rank. What all of them returned, in their order, on all.
  nlohmann::json all(const std::string& name, const std::function<nlohmann::json()>& work, comm::Timeout longer = {}) const;

 private:
  // On rank 0, from all.
  std::vector<std::string> gather(const std::string& name, const std::string& text, comm::Timeout longer) const;
  // Rank 0's text, on all.
  std::string tell(const std::string& name, const std::string& text, comm::Timeout longer = {}) const;

  std::unique_ptr<comm::Communicator> group_;
};

Error error_of(const std::exception& thrown);  // itself where it is one

}  // namespace longhaul::checkpoint
