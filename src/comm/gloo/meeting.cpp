#include "comm/gloo/meeting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/process/signals.h"
#include "comm/gloo/gloo_world.h"

namespace longhaul::comm {
namespace {

std::string rank_key(int64_t rank) { return fmt::format("rank/{}", rank); }
std::string said_key(const std::string& topic, int64_t place) { return fmt::format("{}/{}", topic, place); }
std::string collected_key(const std::string& topic) { return topic + " of all"; }
std::string parts_key(const std::string& hashes) { return "parts of " + hashes; }
constexpr const char* kWaitingIsOver = "waiting is over";  // "": all are here; else who asked to stop
std::string machine_key(const std::string& machine) { return "machine/" + machine; }

// Texts of any bytes as one: each behind its length.
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    const uint64_t length = text.size();
    all.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
  }
  return all;
}

std::vector<std::string> parted(const std::string& all) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size();) {
    uint64_t length = 0;
    LONGHAUL_ASSERT(all.size() - at >= sizeof length, "{} bytes end in a length", all.size());
    std::memcpy(&length, all.data() + at, sizeof length);
    at += sizeof length;
    LONGHAUL_ASSERT(all.size() - at >= length, "{} bytes end in a text of {}", all.size(), length);
    texts.push_back(all.substr(at, length));
    at += length;
  }
  return texts;
}

// "rank 3 missing", "ranks 1, 3 missing".
std::string missing_text(const std::vector<int64_t>& missing) {
  constexpr size_t kEnough = 20;
  const std::span<const int64_t> shown(missing.data(), std::min(missing.size(), kEnough));
  return fmt::format("rank{} {}{} missing", missing.size() > 1 ? "s" : "", fmt::join(shown, ", "),
                     missing.size() > kEnough ? ", …" : "");
}

std::vector<int64_t> missing_ranks(Store& store, int64_t size) {
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < size; ++rank) {
    if (!store.has(rank_key(rank))) missing.push_back(rank);
  }
  return missing;
}

Failure absent(Store& store, int64_t size, Timeout timeout) {
  const std::vector<int64_t> missing = missing_ranks(store, size);
  return {.fields = {.code = ExitCode::kCommunication,
                     .what = fmt::format("{} of {} ranks did not join", missing.size(), size),
                     .expected = fmt::format("all of them within {:.0f} s",
                                             std::chrono::duration<double>(timeout).count()),
                     .found = missing_text(missing),
                     .hint = "look at what these ranks said, or why their machines did not start them"}};
}

enum class Waited { kCame, kLate, kStopped };

// A wait of the store's cannot be interrupted: short ones, between which a request to stop is seen.
Waited wait_or_stop(Store& store, const std::string& key, Timeout timeout) {
  constexpr Timeout kLook(500);
  for (const Deadline end = deadline_after(timeout);;) {
    const auto left = std::chrono::duration_cast<Timeout>(end - std::chrono::steady_clock::now());
    if (store.wait_for(key, std::clamp(left, Timeout(1), kLook))) return Waited::kCame;
    if (stop_signal() != 0) return Waited::kStopped;
    if (left <= kLook) return Waited::kLate;
  }
}

std::optional<Failure> verdict_of_first(Store& store, int64_t size, Timeout timeout) {
  const Waited waited = wait_or_stop(store, kWaitingIsOver, timeout);
  if (waited == Waited::kLate) return absent(store, size, timeout);
  const std::string request = waited == Waited::kStopped ? stop_request_of(0) : store.get(kWaitingIsOver);
  if (!request.empty()) {
    const std::vector<int64_t> missing = missing_ranks(store, size);
    return stopped_while_joining(fmt::format("all {} ranks", size),
                                 request + "; " + (missing.empty() ? "all had come" : missing_text(missing)));
  }
  std::vector<std::string> keys;
  for (int64_t each = 0; each < size; ++each) keys.push_back(rank_key(each));
  const std::vector<std::string> hashes = store.get(keys);
  const std::optional<OddRank> odd = odd_rank(hashes);
  if (!odd) return std::nullopt;
  const auto told_by = [&](size_t rank) {
    return TextsOfRank{hashes[rank], store.get(parts_key(hashes[rank]))};
  };
  return disagreement(*odd, told_by(0), told_by(odd->rank));
}

}  // namespace

void announce(Store& store, int64_t rank, int64_t size, const std::vector<Identity>& identities) {
  const std::string hashes = hashes_text(identities);
  if (store.add("ranks of " + hashes, 1) == 1) store.set(parts_key(hashes), parts_text(identities));
  store.set(rank_key(rank), hashes);
  if (store.add("joined", 1) == size) store.set(kWaitingIsOver, "");
}

std::optional<Failure> verdict(Store& store, int64_t rank, int64_t size, Timeout timeout) {
  constexpr Timeout kWordOfFirst(10000);  // later than rank 0's own time
  constexpr Timeout kPatienceOfStopped(1000);
  if (rank == 0) {
    const std::optional<Failure> failure = verdict_of_first(store, size, timeout);
    store.set("verdict", failure ? to_text(*failure) : "");
    return failure;
  }
  Waited waited = wait_or_stop(store, "verdict", timeout + kWordOfFirst);
  if (waited == Waited::kStopped) {  // rank 0 knows who is missing, and tells all of them to leave
    store.set(kWaitingIsOver, stop_request_of(rank));
    if (!store.wait_for("verdict", kPatienceOfStopped))
      return stopped_while_joining("rank 0's word", stop_request_of(rank));
    waited = Waited::kCame;
  }
  if (waited == Waited::kCame) {
    const std::string word = store.get("verdict");
    return word.empty() ? std::nullopt : std::optional(from_text(word));
  }
  return Failure{.fields = {.code = ExitCode::kCommunication,
                            .what = "rank 0 did not say that all ranks are here",
                            .expected = "its word in the store",
                            .found = "nothing in time",
                            .hint = "look at what rank 0 said"}};
}

Failure stopped_while_joining(const std::string& expected, const std::string& found) {
  return {.fields = {.code = ExitCode::kPreemptedNotSaved,
                     .what = "stopped while the ranks were joining",
                     .expected = expected,
                     .found = found,
                     .hint = "start again: no step was made"}};
}

std::string stop_request_of(int64_t rank) { return fmt::format("signal {} at rank {}", stop_signal(), rank); }

void say(Store& store, const std::string& topic, int64_t place, const std::string& text) {
  store.set(said_key(topic, place), text);
}

void collect(Store& store, const std::string& topic, int64_t count) {
  std::vector<std::string> keys;
  for (int64_t place = 0; place < count; ++place) keys.push_back(said_key(topic, place));
  store.set(collected_key(topic), joined(store.get(keys)));
}

std::vector<std::string> hear(Store& store, const std::string& topic) {
  return parted(store.get(collected_key(topic)));
}

std::vector<std::string> tell_each_other(Store& store, const std::string& topic, int64_t place, int64_t count,
                                         const std::string& text) {
  say(store, topic, place, text);
  if (place == 0) collect(store, topic, count);
  return hear(store, topic);
}

std::string topic_of(Told what, const std::string& machine) {
  constexpr const char* kNames[] = {"gloo", "memory", "memory-seen"};
  const std::string name = kNames[static_cast<size_t>(what)];
  return of_a_machine(what) ? name + "/" + machine : name;
}

int64_t come_to_machine(Store& store, const std::string& machine) {
  return store.add(machine_key(machine), 1) - 1;
}
int64_t ranks_of_machine(Store& store, const std::string& machine) {
  return store.add(machine_key(machine), 0);
}

}  // namespace longhaul::comm
