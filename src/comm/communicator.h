// Communicator: the interface through which the ranks of a group exchange tensors. Each rank has one
// object. Back ends are ThreadGroup (ranks are threads), Gloo and NCCL (processes), Fake (simulated ranks)
// and Single (a group of one). Every call is asynchronous and returns a Work:
//
//   comm.all_reduce(loss, Reduction::kSum, {.name = "loss"}).wait();
//
//   Work work = comm.all_gather(shard, weights, {.name = "weights of chunk 2", .timeout = 30s});
//   …                                                       // computes with neither shard nor weights
//   work.wait();                                            // now weights holds the rows of all ranks
//
// All members issue the same sequence of collective calls (every call but exchange): the n-th call of one
// rank belongs to the n-th calls of the others, whenever they come. Tensors are contiguous; those of a
// collective call have one dtype and are on one device. A tensor that is written shares no memory with
// another tensor of the call, on any rank, except where the function says "in place", and none with a
// tensor of a call that is still in progress. Writing counts as an in-place change for autograd, which does
// not record it.
//
// Errors: an invalid call is refused where it is made (internal error), and the group stays usable.
// Disagreeing ranks (kind, name, dtype, shape, rows, root), a timeout, abort(), and a member that has left
// make the group fail: every rank that waits, and every later call, throws kCommunication with what was
// expected, what was found and on which rank. A call that all ranks had started before still finishes.
// After an error the contents of the tensors that the call writes are undefined. A back end that cannot
// detect a disagreement (NCCL) says so; there it ends in a timeout.
//
// Threads: the calls of one communicator come from one thread at a time; abort(), rank(), size(), name()
// from any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/call.h"
#include "comm/work.h"

namespace longhaul::comm {

// Thrown when a call failed because another rank gave up. The exception worth reporting is that rank's own.
class Aborted : public Error {
 public:
  using Error::Error;
};

class Communicator {
 public:
  // The rank leaves the group: members that wait for it, now or later, fail.
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }

  // values ← the reduction of the values of all ranks; bitwise the same on every rank and in every run.
  Work all_reduce(const Tensor& values, Reduction reduction, CallOptions options);

  // output ← this rank's rows of the reduction of the inputs of all ranks. input is [rows of all ranks, …]
  // on every rank; output [own rows, …]. `rows`: how many rows each rank gets, the same list on all ranks,
  // zeros allowed; empty: evenly. In place: output is this rank's rows of input.
  Work reduce_scatter(const Tensor& input, const Tensor& output, Reduction reduction, CallOptions options,
                      std::vector<int64_t> rows = {});

  // output [rows of all ranks, …] ← the inputs [own rows, …] in the order of ranks. `rows` as above. In
  // place: input is this rank's rows of output.
  Work all_gather(const Tensor& input, const Tensor& output, CallOptions options,
                  std::vector<int64_t> rows = {});

  // The first send_rows[0] rows of input go to rank 0, the next send_rows[1] to rank 1, …; output gets
  // receive_rows[0] rows of rank 0, …
  Work all_to_all(const Tensor& input, const Tensor& output, std::vector<int64_t> send_rows,
                  std::vector<int64_t> receive_rows, CallOptions options);

  // values ← values of rank `root`.
  Work broadcast(const Tensor& values, int64_t root, CallOptions options);

  // Sends and receives that start together; the exchange is done when all of them are. Between two ranks,
  // in one direction, the n-th message sent is the n-th received, whichever exchange it belongs to; dtype
  // and shape must be the same. Only the two ranks of a message take part: exchanges are not in the
  // sequence of collective calls. A send is done when it was received.
  Work exchange(std::vector<Transfer> transfers, CallOptions options);

  Work barrier(CallOptions options);  // done when all ranks have started it

  // Splits this group into groups, of several kinds at once (layout::Mesh::group_kinds()). Returns one
  // communicator for each kind: the group that has this rank, or null when no group of the kind has it.
  // Rank i of a group is the i-th of its list; its name is the kind and the group's number, "tp 3". A
  // collective call, finished when it returns; all ranks give the same kinds. A failure in one group makes
  // all of them fail.
  std::vector<std::unique_ptr<Communicator>> split(std::vector<layout::GroupKind> kinds,
                                                   CallOptions options = {.name = "split"});

  // Makes the group fail, and with it all groups that fail together with it: every rank that waits in one,
  // or calls it later, gets an Aborted with the reason. Only the first failure counts. Never blocks.
  virtual void abort(const std::string& reason) = 0;

  // Whether the calls of one rank are carried out one after the other, as NCCL does: an exchange whose
  // partner has not come holds up all calls that this rank starts after it on this communicator. A sender and
  // a receiver that must not wait for other messages use a communicator of their own then
  // (parallel/pipeline/message_ways.h).
  virtual bool in_order() const { return false; }

  // Throws the group's failure if this rank knows of one by now; never waits. For whoever has read values
  // that a GPU computed: a back end that is aborted lets the stream go on, and what it wrote is undefined.
  virtual void require_well() {}

  // These link two back ends over the same ranks (comm/c10d/by_device.h). A function that does as abort()
  // does and may outlive the communicator; and `tell`, which is called once, from any thread, when this rank
  // learns that the group has failed. By default neither does anything: ranks that are threads have one back
  // end.
  using Tell = std::function<void(const std::string& reason)>;
  virtual Tell aborter() {
    return [](const std::string&) {};
  }
  virtual void on_failure(Tell /*tell*/) {}

  // For back ends and wrappers: carries out a call that has been checked and numbered. A wrapper passes it
  // on to the communicator it wraps.
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
