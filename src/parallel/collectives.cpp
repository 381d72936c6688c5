#include "parallel/collectives.h"

#include <numeric>
#include <utility>

#include "base/error.h"
#include "kernels/differentiable.h"
#include "kernels/saved/recomputed.h"

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

// A call that was started, and what it writes.
struct Started {
  Tensor values;
  comm::Work work;
  Tensor ended() {
    work.wait();
    return values;
  }
};
using Start = std::function<Started(const Tensor&)>;

Start gather(Communicator& group, const Rows& rows, const std::string& name) {
  return [&group, rows, name](const Tensor& own) {
    const Tensor all = with_rows(own, total(rows));
    return Started{all, group.all_gather(own.contiguous().detach(), all, {.name = name}, rows)};
  };
}

Start sum_rows(Communicator& group, const Rows& rows, const std::string& name) {
  return [&group, rows, name](const Tensor& partial) {
    const Tensor own = with_rows(partial, rows[static_cast<size_t>(group.rank())]);
    return Started{
        own, group.reduce_scatter(partial.contiguous().detach(), own, Reduction::kSum, {.name = name}, rows)};
  };
}

Start sum(Communicator& group, const std::string& name) {
  return [&group, name](const Tensor& partial) {
    const Tensor sum = partial.detach().clone(at::MemoryFormat::Contiguous);
    return Started{sum, group.all_reduce(sum, Reduction::kSum, {.name = name})};
  };
}

Start exchange(Communicator& group, const Rows& send, const Rows& receive, const std::string& name) {
  return [&group, send, receive, name](const Tensor& x) {
    const Tensor result = with_rows(x, total(receive));
    return Started{result, group.all_to_all(x.contiguous().detach(), result, send, receive, {.name = name})};
  };
}

std::string back(const char* name) { return std::string(name) + " (gradient)"; }

Tensor recorded(const char* name, const Tensor& x, const Start& start, const Start& conjugate) {
  return kernels::differentiable(name, {x}, [&]() -> Recorded {
    return {.results = {start(x).ended()}, .backward = [conjugate](const BackwardCall& call) {
              return std::vector<Tensor>{conjugate(call.gradients[0]).ended()};
            }};
  })[0];
}

}  // namespace

struct Halves {
  Started forward, backward;
  Start conjugate;
};

namespace {

Begun begin(const char* name, const Tensor& x, const Start& start, Start conjugate) {
  const auto halves = std::make_shared<Halves>();
  halves->conjugate = std::move(conjugate);
  const Tensor values = kernels::differentiable(name, {x}, [&]() -> Recorded {
    halves->forward = start(x);
    return {.results = {halves->forward.values}, .backward = [halves](const BackwardCall&) {
              return std::vector<Tensor>{std::exchange(halves->backward, {}).ended()};
            }};
  })[0];
  halves->forward.values = Tensor();  // a result that its own node held would never be given back
  return {values, halves};
}

}  // namespace

Begun in_turn(Begun begun, Turns* turns) {
  if (begun.halves == nullptr || turns == nullptr) return begun;
  begun.values = kernels::differentiable("turn", {begun.values}, [&]() -> Recorded {
    turns->pass();
    return {.results = {begun.values.view_as(begun.values)}, .backward = [turns](const BackwardCall& call) {
              turns->pass();
              return std::vector<Tensor>{call.gradients[0]};
            }};
  })[0];
  return begun;
}

Tensor last_in_turn(const Tensor& x, Turns* turns) {
  if (turns == nullptr) return x;
  return kernels::differentiable("last turn", {x}, [&]() -> Recorded {
    return {.results = {x.view_as(x)}, .backward = [turns](const BackwardCall& call) {
              turns->let_end();
              return std::vector<Tensor>{call.gradients[0]};
            }};
  })[0];
}

Tensor end(const Begun& begun, std::function<void()> meanwhile) {
  if (begun.halves == nullptr) {
    LONGHAUL_ASSERT(!meanwhile, "nothing goes on in the backward pass");
    return begun.values;
  }
  return kernels::differentiable("end of a collective", {begun.values}, [&]() -> Recorded {
    begun.halves->forward.work.wait();
    return {.results = {begun.values.view_as(begun.values)},
            .backward = [halves = begun.halves, meanwhile = std::move(meanwhile)](const BackwardCall& call) {
              halves->backward = halves->conjugate(call.gradients[0]);
              if (meanwhile) meanwhile();
              return std::vector<Tensor>{call.gradients[0]};  // for the shape: the other half has its own
            }};
  })[0];
}

Tensor gather_rows(Communicator& group, const Tensor& own, const Rows& rows, const char* name) {
  return recorded(name, own, gather(group, rows, name), sum_rows(group, rows, back(name)));
}

Tensor gather_rows_once(Communicator& group, const Tensor& own, const Rows& rows, const char* name) {
  const Start start = [&](const Tensor& x) {
    if (kernels::runs_again()) return Started{kernels::kept_by_first_run().at(0), {}};
    Started gathered = gather(group, rows, name)(x);
    kernels::keep_for_second_run({gathered.values});
    return gathered;
  };
  return recorded(name, own, start, sum_rows(group, rows, back(name)));
}

Tensor sum_scatter_rows(Communicator& group, const Tensor& partial, const Rows& rows, const char* name) {
  return recorded(name, partial, sum_rows(group, rows, name), gather(group, rows, back(name)));
}

Tensor sum_everywhere(Communicator& group, const Tensor& partial, const char* name) {
  return recorded(name, partial, sum(group, name), sum(group, back(name)));
}

Tensor exchange_rows(Communicator& group, const Tensor& x, const Rows& send, const Rows& receive,
                     const char* name) {
  return recorded(name, x, exchange(group, send, receive, name), exchange(group, receive, send, back(name)));
}

Begun begin_gather_rows(Communicator& group, const Tensor& own, const Rows& rows, const char* name) {
  return begin(name, own, gather(group, rows, name), sum_rows(group, rows, back(name)));
}

Begun begin_sum_scatter_rows(Communicator& group, const Tensor& partial, const Rows& rows, const char* name) {
  return begin(name, partial, sum_rows(group, rows, name), gather(group, rows, back(name)));
}

Begun begin_exchange_rows(Communicator& group, const Tensor& x, const Rows& send, const Rows& receive,
                          const char* name) {
  return begin(name, x, exchange(group, send, receive, name), exchange(group, receive, send, back(name)));
}

}  // namespace longhaul::parallel
