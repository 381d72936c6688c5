#include "parallel/context/ring_attention.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/attention/raw.h"
#include "kernels/differentiable.h"
#include "kernels/saved/recomputed.h"

namespace longhaul::parallel {
namespace {

using comm::Work;
using kernels::AttentionGradients;
using kernels::AttentionOutside;
using kernels::AttentionProblem;
using kernels::AttentionResult;
using kernels::BackwardCall;
using kernels::Recorded;
using kernels::Visibility;
using layout::Range;

// What the queries of a member may see of the keys of another one.
Visibility between(const Ring& ring, const RingMember& queries, const RingMember& keys) {
  return ring.stripes == 1 ? ring.visible : ring.visible.striped(ring.stripes, queries.rank, keys.rank);
}

// Of two runs of them: what the queries of the one see of the keys of the other; documents that see nothing
// are left out.
Visibility seen_between(const Visibility& visible, const Range& queries, const Range& keys) {
  Visibility pair = visible.pair({queries.begin, queries.end()}, {keys.begin, keys.end()});
  std::erase_if(pair.documents, [&](const auto& document) {
    return pair.seeing(document, {0, document.keys}).empty();
  });
  return pair;
}

bool sees(const Ring& ring, const RingMember& queries, const RingMember& keys) {
  const Visibility visible = between(ring, queries, keys);
  return std::ranges::any_of(queries.runs, [&](const Range& q) {
    return std::ranges::any_of(
        keys.runs, [&](const Range& k) { return !seen_between(visible, q, k).documents.empty(); });
  });
}

// Who is where. The keys of member m are at member m + c after c hops.
class Journey {
 public:
  explicit Journey(const Ring& ring) : ring_(ring) {
    for (int64_t m = 0; m < members(); ++m) {
      int64_t hops = members() - 1;
      while (hops > 0 && !sees(ring, at(m + hops), at(m))) --hops;
      hops_.push_back(hops);
    }
  }
  int64_t members() const { return static_cast<int64_t>(ring_.members.size()); }
  int64_t index(int64_t m) const { return (m % members() + members()) % members(); }
  const RingMember& at(int64_t m) const { return ring_.members[static_cast<size_t>(index(m))]; }
  const RingMember& own() const { return at(ring_.own); }
  const RingMember& visitor(int64_t hop) const { return at(ring_.own - hop); }
  int64_t next_rank() const { return at(ring_.own + 1).rank; }
  int64_t previous_rank() const { return at(ring_.own - 1).rank; }

  int64_t hops(int64_t m) const { return hops_[static_cast<size_t>(index(m))]; }  // of its keys, in all
  bool comes(int64_t hop) const { return hop < members() && hop <= hops(ring_.own - hop); }
  bool goes_on(int64_t hop) const { return comes(hop) && hop < hops(ring_.own - hop); }

 private:
  const Ring& ring_;
  std::vector<int64_t> hops_;
};

// The pairs of runs of own queries and visiting keys: f(rows of queries, rows of keys, what is seen).
template <class Function>
void for_each_pair(const Ring& ring, const RingMember& own, const RingMember& visitor, const Function& f) {
  const Visibility visible = between(ring, own, visitor);
  int64_t q_row = 0;
  for (const Range& q : own.runs) {
    int64_t k_row = 0;
    for (const Range& k : visitor.runs) {
      const Visibility pair = seen_between(visible, q, k);
      if (!pair.documents.empty()) f(Range{q_row, q.length}, Range{k_row, k.length}, pair);
      k_row += k.length;
    }
    q_row += q.length;
  }
}

Tensor rows_of(const Tensor& x, const Range& range) { return x.narrow(0, range.begin, range.length); }

Tensor empty_rows(const Tensor& like, int64_t rows, ScalarType type) {
  return at::empty({rows, like.size(1), like.size(2)}, like.options().dtype(type).requires_grad(false));
}

struct KeysAndValues {
  Tensor k, v;
};

KeysAndValues room_for(const KeysAndValues& like, const RingMember& visitor, ScalarType type) {
  return {empty_rows(like.k, visitor.tokens(), type), empty_rows(like.v, visitor.tokens(), type)};
}

// What goes to other members and what comes from them at one point of the way: one exchange, because over a
// back end that carries calls out in order (Communicator::in_order) two ranks that both send first would wait
// for each other.
class Hop {
 public:
  Hop(comm::Communicator& group, const char* name) : group_(group), name_(name) {}
  void send(int64_t to, const KeysAndValues& pair) {
    for (const Tensor& each : {pair.k, pair.v}) transfers_.push_back(comm::send_to(to, each));
  }
  void receive(int64_t from, const KeysAndValues& pair) {
    for (const Tensor& each : {pair.k, pair.v}) transfers_.push_back(comm::receive_from(from, each));
  }
  Work start() {
    return transfers_.empty() ? Work() : group_.exchange(std::move(transfers_), {.name = name_});
  }

