// Communicator: how the ranks of a group exchange tensors. One object a rank; back ends are ThreadGroup (ranks are threads), Gloo and
// NCCL (processes), Fake (pretended ones) and Single (a group of one). Every call is started and returns a Work:
//
//   comm.all_reduce(loss, Reduction::kSum, {.name = "loss"}).wait();
//
//   Work work = comm.all_gather(shard, weights, {.name = "weights of chunk 2", .timeout = 30s});
//   …                                                       // computes with neither shard nor weights
//   work.wait();                                            // now weights holds the rows of all ranks
//
// All members issue the same sequence of collective calls (all but exchange): the n-th of one rank belongs to the n-th of the others,
// whenever it comes. Tensors are contiguous; those of a collective call are of one dtype and on one device. A tensor that is written shares
// no memory with another tensor of the call, of any rank, except where it says "in place", and none with a tensor of a call that still goes
// on. Writing counts as an in-place change for autograd, which does not record it.
//
// Errors: a call that makes no sense by itself is refused where it is made (internal) and the group goes on. Ranks that disagree (kind,
// name, dtype, shape, rows, root), a time that ran out, abort() and a member that went away fail the group: every rank that waits, and
// every later call, throws kCommunication with what was expected, what was found and of whom. A call that all ranks had started before
// still ends well. After an error the contents of the tensors that the call writes are undefined. A back end that cannot see a disagreement
// (NCCL) says so; there it ends as a time that ran out.
//
// Threads: the calls of one communicator come from one thread at a time; abort(), rank(), size(), name() from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/call.h"
#include "comm/work.h"

namespace longhaul::comm {

// Thrown where a call failed because another rank gave up: what is worth reporting is that rank's own exception.
class Aborted : public Error {
 public:
  using Error::Error;
};

class Communicator {
 public:
  virtual ~Communicator() = default;  // the rank leaves: members that wait for it, then or later, fail
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

  // values ← values of all ranks put together; bitwise the same on every rank and in every run.
  Work all_reduce(const Tensor& values, Reduction reduction, CallOptions options);

  // output ← this rank's rows of the inputs of all ranks put together. input [rows of all ranks, …] everywhere; output [own rows, …].
  // `rows`: how many each rank gets, the same list on all ranks, zeros allowed; empty: evenly. In place: output is this rank's rows of input.
  Work reduce_scatter(const Tensor& input, const Tensor& output, Reduction reduction, CallOptions options, std::vector<int64_t> rows = {});

  // output [rows of all ranks, …] ← the inputs [own rows, …] in the order of ranks. `rows` as above. In place: input is this rank's rows of
  // output.
  Work all_gather(const Tensor& input, const Tensor& output, CallOptions options, std::vector<int64_t> rows = {});

  // The first send_rows[0] rows of input go to rank 0, the next send_rows[1] to rank 1, …; output gets receive_rows[0] rows of rank 0, …
  Work all_to_all(const Tensor& input, const Tensor& output, std::vector<int64_t> send_rows, std::vector<int64_t> receive_rows,
                  CallOptions options);

  // values ← values of rank `root`.
  Work broadcast(const Tensor& values, int64_t root, CallOptions options);

  // Sends and receives, started together, done when all of them are. Of two ranks' messages in one direction the n-th sent is the n-th
  // received, whichever exchange they stand in; dtype and shape must be the same. Nobody else takes part: exchanges are not in the sequence
  // of collective calls. A send is done when it was received.
  Work exchange(std::vector<Transfer> transfers, CallOptions options);

  Work barrier(CallOptions options);  // done when all ranks have started it

  // Groups within this one, of several kinds at once (layout::Mesh::group_kinds()): one communicator a kind, this rank's group of it, or
  // null where it stands in none. Rank i of a group is the i-th of its list; its name is the kind and the group's number, "tp 3". A
  // collective call, done when it returns; all ranks give the same kinds. Groups share their fate: a failure in one fails all.
  std::vector<std::unique_ptr<Communicator>> split(std::vector<layout::GroupKind> kinds, CallOptions options = {.name = "split"});

  // Whoever waits in this group or one that it shares its fate with, or calls it later, gets an Aborted with the reason. Only the first
  // failure counts. Never blocks.
  virtual void abort(const std::string& reason) = 0;

  // For back ends and wrappers: carries out a call that has been checked and numbered. A wrapper hands it on to the communicator it wraps.
  virtual Work start(Call call) = 0;
  virtual std::vector<std::unique_ptr<Communicator>> start_split(Call call) = 0;

 protected:
  Communicator(std::string name, int64_t rank, int64_t size);

 private:
  void prepare(Call& call);
  Work issue(Call call);

  std::string name_;
  int64_t rank_ = 0;
  int64_t size_ = 1;
  int64_t collectives_ = 0;
  int64_t exchanges_ = 0;
};

}  // namespace longhaul::comm
