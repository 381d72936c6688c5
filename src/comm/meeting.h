// How ranks meet at a store before they are connected: each says who it is, rank 0 looks at all and gives its word, which the others read. A fixed
// number of operations a rank, and one of rank 0 that reads n values; so n ranks cost the store O(n).
//
//   announce(store, rank, size, identity);                   // never waits
//   if (const auto failure = verdict(store, rank, size, timeout)) …
//
// identity: JSON, a list of (name, hash) that must be the same on all ranks.
#pragma once

#include <optional>
#include <string>

#include "comm/call.h"
#include "comm/rendezvous.h"
#include "comm/store.h"

namespace longhaul::comm {

void announce(Store& store, int64_t rank, int64_t size, const std::string& identity);
std::optional<Failure> verdict(Store& store, int64_t rank, int64_t size, Timeout timeout);  // the same on all ranks

}  // namespace longhaul::comm
