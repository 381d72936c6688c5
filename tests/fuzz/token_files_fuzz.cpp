// Fuzz target of token files that other programs wrote: any bytes as a file of llm.c, and any bytes cut in
// two as Megatron's .bin and .idx. The first byte says which, the two after it where the cut is. Reading
// either gives tokens of the vocabulary or throws Error 65.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "data/corpus/token_files.h"
#include "fuzz/overwrite.h"

namespace {

constexpr int64_t kVocabulary = 1000;
constexpr int32_t kSeparator = 0;

void read_all(const std::filesystem::path& path) {
  using namespace longhaul;
  try {
    for (const data::TokenFile& file : data::token_files(path)) {
      data::read_token_file(file, kVocabulary, {kSeparator}, [](std::span<const int32_t> tokens) {
        for (const int32_t token : tokens) {
          if (token <= kSeparator || token >= kVocabulary) std::abort();
        }
      });
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const longhaul::TemporaryFolder folder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (size < 3 || data[0] % 2 == 0) {
    longhaul::fuzz::overwrite(folder / "llmc.bin", text);
    read_all(folder / "llmc.bin");
    return 0;
  }
  const size_t cut = 3 + (data[1] * 256U + data[2]) % (size - 2);
  longhaul::fuzz::overwrite(folder / "megatron.bin", text.substr(3, cut - 3));
  longhaul::fuzz::overwrite(folder / "megatron.idx", text.substr(cut));
  read_all(folder / "megatron.idx");
  return 0;
}
