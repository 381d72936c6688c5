// Gloo: a communicator whose ranks are processes. It works over TCP or, on one machine, through shared
// memory (comm/gloo/wire.h). Tensors are on the CPU.
//
// Every collective call begins with a message of a fixed size from each rank to each other rank that
// describes the call. So disagreeing ranks, ranks that have left and ranks that do not come are detected
// before any byte of a tensor moves. An all_reduce of up to 1 KiB is carried inside that message. A larger
// sum takes one round: each rank gets its share of the elements from all ranks, adds them in the order of
// ranks, and sends the sums to all. The bits are therefore those of ThreadGroup, on every rank and in every
// run, and each rank moves 2 (n-1)/n of the bytes.
//
// A group carries out its calls in their order in a Worker of its own, `gloo calls`. Tensors of calls of
// priority −1, of −2, and of −3 and below each move in a further Worker with their own tags, so a more
// urgent call does not wait for them. All ranks must give a call the same priority. The messages of
// exchanges are carried out by one Worker for each peer and direction, `gloo messages`. Groups that are
// split off use the connections of the world: splitting needs no operation of the store.
//
// Two things are not detected: an exchange that finds no partner is reported on this rank only; a message
// sent to a member that has left its group, while its process lives on, ends in a timeout. Timeouts have a
// resolution of 20 ms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class GlooGroup;
class GlooWorld;

// The bytes of a sum that are in transfer at one time: bounds the additional memory.
inline constexpr int64_t kGlooRoundBytes = int64_t{32} << 20;

class Gloo final : public Communicator {
 public:
  static std::unique_ptr<Communicator> make(const std::shared_ptr<GlooWorld>& world, int64_t size,
                                            const std::string& name = "world");

  explicit Gloo(std::unique_ptr<GlooGroup> group);
  ~Gloo() override;  // waits for the calls that were started
  void abort(const std::string& reason) override;
  void require_well() override;
  Tell aborter() override;
  void on_failure(Tell tell) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  std::unique_ptr<GlooGroup> group_;
};

}  // namespace longhaul::comm
