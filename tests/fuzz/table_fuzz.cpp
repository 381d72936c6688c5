// Fuzz target of Parquet files and of Arrow's stream files: any bytes under either name. Reading a column
// gives texts or throws Error 65; a program without Arrow refuses each in the same way, and tries nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "data/corpus/table_file.h"
#include "fuzz/overwrite.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  static const TemporaryFolder folder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"table.parquet", "table.arrow"}) {
    fuzz::overwrite(folder / name, text);
    try {
      size_t bytes = 0;
      data::read_table(folder / name, "text", 0, [&](int64_t, const std::string_view* row) {
        bytes += row != nullptr ? row->size() : 0;
      });
    } catch (const Error& error) {
      if (error.code() != ExitCode::kData) std::abort();
    }
  }
  return 0;
}
