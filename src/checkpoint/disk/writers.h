// Writers: the communication between the ranks that save one checkpoint together. Each operation either
// succeeds on all ranks or throws the same error on all of them: that of the lowest rank that failed, with
// its rank in the text. So no rank believes that something is saved which is not.
//
// A single process has no other rank to inform: it does the work, and exceptions pass through unchanged.
// Calls come from one thread, and all ranks make the same calls. The group must serve this purpose alone
// (Communicator::split), because these calls run at the same time as those of training.
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
  // null: one process
  explicit Writers(std::unique_ptr<comm::Communicator> group = nullptr) : group_(std::move(group)) {}

  int64_t rank() const { return group_ ? group_->rank() : 0; }
  int64_t size() const { return group_ ? group_->size() : 1; }

  comm::Communicator* group() const { return group_.get(); }  // null: one process

  // Runs `work` on every rank. Rank 0 gets the results of all ranks, in the order of ranks; the others get
  // nothing. `longer`: how much more than an hour the slowest rank may take.
  std::vector<nlohmann::json> each(const std::string& name, const std::function<nlohmann::json()>& work,
                                   comm::Timeout longer = {}) const;
  // Runs `work` on rank 0 and returns its result on all ranks.
  nlohmann::json first(const std::string& name, const std::function<nlohmann::json()>& work) const;
  // Runs `work` on every rank and returns the results of all ranks, in the order of ranks, on all.
  nlohmann::json all(const std::string& name, const std::function<nlohmann::json()>& work,
                     comm::Timeout longer = {}) const;

 private:
  // The texts of all ranks, on rank 0.
  std::vector<std::string> gather(const std::string& name, const std::string& text,
                                  comm::Timeout longer) const;
  // Rank 0's text, on all ranks.
  std::string tell(const std::string& name, const std::string& text, comm::Timeout longer = {}) const;

  std::unique_ptr<comm::Communicator> group_;
};

Error error_of(const std::exception& thrown);  // `thrown` itself if it is an Error

}  // namespace longhaul::checkpoint
