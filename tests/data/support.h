// What the tests of data share: small corpora, an encoder of one id a byte, and the ids of a document as the
// model sees them.
#pragma once

#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "data/tokens/prepare.h"

namespace longhaul::data {

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline std::string gzipped(std::string_view text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

inline std::string zstd_compressed(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string xz_compressed(std::string_view text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(
      lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                              text.size(), reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
      LZMA_OK);
  out.resize(size);
  return out;
}

// One id a byte, 256 between documents. `offset` shifts the ids, for vocabularies that need four bytes.
inline Encoder byte_encoder(int32_t offset = 0) {
  Encoder encoder;
  encoder.encode = [offset](std::string_view text, std::vector<int32_t>& ids) {
    for (char c : text) ids.push_back(offset + static_cast<unsigned char>(c));
  };
  encoder.piecewise = [encode = encoder.encode]() -> Encoder::Piecewise {
    return [encode](std::string_view piece, bool, std::vector<int32_t>& ids) { encode(piece, ids); };
  };
  encoder.encode_part = [encode = encoder.encode](std::string_view text, Encoder::Place,
                                                  std::vector<int32_t>& ids) { encode(text, ids); };
  encoder.vocabulary = offset + 257;
  encoder.separator = offset + 256;
  encoder.sha256 = sha256_hex("one id a byte " + std::to_string(offset));
  return encoder;
}

// (identity, text) of every document, whatever the source.
class Collector : public CorpusSink {
 public:
  void begin(const DocumentInfo& document, Split split) override {
    documents.push_back({document.identity, ""}), splits.push_back(split);
  }
  void text(std::string_view chunk) override { documents.back().second += chunk; }
  void end(const CorpusCounts&, const CorpusPosition&) override {}
  std::vector<std::pair<std::string, std::string>> documents;
  std::vector<Split> splits;
};

inline Corpus corpus_of(const std::filesystem::path& source, int64_t held_out_percent = 0,
                        bool remove_copies = false) {
  CorpusOptions options;
  options.sources = {source.string()};
  options.held_out_percent = held_out_percent;
  options.remove_copies = remove_copies;
  return Corpus::open(options);
}

inline std::vector<std::pair<std::string, std::string>> documents_of(const Corpus& corpus) {
  Collector all;
  for (size_t s = 0; s < corpus.sources().size(); ++s) corpus.read(s, std::nullopt, all);
  return all.documents;
}

inline std::string text_of(const TokenDataset& dataset, int64_t document) {
  std::vector<int64_t> ids(static_cast<size_t>(dataset.length(document)));
  dataset.read(document, 0, ids);
  std::string text;
  for (int64_t id : ids) text += static_cast<char>(id);
  return text;
}

// A folder of `count` documents of very different lengths.
inline void write_documents(const std::filesystem::path& folder, int count, size_t longest = 900) {
  for (int i = 0; i < count; ++i) {
    std::string text;
    const size_t length = 1 + static_cast<size_t>(i) * 7919 % longest;
    for (size_t k = 0; k < length; ++k)
      text += static_cast<char>('a' + (static_cast<size_t>(i) * 31 + k * k) % 26);
    write_file(folder / fmt::format("{:04}.txt", i), text);
  }
}

template <class Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error({.code = ExitCode::kDone});
}

}  // namespace longhaul::data
