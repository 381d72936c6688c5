// Fuzz target of what a peer says once it is believed: any text as a message of a node, of the driver, of a
// client and as an answer. Either it is refused with exit code 69, or the message is written and read again
// as the same message.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "control/wire/messages.h"

namespace {

template <class Read>
void try_reader(const std::string& text, Read read) {
  try {
    const auto message = read(text, "fuzz");
    if (to_text(read(to_text(message), "fuzz")) != to_text(message)) std::abort();
  } catch (const longhaul::Error& error) {
    if (error.code() != longhaul::ExitCode::kCommunication) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::control;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try_reader(text, node_message);
  try_reader(text, driver_message);
  try_reader(text, client_message);
  try_reader(text, answer_from_text);
  return 0;
}
