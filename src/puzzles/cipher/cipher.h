// Ciphers: one or two steps of known kinds with drawn keys are described in full; a text of A to Z is to be
// encrypted, or an encrypted one decrypted. given: {"direction": "encrypt" or "decrypt", "text": "HELLO",
// "steps": [{"cipher": "affine", "alphabet": "QWE…", "a": 5, "b": 3}, …]}. Source: docs/puzzles.md#cipher.
#pragma once

#include <string>
#include <string_view>

#include "puzzles/task.h"

namespace longhaul::puzzles::cipher {

std::string prompt(const nlohmann::json& given, Language language, int64_t which);

extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::cipher
