#include "detect/samples/sample_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text/json.h"

namespace longhaul::detect {
namespace {

namespace fs = std::filesystem;

constexpr char kRingMagic[8] = {'L', 'H', 'S', 'A', 'M', 'P', 'L', 'E'};
constexpr uint32_t kRingVersion = 1, kHeaderBytes = 4096, kEnded = 1;
constexpr const char *kMachine = "machine", *kRanks = "ranks";
constexpr int64_t kMostRows = 1 << 20;
constexpr JsonRules kOwnerRules{
    .code = ExitCode::kData, .what = "malformed header of a ring of samples", .hint = ""};

struct RingHeader {
  char magic[8];
  uint32_t version, header_bytes, rows, columns, row_bytes, text_bytes;
  char text[kHeaderBytes - 40];
  uint64_t checksum;  // of all before it
};
static_assert(sizeof(RingHeader) == kHeaderBytes);

struct StoredRow {
  uint64_t number;  // from 1; row number n is at place (n − 1) mod rows
  double time_s;
  float values[kMetrics];
  uint32_t flags;
  uint64_t checksum;  // of all before it
};
static_assert(sizeof(StoredRow) == 16 + 4 * kMetrics + 4 + 8);

template <class T>
uint64_t checksum_of(const T& stored) {
  return xxh3(std::as_bytes(std::span(&stored, 1)).first(offsetof(T, checksum)));
}

std::string owner_text(const RingOwner& owner) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const Metric& metric : metrics()) names.push_back(metric.name);
  const nlohmann::ordered_json json = {{"node", owner.node},
                                       {"host", owner.host},
                                       {"boot", owner.boot},
                                       {"of", owner.ranks_alone ? kRanks : kMachine},
                                       {"metrics", names}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RingHeader header_of(const RingOwner& owner, int64_t rows) {
  RingHeader header{};
  std::memcpy(header.magic, kRingMagic, sizeof kRingMagic);
  header.version = kRingVersion, header.header_bytes = kHeaderBytes;
  header.rows = static_cast<uint32_t>(rows), header.columns = kMetrics, header.row_bytes = sizeof(StoredRow);
  const std::string text = owner_text(owner);
  LONGHAUL_ASSERT(text.size() <= sizeof header.text, "{} bytes", text.size());
  header.text_bytes = static_cast<uint32_t>(text.size());
  std::memcpy(header.text, text.data(), text.size());
  header.checksum = checksum_of(header);
  return header;
}

[[noreturn]] void not_a_ring(const fs::path& path, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "this is no whole ring of samples",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = "the node's daemon makes it anew when its ranks start; until then remove it"});
}

RingHeader read_header(const File& file) {
  const int64_t size = file.size();
  RingHeader header;
  if (size < int64_t{kHeaderBytes})
    not_a_ring(file.path(), fmt::format("at least {} bytes", kHeaderBytes), fmt::format("{}", size));
  file.read_exactly(0, std::as_writable_bytes(std::span(&header, 1)));
  if (std::memcmp(header.magic, kRingMagic, sizeof kRingMagic) != 0)
    not_a_ring(file.path(), "LHSAMPLE at its begin", "other bytes");
  if (header.version != kRingVersion)
    not_a_ring(file.path(), fmt::format("version {}", kRingVersion),
               fmt::format("version {}", header.version));
  if (header.checksum != checksum_of(header))
    not_a_ring(file.path(), "a header with its checksum", "damaged bytes");
  if (header.header_bytes != kHeaderBytes || header.columns != kMetrics ||
      header.row_bytes != sizeof(StoredRow) || header.rows < 1 || header.rows > kMostRows ||
      header.text_bytes > sizeof header.text)
    not_a_ring(file.path(), "sizes of version 1", "other sizes");
  if (const int64_t whole = int64_t{kHeaderBytes} + int64_t{header.rows} * int64_t{sizeof(StoredRow)};
      size != whole)
    not_a_ring(file.path(), fmt::format("{} bytes", whole), fmt::format("{}", size));
  return header;
}

RingOwner owner_in(const RingHeader& header, const fs::path& path) {
  const nlohmann::json json =
      parse_json(std::string_view(header.text, header.text_bytes), path.string(), kOwnerRules);
  const JsonView root(json, path.string() + ":", kOwnerRules);
  const JsonView names = root.at("metrics");
  names.require(names.array_size() == kMetrics, fmt::format("{} names", kMetrics));
  for (size_t i = 0; i < kMetrics; ++i)
    names.at(i).require(names.at(i).string() == metrics()[i].name,
                        fmt::format("{}, as this version has it", metrics()[i].name));
  const std::string& of = root.at("of").string();
  root.at("of").require(of == kMachine || of == kRanks, "machine or ranks");
  return {root.at("node").string(), root.at("host").string(), root.at("boot").string(), of == kRanks};
}

