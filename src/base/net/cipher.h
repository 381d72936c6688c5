// Keys of one connection or one role, and what is done with them: text that nobody else can read or change (AES-256-GCM), a key that two sides make of
// numbers which everybody may hear (X25519), and a signature that only one can write and all can check (Ed25519). Raw bytes, by OpenSSL.
//
//   const std::string own = random_bytes(32), shared = shared_key(own, theirs);         // they: shared_key(their_own, public_exchange_key(own))
//   const std::string sealed = seal(key, 0, "text"); opened(key, 0, sealed) == "text"    // each number once for a key
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace longhaul {

inline constexpr size_t kKeyBytes = 32;   // of every key here, public ones too
inline constexpr size_t kSealBytes = 16;  // by which a sealed text is longer
inline constexpr size_t kSignatureBytes = 64;

std::string seal(std::string_view key, uint64_t number, std::string_view text);
std::optional<std::string> opened(std::string_view key, uint64_t number, std::string_view sealed);  // nullopt: another key, number or text

std::string public_exchange_key(std::string_view own);                                 // own: 32 random bytes
std::optional<std::string> shared_key(std::string_view own, std::string_view theirs);  // nullopt: theirs is no key that may be used

std::string public_signing_key(std::string_view own);  // own: 32 random bytes
std::string signature(std::string_view own, std::string_view message);
bool is_signed(std::string_view public_key, std::string_view message, std::string_view signature);

}  // namespace longhaul
