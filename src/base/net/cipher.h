// Cryptography for one connection or one role: encryption that nobody else can read or change (AES-256-GCM),
// a key that two sides derive from numbers that everybody may see (X25519), and a signature that one key
// holder can write and all can check (Ed25519). All keys are raw bytes; OpenSSL does the work.
//
//   const std::string own = random_bytes(32), shared = shared_key(own, theirs);  // equal on both sides
//   // each number only once per key
//   const std::string sealed = seal(key, 0, "text"); opened(key, 0, sealed) == "text"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul {

inline constexpr size_t kKeyBytes = 32;   // length of every key here, public ones too
inline constexpr size_t kSealBytes = 16;  // how much longer a sealed text is
inline constexpr size_t kSignatureBytes = 64;

std::string seal(std::string_view key, uint64_t number, std::string_view text);
// nullopt: the key, number or text does not match.
std::optional<std::string> opened(std::string_view key, uint64_t number, std::string_view sealed);

std::string public_exchange_key(std::string_view own);  // own: 32 random bytes
// nullopt: theirs is no valid key.
std::optional<std::string> shared_key(std::string_view own, std::string_view theirs);

std::string public_signing_key(std::string_view own);  // own: 32 random bytes
std::string signature(std::string_view own, std::string_view message);
bool is_signed(std::string_view public_key, std::string_view message, std::string_view signature);

}  // namespace longhaul
