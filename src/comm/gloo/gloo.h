// Gloo: a communicator whose ranks are processes, over TCP or, on one machine, memory that they share (comm/gloo/wire.h). Tensors are on the CPU.
//
// Every collective call begins with a message of a fixed size from each rank to each other, which says what it is: who disagrees, who has
// left and who does not come is seen before a byte of a tensor moves. An all_reduce of up to 1 KiB rides in that message. Larger sums go
// once around: each rank gets its share of the elements of all, adds them in the order of ranks, and gives the sums to all. So the bits are
// those of ThreadGroup, on every rank and in every run; and each rank moves 2 (n-1)/n of the bytes.
//
// The ranks of a group meet in the order of its calls, which a Worker of its own carries out, `gloo calls`. Tensors of calls of priority −1, −2, and −3 and
// below move in a Worker each beside it, with tags of their own: what is more urgent does not wait for them. All ranks give a call the same priority.
// Messages of an exchange are carried out by one for each peer and direction, `gloo messages`. Groups that are split off use the connections of the
// world: splitting costs no operation of the store.
//
// Not seen: of an exchange that finds no partner only this rank's side is told; a message sent to a member that has left its group, while
// its process lives on, ends as a time that ran out. Times run in steps of 20 ms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace longhaul::comm {

class GlooGroup;
class GlooWorld;

inline constexpr int64_t kGlooRoundBytes = int64_t{32} << 20;  // of a sum that are under way at once: bounds the memory beside it

class Gloo final : public Communicator {
 public:
  static std::unique_ptr<Communicator> make(const std::shared_ptr<GlooWorld>& world, int64_t size, const std::string& name = "world");

  explicit Gloo(std::unique_ptr<GlooGroup> group);
  ~Gloo() override;  // waits for calls that were started
  void abort(const std::string& reason) override;
  Work start(Call call) override;
  std::vector<std::unique_ptr<Communicator>> start_split(Call call) override;

 private:
  std::unique_ptr<GlooGroup> group_;
};

}  // namespace longhaul::comm
