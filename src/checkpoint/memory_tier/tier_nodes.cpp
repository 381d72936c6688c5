#include "checkpoint/memory_tier/tier_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/checksum.h"
#include "base/memory/shared_memory.h"
#include "base/process/fault_point.h"
#include "base/threads/pace.h"
#include "comm/placement.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMessageBytes = 4 << 20;
// In front of each message: whether the sender could read it, and its checksum.
constexpr int64_t kMessageHead = 8;

struct MessageHead {
  uint32_t readable = 0, crc32c = 0;
};

int64_t messages_of(const FileMove& move) { return (move.bytes + kMessageBytes - 1) / kMessageBytes; }
int64_t bytes_of_message(const FileMove& move, int64_t number) {
  return std::min(kMessageBytes, move.bytes - number * kMessageBytes);
}

[[noreturn]] void torn(const FileMove& move, const fs::path& path, const std::string& found) {
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "a file did not come whole from another node",
               .expected = fmt::format("{} of {} bytes, from rank {}", move.name, move.bytes, move.from),
               .found = found,
               .where = path.string()});
}

// Keeps the first error of several things that must all be gone through.
class FirstError {
 public:
  void attempt(const std::function<void()>& what) {
    try {
      what();
    } catch (const Error& error) {
      if (!first_) first_ = error;
    }
  }
  void throw_it() const {
    if (first_) throw *first_;
  }

 private:
  std::optional<Error> first_;
};

// One end of a file that goes through the communicator.
struct MovedFile {
  const FileMove& move;
  fs::path path;
  std::unique_ptr<storage::FileReader> reader{};
  std::unique_ptr<storage::FileWriter> writer{};
  Tensor message{};

  std::span<std::byte> payload() const {
    return {static_cast<std::byte*>(message.mutable_data_ptr()) + kMessageHead,
            static_cast<size_t>(message.numel() - kMessageHead)};
  }
};

Tensor outgoing(MovedFile& file, int64_t number, FirstError& errors) {
  file.message = at::zeros({kMessageHead + bytes_of_message(file.move, number)}, at::kByte);
  MessageHead head;
  errors.attempt([&] {
    if (!file.reader) return;
    file.reader->read_exactly(number * kMessageBytes, file.payload());
    head = {1, crc32c(file.payload())};
  });
  if (fault_point("memory.message")) file.payload()[0] ^= std::byte{1};
  std::memcpy(file.message.mutable_data_ptr(), &head, sizeof(head));
  return file.message;
}

void incoming(MovedFile& file) {
  MessageHead head;
  std::memcpy(&head, file.message.const_data_ptr(), sizeof(head));
  if (!file.writer) return;  // it had failed
  if (head.readable == 0 || head.crc32c != crc32c(file.payload())) {
    file.writer.reset();
    torn(file.move, file.path,
         head.readable == 0 ? "it could not be read there" : "a message without its checksum");
  }
  file.writer->write(file.payload());
}

void copy_on_machine(storage::FileSystem& files, const FileMove& move, const fs::path& from,
                     const fs::path& to, Pace& pace) {
  const auto reader = files.open(from, ExitCode::kCheckpoint);
  if (reader->size() != move.bytes)
    torn(move, to, fmt::format("{} bytes in {}", reader->size(), from.string()));
  storage::copy_file(files, from, to, [&](int64_t bytes) { pace.moved(bytes); });
}

}  // namespace

std::optional<TierPlace> tier_place_of_process() {
  const auto tier = comm::variable("LONGHAUL_MEMORY_TIER");
  if (!tier) return std::nullopt;
  TierPlace place{.tier = *tier, .node = comm::variable("LONGHAUL_NODE").value_or("")};
  if (const auto disk = comm::variable("LONGHAUL_NODE_DISK"))
    place.disk = fs::path(*disk) / (place.node.empty() ? "node" : place.node);
  return place;
}

