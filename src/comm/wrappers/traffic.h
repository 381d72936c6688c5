// Traffic: the bytes of tensors that a call moves between this rank and others, for tables, limits of bandwidth and proofs. Counted for the
// plain way: who has rows sends them to each rank that wants them; a sum is each rank's share of it added up, then given to all, so 2 (n-1)/n of the
// bytes. What a back end says beside tensors (notices, retries) and messages to oneself are not counted.
#pragma once

#include "comm/call.h"

namespace longhaul::comm {

using observe::Traffic;

Traffic traffic_of(const Call& call, int64_t rank, int64_t size);

}  // namespace longhaul::comm
