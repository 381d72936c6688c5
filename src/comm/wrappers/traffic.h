// Traffic: the bytes of tensors that a call moves between this rank and others, for tables, bandwidth
// limits and proofs. They are counted for the simple algorithm: a rank that has rows sends them to each
// rank that needs them; in a sum each rank adds up its share and sends it to all, so 2 (n-1)/n of the bytes
// move. What a back end sends in addition to tensors (notices, retries), and messages of a rank to itself,
// are not counted.
#pragma once

#include <functional>

#include "comm/call.h"

namespace longhaul::comm {

using observe::Traffic;

Traffic traffic_of(const Call& call, int64_t rank, int64_t size);
// The part of it that goes to and comes from some of the other ranks of the group.
Traffic traffic_with(const Call& call, int64_t rank, int64_t size,
                     const std::function<bool(int64_t peer)>& counts);

}  // namespace longhaul::comm