bool never_written(const StoredRow& row) {
  const auto bytes = std::as_bytes(std::span(&row, 1));
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

bool is_whole(const StoredRow& row, size_t place, size_t rows) {
  return row.checksum == checksum_of(row) && row.number > 0 && (row.number - 1) % rows == place &&
         std::isfinite(row.time_s);
}

// A writer finishes a row within microseconds: a row that is torn now is whole in one of the next readings,
// or its writer has died.
StoredRow row_again(const File& file, StoredRow row, size_t place, size_t rows) {
  constexpr int kLooks = 200;
  for (int look = 0; look < kLooks && !never_written(row) && !is_whole(row, place, rows); ++look) {
    file.read_exactly(int64_t{kHeaderBytes} + static_cast<int64_t>(place * sizeof(StoredRow)),
                      std::as_writable_bytes(std::span(&row, 1)));
  }
  return row;
}

// Times increase: if the clock was set back, samples measured before count only up to that time.
void drop_undone(SampleRing& ring) {
  std::vector<RingRow> kept;
  for (RingRow& row : ring.rows) {
    while (!kept.empty() && kept.back().time_s >= row.time_s) kept.pop_back(), ++ring.undone;
    kept.push_back(std::move(row));
  }
  ring.rows = std::move(kept);
}

std::optional<SampleRing> earlier_ring(const fs::path& path, const RingOwner& owner, int64_t rows) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    SampleRing ring = read_ring(path);
    const auto size = static_cast<uintmax_t>(kHeaderBytes + rows * static_cast<int64_t>(sizeof(StoredRow)));
    const bool same = ring.owner.host == owner.host && ring.owner.node == owner.node &&
                      ring.owner.ranks_alone == owner.ranks_alone;
    if (same && fs::file_size(path) == size) return ring;
  } catch (const Error& error) {
    log_warning("the samples of an earlier start are given up: {}", error.what());
  }
  return std::nullopt;
}

}  // namespace

SampleRingWriter SampleRingWriter::open(const fs::path& path, const RingOwner& owner, int64_t rows) {
  LONGHAUL_ASSERT(rows >= 1 && rows <= kMostRows, "{} rows", rows);
  const RingHeader header = header_of(owner, rows);
  if (const auto earlier = earlier_ring(path, owner, rows)) {
    SampleRingWriter writer(File::open(path, File::Mode::kReadWrite), rows, earlier->last_number + 1);
    if (earlier->owner.boot != owner.boot) writer.file_.write_at(0, std::as_bytes(std::span(&header, 1)));
    return writer;
  }
  if (path.has_parent_path()) make_folders(path.parent_path());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.resize(kHeaderBytes + static_cast<size_t>(rows) * sizeof(StoredRow), '\0');
  write_text_atomically(path, bytes);  // all of it, so that a full disk is reported now
  return {File::open(path, File::Mode::kReadWrite), rows, 1};
}

void SampleRingWriter::write(double time_s, const SampleValues& values) {
  put({.time_s = time_s, .values = values});
}
void SampleRingWriter::end(double time_s) { put({.time_s = time_s, .ended = true}); }

void SampleRingWriter::put(const RingRow& row) {
  StoredRow stored{.number = number_, .time_s = row.time_s, .flags = row.ended ? kEnded : 0};
  std::copy(row.values.begin(), row.values.end(), stored.values);
  stored.checksum = checksum_of(stored);
  const int64_t place = static_cast<int64_t>((number_ - 1) % static_cast<uint64_t>(rows_));
  file_.write_at(int64_t{kHeaderBytes} + place * static_cast<int64_t>(sizeof(StoredRow)),
                 std::as_bytes(std::span(&stored, 1)));
  ++number_;
}

SampleRing read_ring(const fs::path& path) {
  const File file = File::open(path, File::Mode::kRead);
  const RingHeader header = read_header(file);
  SampleRing ring{.path = path, .owner = owner_in(header, path)};
  std::vector<StoredRow> stored(header.rows);
  file.read_exactly(kHeaderBytes, std::as_writable_bytes(std::span(stored)));
  std::vector<StoredRow> whole;
  for (size_t place = 0; place < stored.size(); ++place) {
    const StoredRow row = row_again(file, stored[place], place, stored.size());
    if (is_whole(row, place, stored.size()))
      whole.push_back(row);
    else if (!never_written(row))
      ++ring.damaged;
  }
  std::ranges::sort(whole, {}, &StoredRow::number);
  if (!whole.empty()) ring.last_number = whole.back().number;
  for (const StoredRow& each : whole) {
    // From an earlier round: the row that should be here was lost.
    if (each.number + header.rows <= ring.last_number) continue;
    RingRow row{.time_s = each.time_s, .ended = (each.flags & kEnded) != 0};
    std::copy(each.values, each.values + kMetrics, row.values.begin());
    ring.rows.push_back(std::move(row));
  }
  drop_undone(ring);
  return ring;
}

}  // namespace longhaul::detect
