#include "data/order/packing.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "data/tokens/cache.h"
#include "layout/sequence.h"

namespace longhaul::data {
namespace fs = std::filesystem;

namespace {

constexpr char kPackingMagic[8] = {'L', 'H', 'P', 'A', 'C', 'K', 'E', 'D'};

struct RawPackingHeader {  // as stored in the file, little-endian
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  char dataset[64];  // fingerprint, hexadecimal
  int64_t sequence;
  int64_t epoch;
  uint64_t seed;
  int64_t documents;
  int64_t samples;
  uint32_t table_crc;
  uint32_t zero;
  uint64_t checksum;  // xxh3 of all bytes before it
};
static_assert(sizeof(RawPackingHeader) == 136);

struct PackedPiece {  // where a piece of the row begins
  int64_t ordinal;    // in the shuffled order of documents
  int64_t start;      // input of that document
};

uint64_t header_checksum(const RawPackingHeader& raw) {
  return xxh3(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawPackingHeader, checksum)));
}

// of: "documents" or "samples".
RandomStream order_of(const char* of, const PackingKey& key) {
  return RandomStream(key.seed, fmt::format("data/order/{}/{}/epoch-{}", of, key.dataset, key.epoch));
}

fs::path file_of(const PackingKey& key, const fs::path& folder) {
  return folder / fmt::format("packing-{}-{}-{}-{}.index", key.dataset.substr(0, 16), key.sequence, key.epoch, key.seed);
}

[[noreturn]] void refuse_index(const fs::path& path, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable packing index",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = "remove the file; it is made again when it is needed"});
}

void make(const TokenDataset& dataset, const PackingKey& key, const fs::path& path) {
  const std::vector<int64_t> lengths = dataset.lengths();
  const auto documents = static_cast<int64_t>(lengths.size());
  const RandomStream order = order_of("documents", key);
  // Several processes may make the same file at once; each writes its own, and the last rename wins, with
  // equal bytes.
  std::random_device entropy;
  fs::path partial = path;
  partial += fmt::format(".{:08x}{:08x}.partial", entropy(), entropy());
  make_folders(path.parent_path());
  File file = File::open(partial, File::Mode::kCreate);
  RawPackingHeader raw{};
  file.write(std::as_bytes(std::span(&raw, 1)));

  std::vector<PackedPiece> table;
  const auto flush = [&] {
    const auto bytes = std::as_bytes(std::span(table));
    raw.table_crc = crc32c(bytes, raw.table_crc);
    file.write(bytes);
    table.clear();
  };
  Progress progress("packing", documents);
  int64_t row = 0;  // inputs before the document
  for (int64_t ordinal = 0; ordinal < documents; ++ordinal) {
    const auto document = permutation_at(order, static_cast<uint64_t>(documents), static_cast<uint64_t>(ordinal));
    const int64_t inputs = lengths[document] + 1;
    const int64_t first_cut = (row + key.sequence - 1) / key.sequence * key.sequence;
    for (int64_t cut = first_cut; cut < row + inputs; cut += key.sequence) {
      table.push_back({ordinal, cut - row});
      ++raw.samples;
      if (table.size() == 1 << 16) flush();
    }
    row += inputs;
    if (ordinal % 65536 == 65535) progress.advance(65536);
  }
  flush();

  std::memcpy(raw.magic, kPackingMagic, sizeof kPackingMagic);
  raw.version = kPackingVersion;
  raw.header_bytes = sizeof raw;
  std::memcpy(raw.dataset, key.dataset.data(), std::min(key.dataset.size(), sizeof raw.dataset));
  raw.sequence = key.sequence;
  raw.epoch = key.epoch;
  raw.seed = key.seed;
  raw.documents = documents;
  raw.checksum = header_checksum(raw);
  file.write_at(0, std::as_bytes(std::span(&raw, 1)));
  file.sync();
  file.close();
  rename_path(partial, path);
  sync_folder(path.parent_path());
}

}  // namespace

PackingIndex::PackingIndex(const PackingKey& key)
    : document_order_(order_of("documents", key)), sample_order_(order_of("samples", key)), sequence_(key.sequence) {}

int64_t PackingIndex::samples(const TokenDataset& dataset, int64_t sequence) {
  return (dataset.tokens() + dataset.documents() + sequence - 1) / sequence;
}

