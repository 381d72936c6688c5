#include "parallel/collectives.h"

#include <numeric>

#include "kernels/differentiable.h"

namespace longhaul::parallel {
namespace {

using comm::Communicator;
using comm::Reduction;
using kernels::BackwardCall;
using kernels::Recorded;
using Rows = std::vector<int64_t>;

int64_t total(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }

Tensor with_rows(const Tensor& like, int64_t rows) {
  std::vector<int64_t> sizes = like.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, like.options().requires_grad(false));
}

Tensor gathered(Communicator& group, const Tensor& own, const Rows& rows, const std::string& name) {
  const Tensor all = with_rows(own, total(rows));
  group.all_gather(own.contiguous().detach(), all, {.name = name}, rows).wait();
  return all;
}

Tensor summed_rows(Communicator& group, const Tensor& partial, const Rows& rows, const std::string& name) {
  const Tensor own = with_rows(partial, rows[static_cast<size_t>(group.rank())]);
  group.reduce_scatter(partial.contiguous().detach(), own, Reduction::kSum, {.name = name}, rows).wait();
  return own;
}

Tensor summed(Communicator& group, const Tensor& partial, const std::string& name) {
  const Tensor sum = partial.detach().clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum, Reduction::kSum, {.name = name}).wait();
  return sum;
}

Tensor exchanged(Communicator& group, const Tensor& x, const Rows& send, const Rows& receive, const std::string& name) {
  const Tensor result = with_rows(x, total(receive));
  group.all_to_all(x.contiguous().detach(), result, send, receive, {.name = name}).wait();
  return result;
}

std::string back(const char* name) { return std::string(name) + " (gradient)"; }

// One result of one input.
template <class Forward, class Backward>
Tensor recorded(const char* name, const Tensor& x, const Forward& forward, const Backward& backward) {
  return kernels::differentiable(name, {x}, [&]() -> Recorded {
    return {.results = {forward(x)},
            .backward = [backward](const BackwardCall& call) { return std::vector<Tensor>{backward(call.gradients[0])}; }};
  })[0];
}

}  // namespace

Tensor gather_rows(Communicator& group, const Tensor& own, const Rows& rows, const char* name) {
  return recorded(
      name, own, [&](const Tensor& x) { return gathered(group, x, rows, name); },
      [&group, rows, name = back(name)](const Tensor& dy) { return summed_rows(group, dy, rows, name); });
}

Tensor sum_scatter_rows(Communicator& group, const Tensor& partial, const Rows& rows, const char* name) {
  return recorded(
      name, partial, [&](const Tensor& x) { return summed_rows(group, x, rows, name); },
      [&group, rows, name = back(name)](const Tensor& dy) { return gathered(group, dy, rows, name); });
}

Tensor sum_everywhere(Communicator& group, const Tensor& partial, const char* name) {
  return recorded(
      name, partial, [&](const Tensor& x) { return summed(group, x, name); },
      [&group, name = back(name)](const Tensor& dy) { return summed(group, dy, name); });
}

Tensor exchange_rows(Communicator& group, const Tensor& x, const Rows& send, const Rows& receive, const char* name) {
  return recorded(
      name, x, [&](const Tensor& rows) { return exchanged(group, rows, send, receive, name); },
      [&group, send, receive, name = back(name)](const Tensor& dy) { return exchanged(group, dy, receive, send, name); });
}

}  // namespace longhaul::parallel
