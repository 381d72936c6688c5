#include "data/corpus/content_sample.h"

#include <algorithm>
#include <array>

#include "base/checksum.h"
#include "base/files/file.h"

namespace longhaul::data {
namespace {

constexpr int64_t kPieceBytes = 4096;
constexpr size_t kMostFiles = 1000;

}  // namespace

std::string content_sample(const std::vector<std::filesystem::path>& files) {
  Sha256 hash;
  std::array<std::byte, kPieceBytes> piece;
  const size_t taken = std::min(files.size(), kMostFiles);
  for (size_t i = 0; i < taken; ++i) {
    const File file = File::open(files[i * files.size() / taken], File::Mode::kRead);
    const int64_t last = std::max<int64_t>(0, file.size() - kPieceBytes);
    for (const int64_t offset : {int64_t{0}, last / 2, last}) {
      const size_t got = file.read_some(offset, piece);
      // So that the end of one file is not taken for the beginning of the next.
      hash.update(std::as_bytes(std::span(&got, 1)));
      hash.update(std::span(piece).first(got));
    }
  }
  return hash.hex();
}

}  // namespace longhaul::data
