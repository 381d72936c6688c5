// Fake: one rank of a world of any size without the others, for dry runs. It needs no memory for meta tensors, whose calls only have to make sense;
// of others it gives what came out if every rank had given what this one gives: sums are n times the values, gathered rows this rank's rows again
// and again. What a message brings stays as it was: nobody knows it.
//
// Around it stands a Traced: the logs of several such ranks, one after the other in one thread, are compared by compare_records (disagreement.h).
// Uneven rows: what another rank has more than this one, is zero.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class Fake final : public Communicator {
 public:
  Fake(int64_t rank, int64_t size, std::string name = "world") : Communicator(std::move(name), rank, size) {}
  void abort(const std::string&) override {}  // nobody is there to be told
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;
};

}  // namespace longhaul::comm
