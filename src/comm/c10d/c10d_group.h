// C10dGroup: a communicator over one of c10d's back ends: NCCL's, where it is compiled in (comm/c10d/nccl.h). Tests put Gloo's in its place, which computes
// the same on a CPU.
//
// A call is one of the back end's, an exchange one group of its sends and receives. Groups that are split off have back ends of their own, which meet at
// their own keys of the store: what a group costs there grows with its members, not with the world.
//
// Weaker than ThreadGroup and Gloo here, as c10d compares nothing: ranks that disagree, or do not come, end as a time that ran out, without names; sums
// are in the order of the back end, and sums of bf16 are rounded as it does. A group of one is Single.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace c10d {
class Backend;
}

namespace longhaul::comm {

class C10dGroup final : public Communicator {
 public:
  // A back end of `size` ranks, of which this is `rank`; `keys` begins what it writes into the store. Called in the order of splits, by all members.
  using Maker = std::function<std::shared_ptr<c10d::Backend>(const std::string& keys, int64_t rank, int64_t size)>;
  static std::unique_ptr<Communicator> make(Maker maker, int64_t rank, int64_t size, Timeout timeout, const std::string& name = "world");

  ~C10dGroup() override;
  void abort(const std::string& reason) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  struct Fate;  // of all groups of a world
  C10dGroup(std::shared_ptr<Fate> fate, std::string name, std::string keys, int64_t rank, int64_t size);

  std::shared_ptr<Fate> fate_;
  std::string keys_;
  int64_t splits_ = 0;
  std::shared_ptr<c10d::Backend> backend_;
};

}  // namespace longhaul::comm