TierNodes::TierNodes(const Writers& ranks, const std::optional<TierPlace>& own) {
  const json places = ranks.all("memory tiers", [&]() -> json {
    if (!own) return nullptr;
    return {{"tier", own->tier.string()},
            {"node", own->node},
            {"machine", own->machine != 0 ? own->machine : shared_memory_id()}};
  });
  const auto without = std::ranges::count_if(places, [](const json& place) { return place.is_null(); });
  if (without == ranks.size()) return;
  if (without > 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "some ranks have a memory tier and others have none",
                 .expected = "LONGHAUL_MEMORY_TIER in the environment of all ranks, or of none",
                 .found = fmt::format("{} of {} ranks without it", without, ranks.size()),
                 .where = "LONGHAUL_MEMORY_TIER",
                 .hint = "unset it everywhere: checkpoints then go to the disk only"});
  }
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    const json& place = places[static_cast<size_t>(rank)];
    const fs::path tier = place.at("tier").get<std::string>();
    const uint64_t machine = place.at("machine");
    auto node = std::ranges::find_if(
        nodes_, [&](const Node& other) { return other.tier == tier && other.machine == machine; });
    if (node == nodes_.end()) node = nodes_.insert(node, {tier, place.at("node"), machine, {}});
    node->ranks.push_back(rank);
    node_of_rank_.push_back(node - nodes_.begin());
  }
}

int64_t TierNodes::place_of(int64_t rank) const {
  const auto& ranks = ranks_of(node_of(rank));
  return std::ranges::find(ranks, rank) - ranks.begin();
}

bool TierNodes::same_machine(int64_t a, int64_t b) const {
  return nodes_[static_cast<size_t>(a)].machine == nodes_[static_cast<size_t>(b)].machine;
}

void move_files(storage::FileSystem& files, const Writers& ranks, const TierNodes& nodes,
                const FolderOfNode& folder_of, std::span<const FileMove> moves, double bytes_per_second) {
  FirstError errors;
  Pace pace(bytes_per_second);
  std::vector<MovedFile> sent, received;
  int64_t messages = 0;
  for (const FileMove& move : moves) {
    const int64_t there = nodes.node_of(move.from), here = nodes.node_of(move.to);
    LONGHAUL_ASSERT(there != here && move.bytes > 0, "'{}' from rank {} to {}", move.name, move.from,
                    move.to);
    if (nodes.same_machine(there, here)) {
      if (move.to == ranks.rank())
        errors.attempt([&] {
          copy_on_machine(files, move, folder_of(there) / move.name, folder_of(here) / move.name, pace);
        });
    } else if (move.from == ranks.rank()) {
      MovedFile& file = sent.emplace_back(MovedFile{move, folder_of(there) / move.name});
      errors.attempt([&] { file.reader = files.open(file.path, ExitCode::kCheckpoint); });
      messages = std::max(messages, messages_of(move));
    } else if (move.to == ranks.rank()) {
      MovedFile& file = received.emplace_back(MovedFile{move, folder_of(here) / move.name});
      errors.attempt([&] { file.writer = files.create(file.path); });
      messages = std::max(messages, messages_of(move));
    }
  }
  // All files at once, one message of each: a rank waits for those that it sends to and receives from, for
  // none for long.
  for (int64_t number = 0; number < messages; ++number) {
    std::vector<comm::Transfer> transfers;
    for (MovedFile& file : sent) {
      if (number < messages_of(file.move))
        transfers.push_back(comm::send_to(file.move.to, outgoing(file, number, errors)));
    }
    for (MovedFile& file : received) {
      if (number >= messages_of(file.move)) continue;
      file.message = at::empty({kMessageHead + bytes_of_message(file.move, number)}, at::kByte);
      transfers.push_back(comm::receive_from(file.move.from, file.message));
    }
    ranks.group()->exchange(std::move(transfers), {.name = "files of checkpoints"}).wait();
    for (MovedFile& file : received) {
      if (number < messages_of(file.move)) errors.attempt([&] { incoming(file); });
    }
    for (const MovedFile& file : sent) {
      if (number < messages_of(file.move)) pace.moved(bytes_of_message(file.move, number));
    }
  }
  for (MovedFile& file : received) {
    if (file.writer) errors.attempt([&] { file.writer->close(); });
  }
  errors.throw_it();
}

}  // namespace longhaul::checkpoint
