// What ranks do together: the kinds of calls of a communicator (comm/call.h), as records, boards and pictures of them have it.
#pragma once

#include <cstdint>
#include <string_view>

namespace longhaul::observe {

enum class CallKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast, kExchange, kBarrier, kSplit };
inline constexpr int kCallKinds = 8;

constexpr std::string_view name_of(CallKind kind) {  // "all_reduce"
  constexpr std::string_view kNames[kCallKinds] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                                   "broadcast",  "exchange",       "barrier",    "split"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace longhaul::observe
