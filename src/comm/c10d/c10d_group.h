// C10dGroup: a communicator over one of c10d's back ends: NCCL's, where it is compiled in
// (comm/c10d/nccl.h). Tests use Gloo's back end in its place, which computes the same on a CPU.
//
// A collective call is one call of the back end; an exchange is one group of its sends and receives. Groups
// that are split off have back ends of their own, whose members meet at their own keys of the store, so the
// cost of creating a group grows with its members and not with the world.
//
// wait() makes the current stream wait, and not the host: no call of the back end is given a time to wait
// for. A call that does not end in time, or a lost connection, is found by the back end itself, which `Maker`
// gives its time; this world looks at it ten times a second and when require_well() asks, lets all groups go,
// and tells whoever has asked (on_failure). The calls of one group are carried out in order (in_order()).
//
// The guarantees are weaker than those of ThreadGroup and Gloo here, because c10d compares nothing: if
// ranks disagree or do not come, the call ends with a timeout that names no rank. Sums are in the order of
// the back end, and sums of bf16 are rounded as the back end does. A group of one rank is Single.
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
  // Makes a back end of `size` ranks, of which this process is `rank`; `keys` is the prefix of what it
  // writes into the store. All members call it, in the order of splits.
  using Maker =
      std::function<std::shared_ptr<c10d::Backend>(const std::string& keys, int64_t rank, int64_t size)>;
  static std::unique_ptr<Communicator> make(Maker maker, int64_t rank, int64_t size, Timeout timeout,
                                            const std::string& name = "world");

  ~C10dGroup() override;
  void abort(const std::string& reason) override;
  bool in_order() const override { return true; }
  void require_well() override;
  Tell aborter() override;
  void on_failure(Tell tell) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  struct Fate;  // shared by all groups of a world
  C10dGroup(std::shared_ptr<Fate> fate, std::string name, std::string keys, int64_t rank, int64_t size);

  std::shared_ptr<Fate> fate_;
  std::string keys_;
  int64_t splits_ = 0;
  std::shared_ptr<c10d::Backend> backend_;
};

}  // namespace longhaul::comm
