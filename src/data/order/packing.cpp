#include "data/order/packing.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "data/order/whole_packing.h"
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
  // in the shuffled order of documents; of whole documents the first of the sample's pieces
  int64_t ordinal;
  int64_t start;  // input of that document; of whole documents the number of the sample's pieces
};

uint64_t header_checksum(const RawPackingHeader& raw) {
  return xxh3(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawPackingHeader, checksum)));
}

// of: "documents" or "samples".
RandomStream order_of(const char* of, const PackingKey& key) {
  return RandomStream(key.seed, fmt::format("data/order/{}/{}/epoch-{}", of, key.dataset, key.epoch));
}

fs::path file_of(const PackingKey& key, const fs::path& folder) {
  return folder / fmt::format("packing-{}-{}-{}-{}.index", key.dataset.substr(0, 16), key.sequence, key.epoch,
                              key.seed);
}

[[noreturn]] void refuse_index(const fs::path& path, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "unusable packing index",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = path.string(),
               .hint = "remove the file; it is made again when it is needed"});
}

// Writes the file of an index: a header that is filled in when the tables are known, and the tables.
class PackingFile {
 public:
  explicit PackingFile(const fs::path& path) : path_(path), partial_(path) {
    // Several processes may make the same file at once; each writes its own, and the last rename wins, with
    // equal bytes.
    std::random_device entropy;
    partial_ += fmt::format(".{:08x}{:08x}.partial", entropy(), entropy());
    make_folders(path.parent_path());
    file_ = File::open(partial_, File::Mode::kCreate);
    file_.write(std::as_bytes(std::span(&raw_, 1)));
  }

  void put(std::span<const std::byte> bytes) {
    raw_.table_crc = crc32c(bytes, raw_.table_crc);
    file_.write(bytes);
  }

  void finish(const PackingKey& key, int64_t documents, int64_t samples) {
    std::memcpy(raw_.magic, kPackingMagic, sizeof kPackingMagic);
    raw_.version = kPackingVersion;
    raw_.header_bytes = sizeof raw_;
    std::memcpy(raw_.dataset, key.dataset.data(), std::min(key.dataset.size(), sizeof raw_.dataset));
    raw_.sequence = key.sequence;
    raw_.epoch = key.epoch;
    raw_.seed = key.seed;
    raw_.documents = documents;
    raw_.samples = samples;
    raw_.checksum = header_checksum(raw_);
    file_.write_at(0, std::as_bytes(std::span(&raw_, 1)));
    file_.sync();
    file_.close();
    rename_path(partial_, path_);
    sync_folder(path_.parent_path());
  }

 private:
  fs::path path_, partial_;
  RawPackingHeader raw_{};
  File file_;
};

std::vector<int64_t> labels_of(const TokenDataset& dataset) {
  std::vector<int64_t> labels = dataset.lengths();
  for (int64_t& each : labels) each += dataset.labels_more();
  return labels;
}

// Documents end to end, cut every `sequence` inputs. Returns the number of samples.
int64_t make_of_row(const TokenDataset& dataset, const PackingKey& key, PackingFile& file) {
  const std::vector<int64_t> labels = labels_of(dataset);
  const auto documents = static_cast<int64_t>(labels.size());
  const RandomStream order = order_of("documents", key);
  std::vector<PackedPiece> table;
  const auto flush = [&] {
    file.put(std::as_bytes(std::span(table)));
    table.clear();
  };
  Progress progress("packing", documents);
  int64_t row = 0, samples = 0;  // inputs before the document
  for (int64_t ordinal = 0; ordinal < documents; ++ordinal) {
    const auto document =
        permutation_at(order, static_cast<uint64_t>(documents), static_cast<uint64_t>(ordinal));
    const int64_t inputs = labels[document];
    const int64_t first_cut = (row + key.sequence - 1) / key.sequence * key.sequence;
    for (int64_t cut = first_cut; cut < row + inputs; cut += key.sequence) {
      table.push_back({ordinal, cut - row});
      ++samples;
      if (table.size() == 1 << 16) flush();
    }
    row += inputs;
    if (ordinal % 65536 == 65535) progress.advance(65536);
  }
  flush();
  return samples;
}

