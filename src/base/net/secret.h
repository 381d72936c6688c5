// Secrets by which processes of one job know each other: 32 random bytes in a file that its owner alone may read, and the keyed hash that
// proves to have read it without telling it. Never written to a log, an environment or a command line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longhaul {

std::string random_bytes(size_t count);                                        // of the operating system
std::string hmac_sha256(std::string_view key, std::string_view message);       // RFC 2104: 32 bytes
bool equal_in_constant_time(std::string_view first, std::string_view second);  // takes as long wherever they differ
std::string to_hex(std::string_view bytes);
std::string from_hex(std::string_view text);  // empty where it is no hexadecimal number of whole bytes

inline constexpr size_t kSecretBytes = 32;
// Error 64 unless it is a plain file of this user that nobody else may read, with 64 hexadecimal digits, and it may be a second line: "driver " and 64
// more, the key by which the driver of the job is known.
std::string read_secret(const std::filesystem::path& path);
std::string read_driver_key(const std::filesystem::path& path);  // of the same file; empty: it names none
void tell_driver_key(const std::filesystem::path& path,
                     std::string_view key);  // in the file of a secret; where it stands already nothing is written
// The one that is there, else a new one.
std::string read_or_make_secret(const std::filesystem::path& path);

}  // namespace longhaul