 private:
  comm::Communicator& group_;
  const char* name_;
  std::vector<comm::Transfer> transfers_;
};

// Calls visit(hop, keys and values), this rank's own first, while the next are on their way; undefined where
// none come in that hop.
template <class Visit>
void go_round(const Ring& ring, const Journey& journey, const KeysAndValues& own, const char* name,
              const Visit& visit) {
  KeysAndValues here = own;
  for (int64_t hop = 0; hop < journey.members(); ++hop) {
    Hop moves(*ring.group, name);
    if (journey.goes_on(hop)) moves.send(journey.next_rank(), here);
    KeysAndValues next;
    if (journey.comes(hop + 1)) {
      next = room_for(own, journey.visitor(hop + 1), own.k.scalar_type());
      moves.receive(journey.previous_rank(), next);
    }
    Work moving = moves.start();
    visit(hop, here);
    moving.wait();
    here = next;
  }
}

// In the type of the values. A layer that is made again (kernels/saved/recomputed.h) finds the result:
// nothing goes round before its backward pass.
AttentionResult forward(const Ring& ring, const Tensor& q, const KeysAndValues& own, double scale) {
  if (kernels::runs_again()) {
    const std::vector<Tensor> kept = kernels::kept_by_first_run();
    return {kept.at(0), kept.at(1)};
  }
  const Journey journey(ring);
  const ScalarType wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto options = q.options().dtype(wide).requires_grad(false);
  const AttentionResult sum{
      at::zeros({q.size(0), q.size(1), own.v.size(2)}, options),
      at::full({q.size(0), q.size(1)}, -std::numeric_limits<double>::infinity(), options)};
  go_round(ring, journey, own, "keys and values of the ring", [&](int64_t hop, const KeysAndValues& here) {
    if (!journey.comes(hop)) return;
    for_each_pair(ring, journey.own(), journey.visitor(hop),
                  [&](const Range& of_q, const Range& of_k, const Visibility& pair) {
                    const AttentionProblem problem{rows_of(q, of_q), rows_of(here.k, of_k),
                                                   rows_of(here.v, of_k), pair, scale};
                    kernels::merge_attention({rows_of(sum.o_thd, of_q), rows_of(sum.logsumexp_th, of_q)},
                                             kernels::attention_forward(problem, /*wide=*/true));
                  });
  });
  const AttentionResult result{sum.o_thd.to(own.v.scalar_type()), sum.logsumexp_th};
  kernels::keep_for_second_run({result.o_thd, result.logsumexp_th});
  return result;
}

// The gradients of visiting keys and values follow them: what this rank adds is ready before those of the
// ranks before it have come. From the last rank that sees them they go home.
std::vector<Tensor> backward(const Ring& ring, const Tensor& q, const KeysAndValues& own,
                             const AttentionOutside& outside, double scale) {
  const Journey journey(ring);
  const ScalarType wide = outside.delta_th.scalar_type();
  const char* const name = "gradients of keys and values of the ring";
  const Tensor dq = at::zeros(q.sizes(), q.options().dtype(wide).requires_grad(false));
  const auto zeros = [&](const RingMember& member) {
    const KeysAndValues room = room_for(own, member, wide);
    return KeysAndValues{room.k.zero_(), room.v.zero_()};
  };
  KeysAndValues of_own = zeros(journey.own());  // where they do not travel
  Hop home(*ring.group, name);
  KeysAndValues before;  // what the ranks before this one have added
  Work arrival;          // of these, and of what this rank sent meanwhile
  go_round(ring, journey, own, "keys and values of the ring (backward)",
           [&](int64_t hop, const KeysAndValues& here) {
             Hop moves(*ring.group, name);
             if (journey.comes(hop)) {
               const KeysAndValues sum = zeros(journey.visitor(hop));
               for_each_pair(
                   ring, journey.own(), journey.visitor(hop),
                   [&](const Range& of_q, const Range& of_k, const Visibility& pair) {
                     kernels::attention_backward(
                         {rows_of(q, of_q), rows_of(here.k, of_k), rows_of(here.v, of_k), pair, scale},
                         {rows_of(outside.d_o_thd, of_q), rows_of(outside.logsumexp_th, of_q),
                          rows_of(outside.delta_th, of_q), rows_of(outside.o_thd, of_q)},
                         {rows_of(dq, of_q), rows_of(sum.k, of_k), rows_of(sum.v, of_k)});
                   });
               if (hop > 0) {
                 arrival.wait();
                 sum.k.add_(before.k);
                 sum.v.add_(before.v);
               }
               if (journey.goes_on(hop)) {
                 moves.send(journey.next_rank(), sum);
               } else if (hop == 0) {
                 of_own = sum;
               } else {
                 home.send(journey.visitor(hop).rank, sum);
               }
             }
             arrival.wait();
             before = {};
             if (journey.comes(hop + 1)) {
               before = room_for(own, journey.visitor(hop + 1), wide);
               moves.receive(journey.previous_rank(), before);
             }
             arrival = moves.start();
           });
  arrival.wait();
  if (const int64_t hops = journey.hops(ring.own); hops > 0)
    home.receive(journey.at(ring.own + hops).rank, of_own);
  home.start().wait();
  return {dq.to(q.scalar_type()), of_own.k.to(own.k.scalar_type()), of_own.v.to(own.v.scalar_type())};
}

}  // namespace

int64_t RingMember::tokens() const {
  int64_t tokens = 0;
  for (const Range& run : runs) tokens += run.length;
  return tokens;
}

Tensor ring_attention(const Ring& ring, const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  return kernels::differentiable("ring_attention", {q, k, v}, [&]() -> Recorded {
    const AttentionResult result =
        forward(ring, q, {k.detach().contiguous(), v.detach().contiguous()}, scale);
    return {.results = {result.o_thd, result.logsumexp_th},
            .saved = {q, k, v, result.o_thd, result.logsumexp_th},
            .backward =
                [ring, scale](const BackwardCall& call) {
                  const Tensor& d_o = call.gradients[0];
                  const AttentionOutside outside{d_o.contiguous(), call.saved[4],
                                                 kernels::attention_delta(call.saved[3], d_o, Tensor()),
                                                 call.saved[3]};
                  return backward(ring, call.saved[0],
                                  {call.saved[1].contiguous(), call.saved[2].contiguous()}, outside, scale);
                },
            .not_recorded = {1}};
  })[0];
}

}  // namespace longhaul::parallel
