// How ranks meet at a store. Before they are connected each says who it is, rank 0 looks at all and gives its word, which the others read. What each of
// several must know of each other goes likewise through one of them. So a rank does a fixed number of operations, and few ranks one that reads as many values
// as there are members: n ranks cost the store O(n) in all.
//
//   announce(store, rank, size, identities);                 // never waits
//   if (const auto failure = verdict(store, rank, size, timeout)) …
//
//   say(store, "addresses", place, own);                     // never waits
//   if (place == 0) collect(store, "addresses", count);      // waits for all
//   for (const std::string& theirs : hear(store, "addresses")) …   // by place; waits for place 0. tell_each_other does the three
//
// A request to stop (base/process/signals.h) that comes while others are missing ends the meeting for all, with 75 and the names of those. What identities consist of
// the first rank of each kind tells: one value of all ranks where all are the same.
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
std::optional<Failure> verdict(Store& store, int64_t rank, int64_t size, Timeout timeout);  // the same on all ranks
Failure stopped_while_joining(const std::string& expected, const std::string& found);
std::string stop_request_of(int64_t rank);  // "signal 15 at rank 2", of the one that has come to this process

void say(Store& store, const std::string& topic, int64_t place, const std::string& text);  // any bytes
void collect(Store& store, const std::string& topic, int64_t count);
std::vector<std::string> hear(Store& store, const std::string& topic);
std::vector<std::string> tell_each_other(Store& store, const std::string& topic, int64_t place, int64_t count, const std::string& text);

// What ranks that are connected tell each other, in this order (Wire::connect): all of them where their connections are; those of a machine, which have
// counted each other before and after that, where their memory is, and whose they reach.
enum class Told : uint8_t { kConnections, kMemory, kReached };
inline constexpr Told kToldInOrder[] = {Told::kConnections, Told::kMemory, Told::kReached};
constexpr bool of_a_machine(Told what) { return what != Told::kConnections; }
std::string topic_of(Told what, const std::string& machine);

// Ranks of one machine, numbered as they come; how many, once all have come.
int64_t come_to_machine(Store& store, const std::string& machine);
int64_t ranks_of_machine(Store& store, const std::string& machine);

}  // namespace longhaul::comm