int64_t make_of_whole(const TokenDataset& dataset, const PackingKey& key, PackingFile& file) {
  const std::vector<int64_t> labels = labels_of(dataset);
  const RandomStream random = order_of("documents", key);
  std::vector<int64_t> order;
  for (uint64_t ordinal = 0; ordinal < labels.size(); ++ordinal)
    order.push_back(static_cast<int64_t>(permutation_at(random, labels.size(), ordinal)));
  const WholeRows rows = pack_whole(labels, order, key.sequence);
  int64_t before = 0;
  for (const int64_t end : rows.ends) {
    const PackedPiece entry{before, end - before};
    file.put(std::as_bytes(std::span(&entry, 1)));
    before = end;
  }
  file.put(std::as_bytes(std::span(rows.pieces)));
  return std::ssize(rows.ends);
}

void make(const TokenDataset& dataset, const PackingKey& key, const fs::path& path) {
  PackingFile file(path);
  const int64_t samples = key.whole ? make_of_whole(dataset, key, file) : make_of_row(dataset, key, file);
  file.finish(key, dataset.documents(), samples);
}

}  // namespace

PackingIndex::PackingIndex(const PackingKey& key)
    : document_order_(order_of("documents", key)),
      sample_order_(order_of("samples", key)),
      sequence_(key.sequence),
      whole_(key.whole) {}

int64_t PackingIndex::samples(const TokenDataset& dataset, int64_t sequence) {
  if (dataset.identity().whole()) return count_whole_rows(labels_of(dataset), sequence);
  return (dataset.labels() + sequence - 1) / sequence;
}

PackingIndex PackingIndex::open(const fs::path& path, const PackingKey& key, int64_t documents) {
  PackingIndex index(key);
  index.documents_ = documents;
  index.file_ = MappedFile::open(path, ExitCode::kData);
  RawPackingHeader raw;
  if (index.file_.size() < static_cast<int64_t>(sizeof raw))
    refuse_index(path, "a header", fmt::format("{} bytes", index.file_.size()));
  std::memcpy(&raw, index.file_.range(0, sizeof raw).data(), sizeof raw);
  if (std::memcmp(raw.magic, kPackingMagic, sizeof kPackingMagic) != 0)
    refuse_index(path, "a file that begins with LHPACKED", "other bytes");
  if (raw.version != kPackingVersion)
    refuse_index(path, fmt::format("format version {}", kPackingVersion),
                 fmt::format("version {}", raw.version));
  if (header_checksum(raw) != raw.checksum)
    refuse_index(path, "a header with the right checksum", "a damaged header");
  const bool same = std::string_view(raw.dataset, sizeof raw.dataset) == key.dataset &&
                    raw.sequence == key.sequence && raw.epoch == key.epoch && raw.seed == key.seed &&
                    raw.documents == documents;
  if (!same) refuse_index(path, "the index of this dataset, sequence length, epoch and seed", "another one");
  const int64_t size =
      static_cast<int64_t>(sizeof raw + static_cast<uint64_t>(raw.samples) * sizeof(PackedPiece));
  // The list of pieces behind the table is as long as the rows that name them say, which the checksum covers.
  const bool fits =
      key.whole ? index.file_.size() >= size && (index.file_.size() - size) % int64_t{sizeof(WholePiece)} == 0
                : index.file_.size() == size;
  if (!fits) refuse_index(path, fmt::format("{} bytes", size), fmt::format("{} bytes", index.file_.size()));
  if (crc32c(index.file_.range(sizeof raw, index.file_.size() - static_cast<int64_t>(sizeof raw))) !=
      raw.table_crc) {
    refuse_index(path, "a table with the right checksum", "a damaged table");
  }
  index.samples_ = raw.samples;
  return index;
}

