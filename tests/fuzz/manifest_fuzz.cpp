// Fuzz target of the checkpoint manifest. Whatever comes in: either a manifest that writes itself and reads
// back equal, or an Error with exit code 66. The input is tried as it is, and sealed with its right checksum
// so that the parser behind it is reached.
#include <cstdlib>
#include <string>

#include "base/checksum.h"
#include "base/error.h"
#include "storage/manifest.h"

namespace {

void try_manifest(std::string_view text) {
  using namespace longhaul;
  try {
    const std::string again = storage::to_text(storage::parse_manifest(text, "fuzz"));
    if (storage::to_text(storage::parse_manifest(again, "again")) != again) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCheckpoint) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_manifest(text);
  // The corpus holds sealed manifests: take the old seal off a mutated one before putting the right one on.
  const std::string body(text.substr(0, text.rfind(",\n\"manifest_sha256\"")));
  try_manifest(body + ",\n\"manifest_sha256\": \"" + longhaul::sha256_hex(body) + "\"\n}\n");
  return 0;
}
