// Fake: simulates one rank of a world of any size without the others, for dry runs. Meta tensors need no
// memory; their calls are only checked for validity. For real tensors the result is what it would be if
// every rank had the same input as this one: sums are n times the values, gathered rows are this rank's
// rows repeated. A receive leaves its tensor unchanged, because the message is unknown. With uneven rows,
// the rows that another rank has in addition to this one's are zero.
//
// A Traced is usually wrapped around it: the logs of several such ranks, run one after the other in one
// thread, are compared by compare_records (disagreement.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class Fake final : public Communicator {
 public:
  Fake(int64_t rank, int64_t size, std::string name = "world") : Communicator(std::move(name), rank, size) {}
  void abort(const std::string&) override {}  // there is no other rank to inform
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;
};

}  // namespace longhaul::comm