PackingIndex PackingIndex::open(const fs::path& path, const PackingKey& key, int64_t documents) {
  PackingIndex index(key);
  index.documents_ = documents;
  index.file_ = MappedFile::open(path, ExitCode::kData);
  RawPackingHeader raw;
  if (index.file_.size() < static_cast<int64_t>(sizeof raw)) refuse_index(path, "a header", fmt::format("{} bytes", index.file_.size()));
  std::memcpy(&raw, index.file_.range(0, sizeof raw).data(), sizeof raw);
  if (std::memcmp(raw.magic, kPackingMagic, sizeof kPackingMagic) != 0)
    refuse_index(path, "a file that begins with LHPACKED", "other bytes");
  if (raw.version != kPackingVersion)
    refuse_index(path, fmt::format("format version {}", kPackingVersion), fmt::format("version {}", raw.version));
  if (header_checksum(raw) != raw.checksum) refuse_index(path, "a header with the right checksum", "a damaged header");
  const bool same = std::string_view(raw.dataset, sizeof raw.dataset) == key.dataset && raw.sequence == key.sequence &&
                    raw.epoch == key.epoch && raw.seed == key.seed && raw.documents == documents;
  if (!same) refuse_index(path, "the index of this dataset, sequence length, epoch and seed", "another one");
  const int64_t size = static_cast<int64_t>(sizeof raw + static_cast<uint64_t>(raw.samples) * sizeof(PackedPiece));
  if (index.file_.size() != size) refuse_index(path, fmt::format("{} bytes", size), fmt::format("{} bytes", index.file_.size()));
  if (crc32c(index.file_.range(sizeof raw, size - static_cast<int64_t>(sizeof raw))) != raw.table_crc) {
    refuse_index(path, "a table with the right checksum", "a damaged table");
  }
  index.samples_ = raw.samples;
  return index;
}

PackingIndex PackingIndex::open_or_make(const TokenDataset& dataset, int64_t sequence, int64_t epoch, uint64_t seed,
                                        const fs::path& folder) {
  LONGHAUL_ASSERT(sequence > 0, "sequence {}", sequence);
  const PackingKey key{dataset.fingerprint(), sequence, epoch, seed};
  const fs::path path = file_of(key, folder);
  if (fs::exists(path)) {
    try {
      PackingIndex index = open(path, key, dataset.documents());
      mark_used(path);
      return index;
    } catch (const Error& problem) {
      log_warning("making the packing index again: {}", problem.what());
    }
  }
  make(dataset, key, path);
  return open(path, key, dataset.documents());
}

std::vector<DocumentSpan> PackingIndex::sample(const TokenDataset& dataset, int64_t index) const {
  LONGHAUL_ASSERT(index >= 0 && index < samples_, "sample {} of {}", index, samples_);
  const uint64_t piece = permutation_at(sample_order_, static_cast<uint64_t>(samples_), static_cast<uint64_t>(index));
  PackedPiece entry;
  std::memcpy(&entry, file_.range(static_cast<int64_t>(sizeof(RawPackingHeader) + piece * sizeof entry), sizeof entry).data(),
              sizeof entry);
  std::vector<DocumentSpan> spans;
  int64_t left = sequence_;
  for (; left > 0 && entry.ordinal < documents_; ++entry.ordinal, entry.start = 0) {
    const auto document =
        static_cast<int64_t>(permutation_at(document_order_, static_cast<uint64_t>(documents_), static_cast<uint64_t>(entry.ordinal)));
    const int64_t length = std::min(left, dataset.length(document) + 1 - entry.start);
    LONGHAUL_ASSERT(length > 0, "packing index points behind document {}", document);
    spans.push_back({document, entry.start, length});
    left -= length;
  }
  if (left > 0) spans.push_back({kPadding, 0, left});
  return spans;
}

void read_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> inputs, std::span<int64_t> labels) {
  const auto length = static_cast<size_t>(span.length);
  LONGHAUL_ASSERT(inputs.size() == length && labels.size() == length, "{} inputs, {} labels, length {}", inputs.size(), labels.size(),
                  length);
  const int64_t separator = dataset.identity().separator;
  if (span.document == kPadding) {
    std::fill(inputs.begin(), inputs.end(), separator);
    std::fill(labels.begin(), labels.end(), int64_t{-1});
    return;
  }
  // Input 0 is the token that begins a document, and input k is token k - 1; its label is token k, or the
  // separator after the last one.
  const int64_t tokens = dataset.length(span.document);
  const bool to_the_end = span.start + span.length == tokens + 1;
  dataset.read(span.document, span.start, labels.first(length - (to_the_end ? 1 : 0)));
  if (to_the_end) labels.back() = separator;
  if (span.start == 0) {
    inputs[0] = dataset.identity().begin;
  } else {
    dataset.read(span.document, span.start - 1, inputs.first(1));
  }
  std::copy_n(labels.begin(), length - 1, inputs.begin() + 1);
}

bool any_weighted(const std::vector<const TokenDataset*>& datasets) { return std::ranges::any_of(datasets, &TokenDataset::weighted); }

int64_t weigh_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> labels, std::span<float> weights) {
  if (span.document == kPadding) return 0;
  dataset.read_weights(span.document, span.start, weights);
  int64_t bytes = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (weights[i] == 0)
      labels[i] = layout::kIgnoreLabel;
    else
      bytes += span_bytes(dataset, {span.document, span.start + static_cast<int64_t>(i), 1});
  }
  return bytes;
}

int64_t span_bytes(const TokenDataset& dataset, const DocumentSpan& span) {
  if (span.document == kPadding) return 0;
  const auto bytes = static_cast<__int128>(dataset.text_bytes(span.document));
  const int64_t tokens = dataset.length(span.document);
  if (tokens == 0) return static_cast<int64_t>(bytes);
  // The end of the document has no bytes, so only its tokens share them.
  const auto before = [&](int64_t label) { return static_cast<int64_t>(bytes * std::min(label, tokens) / tokens); };
  return before(span.start + span.length) - before(span.start);
}

}  // namespace longhaul::data
