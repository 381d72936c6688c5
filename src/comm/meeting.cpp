#include "comm/meeting.h"

#include <fmt/ranges.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "comm/gloo_world.h"

namespace longhaul::comm {
namespace {

using Json = nlohmann::json;

std::string rank_key(int64_t rank) { return fmt::format("rank/{}", rank); }
std::string said_key(const std::string& topic, int64_t place) { return fmt::format("{}/{}", topic, place); }
std::string collected_key(const std::string& topic) { return topic + " of all"; }
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

// The first thing in which a rank differs from rank 0.
std::optional<Failure> difference(const std::vector<std::string>& identities) {
  const Json expected = Json::parse(identities.front());
  for (size_t rank = 1; rank < identities.size(); ++rank) {
    const Json found = Json::parse(identities[rank]);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (i < found.size() && found[i] == expected[i]) continue;
      const auto name = expected[i].at(0).get<std::string>();
      return Failure{.fields = {.code = ExitCode::kUsage,
                                .what = fmt::format("rank {} has another {} than rank 0", rank, name),
                                .expected = fmt::format("{} {} on all ranks", name, expected[i].at(1).get<std::string>()),
                                .found = i < found.size() ? fmt::format("{} {} on rank {}", found[i].at(0).get<std::string>(),
                                                                        found[i].at(1).get<std::string>(), rank)
                                                          : fmt::format("none on rank {}", rank),
                                .hint = "start all ranks with the same program, recipe and data"}};
    }
  }
  return std::nullopt;
}

Failure absent(Store& store, int64_t size, Timeout timeout) {
  constexpr size_t kEnough = 20;
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < size; ++rank) {
    if (!store.has(rank_key(rank))) missing.push_back(rank);
  }
  const size_t count = missing.size();
  if (count > kEnough) missing.resize(kEnough);
  return {
      .fields = {.code = ExitCode::kCommunication,
                 .what = fmt::format("{} of {} ranks did not join", count, size),
                 .expected = fmt::format("all of them within {:.0f} s", std::chrono::duration<double>(timeout).count()),
                 .found = fmt::format("rank{} {}{} missing", count > 1 ? "s" : "", fmt::join(missing, ", "), count > kEnough ? ", …" : ""),
                 .hint = "look at what these ranks said, or why their machines did not start them"}};
}

}  // namespace

void announce(Store& store, int64_t rank, int64_t size, const std::string& identity) {
  store.set(rank_key(rank), identity);
  if (store.add("joined", 1) == size) store.set("all here", "");
}

std::optional<Failure> verdict(Store& store, int64_t rank, int64_t size, Timeout timeout) {
  if (rank == 0) {
    std::optional<Failure> failure;
    if (store.wait_for("all here", timeout)) {
      std::vector<std::string> keys;
      for (int64_t each = 0; each < size; ++each) keys.push_back(rank_key(each));
      failure = difference(store.get(keys));
    } else {
      failure = absent(store, size, timeout);
    }
    store.set("verdict", failure ? to_text(*failure) : "");
    return failure;
  }
  if (store.wait_for("verdict", timeout + Timeout(10000))) {
    const std::string word = store.get("verdict");
    return word.empty() ? std::nullopt : std::optional(from_text(word));
  }
  return Failure{.fields = {.code = ExitCode::kCommunication,
                            .what = "rank 0 did not say that all ranks are here",
                            .expected = "its word in the store",
                            .found = "nothing in time",
                            .hint = "look at what rank 0 said"}};
}

void say(Store& store, const std::string& topic, int64_t place, const std::string& text) { store.set(said_key(topic, place), text); }

void collect(Store& store, const std::string& topic, int64_t count) {
  std::vector<std::string> keys;
  for (int64_t place = 0; place < count; ++place) keys.push_back(said_key(topic, place));
  store.set(collected_key(topic), joined(store.get(keys)));
}

std::vector<std::string> hear(Store& store, const std::string& topic) { return parted(store.get(collected_key(topic))); }

std::vector<std::string> tell_each_other(Store& store, const std::string& topic, int64_t place, int64_t count, const std::string& text) {
  say(store, topic, place, text);
  if (place == 0) collect(store, topic, count);
  return hear(store, topic);
}

std::string topic_of(Told what, const std::string& machine) {
  constexpr const char* kNames[] = {"gloo", "memory", "memory-seen"};
  const std::string name = kNames[static_cast<size_t>(what)];
  return of_a_machine(what) ? name + "/" + machine : name;
}

int64_t come_to_machine(Store& store, const std::string& machine) { return store.add(machine_key(machine), 1) - 1; }
int64_t ranks_of_machine(Store& store, const std::string& machine) { return store.add(machine_key(machine), 0); }

}  // namespace longhaul::comm
