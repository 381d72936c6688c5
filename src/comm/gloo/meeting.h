// How ranks meet at a store. Before they are connected, each rank announces itself; rank 0 checks all
// announcements and publishes a verdict, which the others read. Information that each of several ranks
// needs from each other also goes through one of them. So a rank does a fixed number of operations, and
// only a few ranks do one that reads as many values as there are members: n ranks cost the store O(n) in
// all.
//
//   announce(store, rank, size, identities);                 // never waits
//   if (const auto failure = verdict(store, rank, size, timeout)) …
//
//   say(store, "addresses", place, own);                     // never waits
//   if (place == 0) collect(store, "addresses", count);      // waits for all
//   for (const std::string& theirs : hear(store, "addresses")) …   // by place; waits for place 0.
//   tell_each_other does these three steps.
//
// A request to stop (base/process/signals.h) that comes while ranks are missing ends the meeting for all,
// with code 75 and the names of the missing ranks. The first rank of each distinct identity publishes its
// parts: one value for all ranks when all are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/gloo/identity.h"
#include "comm/gloo/store.h"
#include "comm/threads/rendezvous.h"

namespace longhaul::comm {

void announce(Store& store, int64_t rank, int64_t size, const std::vector<Identity>& identities);
// the same on all ranks
std::optional<Failure> verdict(Store& store, int64_t rank, int64_t size, Timeout timeout);
Failure stopped_while_joining(const std::string& expected, const std::string& found);
// "signal 15 at rank 2", for the stop request that this process received.
std::string stop_request_of(int64_t rank);

void say(Store& store, const std::string& topic, int64_t place, const std::string& text);  // any bytes
void collect(Store& store, const std::string& topic, int64_t count);
std::vector<std::string> hear(Store& store, const std::string& topic);
std::vector<std::string> tell_each_other(Store& store, const std::string& topic, int64_t place, int64_t count,
                                         const std::string& text);

// The information that ranks send each other while they connect, in this order (Wire::connect): all ranks
// send where their connections are; the ranks of a machine, which count each other before and after that,
// send where their shared memory is, and which memory they reach.
enum class Told : uint8_t { kConnections, kMemory, kReached };
inline constexpr Told kToldInOrder[] = {Told::kConnections, Told::kMemory, Told::kReached};
constexpr bool of_a_machine(Told what) { return what != Told::kConnections; }
std::string topic_of(Told what, const std::string& machine);

// Counts the ranks of one machine. come_to_machine returns this rank's number, in the order of arrival;
// ranks_of_machine returns how many there are, once all have come.
int64_t come_to_machine(Store& store, const std::string& machine);
int64_t ranks_of_machine(Store& store, const std::string& machine);

}  // namespace longhaul::comm