PackingIndex PackingIndex::open_or_make(const TokenDataset& dataset, int64_t sequence, int64_t epoch,
                                        uint64_t seed, const fs::path& folder) {
  LONGHAUL_ASSERT(sequence > 0, "sequence {}", sequence);
  const PackingKey key{dataset.fingerprint(), sequence, epoch, seed, dataset.identity().whole()};
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
  const uint64_t piece =
      permutation_at(sample_order_, static_cast<uint64_t>(samples_), static_cast<uint64_t>(index));
  PackedPiece entry;
  std::memcpy(
      &entry,
      file_.range(static_cast<int64_t>(sizeof(RawPackingHeader) + piece * sizeof entry), sizeof entry).data(),
      sizeof entry);
  if (whole_) return whole_sample(dataset, entry.ordinal, entry.start);
  std::vector<DocumentSpan> spans;
  int64_t left = sequence_;
  for (; left > 0 && entry.ordinal < documents_; ++entry.ordinal, entry.start = 0) {
    const auto document = static_cast<int64_t>(permutation_at(
        document_order_, static_cast<uint64_t>(documents_), static_cast<uint64_t>(entry.ordinal)));
    const int64_t length = std::min(left, dataset.labels(document) - entry.start);
    LONGHAUL_ASSERT(length > 0, "packing index points behind document {}", document);
    spans.push_back({document, entry.start, length});
    left -= length;
  }
  if (left > 0) spans.push_back({kPadding, 0, left});
  return spans;
}

std::vector<DocumentSpan> PackingIndex::whole_sample(const TokenDataset& dataset, int64_t first,
                                                     int64_t pieces) const {
  const auto list =
      static_cast<int64_t>(sizeof(RawPackingHeader) + static_cast<uint64_t>(samples_) * sizeof(PackedPiece));
  std::vector<DocumentSpan> spans;
  int64_t left = sequence_;
  for (int64_t p = first; p < first + pieces; ++p) {
    WholePiece piece;
    std::memcpy(&piece, file_.range(list + p * int64_t{sizeof piece}, sizeof piece).data(), sizeof piece);
    const int64_t length = std::min(sequence_, dataset.labels(piece.document) - piece.start);
    LONGHAUL_ASSERT(length > 0 && length <= left, "packing index has {} inputs of document {} where {} fit",
                    length, piece.document, left);
    spans.push_back({piece.document, piece.start, length});
    left -= length;
  }
  if (left > 0) spans.push_back({kPadding, 0, left});
  return spans;
}

void read_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> inputs,
               std::span<int64_t> labels) {
  const auto length = static_cast<size_t>(span.length);
  LONGHAUL_ASSERT(inputs.size() == length && labels.size() == length, "{} inputs, {} labels, length {}",
                  inputs.size(), labels.size(), length);
  const int64_t separator = dataset.identity().separator;
  if (span.document == kPadding) {
    std::fill(inputs.begin(), inputs.end(), separator);
    std::fill(labels.begin(), labels.end(), int64_t{-1});
    return;
  }
  if (dataset.identity().whole()) {
    dataset.read(span.document, span.start, inputs);
    dataset.read(span.document, span.start + span.length, labels.last(1));
    std::copy(inputs.begin() + 1, inputs.end(), labels.begin());
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

bool any_weighted(const std::vector<const TokenDataset*>& datasets) {
  return std::ranges::any_of(datasets, &TokenDataset::weighted);
}

int64_t weigh_span(const TokenDataset& dataset, const DocumentSpan& span, std::span<int64_t> labels,
                   std::span<float> weights) {
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
  // The end of the document has no bytes, so only its tokens share them; of a whole document the labels do.
  const int64_t tokens = std::min(dataset.length(span.document), dataset.labels(span.document));
  if (tokens <= 0) return static_cast<int64_t>(bytes);
  const auto before = [&](int64_t label) {
    return static_cast<int64_t>(bytes * std::min(label, tokens) / tokens);
  };
  return before(span.start + span.length) - before(span.start);
}

}  // namespace longhaul::data
