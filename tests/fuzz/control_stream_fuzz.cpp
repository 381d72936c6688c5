// Fuzz target of the control plane's outermost layers: bytes of a stranger as frames, what is in them as
// greetings to both sides, and as sealed messages. Whatever comes in: frames that write themselves again, a
// refusal, or an Error with exit code 69. Nobody is believed.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/net/cipher.h"
#include "control/wire/authentication.h"
#include "control/wire/frame.h"

namespace {

void try_greetings(const std::string& text) {
  using namespace longhaul::control;
  const std::string secret(32, 's');
  const Keys keys{.of_nodes = secret, .signing = secret, .driver = longhaul::public_signing_key(secret)};
  Handshake driver(keys, own_identity("driver", "", "run", 1), true),
      node({.of_nodes = secret}, own_identity("node", "n", "run", 1), false);
  driver.opening();
  if (driver.on(text).established) std::abort();
  if (node.on(text).established) std::abort();
  if (!node.peer().job.empty() && node.on(text).established) std::abort();
  Seal seal(secret);
  if (seal.open(text)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul;
  const std::string text(reinterpret_cast<const char*>(data), size);
  control::FrameReader reader(4096);
  reader.input() = text;
  try {
    std::string again;
    while (const auto frame = reader.next()) {
      again += control::to_frame(*frame);
      try_greetings(*frame);
    }
    if (text.compare(0, again.size(), again) != 0) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kCommunication) std::abort();
  }
  try_greetings(text);
  return 0;
}
