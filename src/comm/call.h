// One call of a communicator, as data: back ends carry it out, wrappers (tracing, delay, faults) inspect
// it, and ranks compare it to check that they agree. The functions of Communicator make and check it; no
// other code needs to.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/mesh.h"
#include "observe/board/call_records.h"
#include "tensor/tensor.h"

namespace longhaul::comm {

using longhaul::name_of;  // for dtypes; the overloads below would hide it

using observe::CallKind, observe::Direction, observe::name_of, observe::label;

// Values are combined in the order of ranks 0, 1, 2, …. Sums of bf16 and fp16 are taken in fp32 and rounded
// once; integers wrap around. Sums of bool and of 8-bit floats, and any reduction of complex numbers, are
// refused. The maximum of numbers and NaN is NaN, so that an error on one rank is seen on all.
enum class Reduction : uint8_t { kSum, kMax };
std::string_view name_of(Reduction reduction);  // "sum"

using Timeout = std::chrono::milliseconds;
inline constexpr Timeout kNoTimeout = Timeout::max();

struct CallOptions {
  // The purpose, as "gradients of chunk 3"; the same on all ranks. Errors and traces show it.
  std::string name{};
  // When calls wait for each other in a back end, the highest priority goes first; ThreadGroup ignores it.
  int priority = 0;
  // For all ranks to start the call, counted from its start on this rank; none: the group's timeout.
  std::optional<Timeout> timeout{};
};

struct Transfer {
  Direction direction = Direction::kSend;
  int64_t peer = 0;
  Tensor tensor;
};
Transfer send_to(int64_t peer, const Tensor& tensor);
Transfer receive_from(int64_t peer, const Tensor& tensor);

struct Call {
  CallKind kind = CallKind::kBarrier;
  // number of this call among the communicator's collective calls, or among its exchanges
  int64_t sequence = 0;
  CallOptions options{};
  Reduction reduction = Reduction::kSum;
  int64_t root = 0;          // broadcast
  Tensor input{}, output{};  // the same tensor in all_reduce and broadcast
  // how dimension 0 of the input is cut by rank: reduce_scatter, all_to_all
  std::vector<int64_t> input_rows{};
  std::vector<int64_t> output_rows{};      // and of the output: all_gather, all_to_all
  std::vector<Transfer> transfers{};       // exchange
  std::vector<layout::GroupKind> kinds{};  // split
};

std::string label(const Call& call);  // "all_reduce 'loss' (call 5)"
// "all_reduce 'loss' (sum, fp32 [3, 4])": what ranks have to agree on
std::string describe(const Call& call);
std::string describe(const Tensor& tensor);  // "fp32 [3, 4]"

// Whether calls of two ranks with the same number belong together. The row counts of all_to_all differ by
// rank and are compared elsewhere.
bool agree(const Call& a, const Call& b);

// Checks that the call is valid by itself, on this rank of a group of `size`; an internal Error says what
// is wrong and names `group`.
void check(const Call& call, int64_t rank, int64_t size, const std::string& group);
// For back ends that support no other device.
void check_on_cpu(const Call& call, int64_t rank, const std::string& group);

bool overlap(const Tensor& a, const Tensor& b);  // whether they share bytes of memory
// the tensors that this rank's part of the call writes to
std::vector<Tensor> written_by(const Call& call, int64_t rank);

}  // namespace longhaul::comm
