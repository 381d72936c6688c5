// StageSums: gradients of tensors that several ranks of a pipeline hold (both ends of a tied embedding, all
// layers of DualPipe): each rank adds up the gradients of all of them, in the order of ranks, so that the
// sums have the same bits everywhere. The tensors of a layer travel together, and large ones in parts, so
// that messages have a useful size and only a few buffers lie beside the gradients; two messages are under
// way at a time.
//
//   StageSums sums(pipeline, parameters);     // at the beginning of a step
//   sums.complete(arena); sums.advance();     // as the gradients of this rank become final
//   sums.finish();                            // those of all are
//
// Later layers come first, on all ranks, in whatever order gradients become final: the message of a layer
// waits until those of later layers were sent. Between complete() and finish() the communicator must serve
// nothing else, because what the other ranks call at the same time depends on their own progress. One thread
// at a time.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "model/parameter.h"

namespace longhaul::parallel {

inline constexpr int64_t kStageMessageBytes = int64_t{16} << 20;

class StageSums {
 public:
  // Of every parameter that other ranks of the pipeline hold too. These ranks hold shares of one size.
  StageSums(comm::Communicator& pipeline, const model::ParameterSet& parameters,
            int64_t message_bytes = kStageMessageBytes);

  // own_grad of its parameters has everything that this rank adds to it.
  void complete(const model::Arena& arena);
  // Starts and finishes what it can without waiting for another rank.
  void advance();
  // Completes all arenas and waits for the sums, which are in own_grad then.
  void finish();

 private:
  using Runs = std::vector<Tensor>;  // of a message, one behind the other
  struct Layer {
    std::vector<int64_t> ranks;
    // by name, since ranks may hold the same tensors in another order
    std::map<std::string, const model::Parameter*> parameters{};
    std::set<const model::Arena*> awaited{};
  };
  struct UnderWay {
    Runs runs;
    std::vector<Tensor> of_ranks;  // the message of each rank, in their order
    comm::Work work;
  };
  bool start_next();
  void add_up_first();
  std::vector<Runs> messages_of(const Layer& layer) const;
  UnderWay started(const std::vector<int64_t>& ranks, Runs runs) const;

  comm::Communicator* pipeline_;
  int64_t message_bytes_;
  std::deque<Layer> layers_;   // whose messages have not all been started, in the order of all ranks
  std::deque<Runs> messages_;  // those of the first layer that are left
  std::deque<UnderWay> under_way_;
};

}  // namespace longhaul::parallel
