// One call of a communicator, as data: what back ends carry out, what wrappers (tracing, delay, faults) see, and what ranks have to agree on.
// Communicator's functions make and check it; nobody else needs to.
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

using longhaul::name_of;  // of dtypes: those below would hide it

using observe::CallKind, observe::Direction, observe::name_of, observe::label;

// In the order of ranks 0, 1, 2, …. Sums of bf16 and fp16 are taken in fp32 and rounded once; integers wrap around. Sums of bool and of
// 8-bit floats, and anything of complex numbers, are refused. The maximum of numbers and NaN is NaN: what went wrong on one rank is seen on all.
enum class Reduction : uint8_t { kSum, kMax };
std::string_view name_of(Reduction reduction);  // "sum"

using Timeout = std::chrono::milliseconds;
inline constexpr Timeout kNoTimeout = Timeout::max();

struct CallOptions {
  std::string name{};                // what it is for, "gradients of chunk 3"; the same on all ranks. Stands in errors and traces
  int priority = 0;                  // where a back end has calls waiting for each other, the highest goes first; ThreadGroup has none
  std::optional<Timeout> timeout{};  // until all ranks have started the call, from its start on this rank; else the group's
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
  int64_t sequence = 0;  // number of this call among the communicator's collective calls, or among its exchanges
  CallOptions options{};
  Reduction reduction = Reduction::kSum;
  int64_t root = 0;                        // broadcast
  Tensor input{}, output{};                // the same tensor in all_reduce and broadcast
  std::vector<int64_t> input_rows{};       // how dimension 0 of the input is cut by rank: reduce_scatter, all_to_all
  std::vector<int64_t> output_rows{};      // and of the output: all_gather, all_to_all
  std::vector<Transfer> transfers{};       // exchange
  std::vector<layout::GroupKind> kinds{};  // split
};

std::string label(const Call& call);         // "all_reduce 'loss' (call 5)"
std::string describe(const Call& call);      // "all_reduce 'loss' (sum, fp32 [3, 4])": what ranks have to agree on
std::string describe(const Tensor& tensor);  // "fp32 [3, 4]"

// Whether two ranks' calls of the same number belong together. The row counts of all_to_all differ by rank and are compared elsewhere.
bool agree(const Call& a, const Call& b);

// Whether the call makes sense by itself, on this rank of that many; an internal Error says what does not. `group` is named in it.
void check(const Call& call, int64_t rank, int64_t size, const std::string& group);
void check_on_cpu(const Call& call, int64_t rank, const std::string& group);  // for back ends that know no other device

bool overlap(const Tensor& a, const Tensor& b);                  // share bytes of memory
std::vector<Tensor> written_by(const Call& call, int64_t rank);  // the tensors that this rank's part of the call writes to

}  // namespace longhaul::comm
