// Secrets by which processes of one job recognise each other: 32 random bytes in a file that only its owner
// may read, and the keyed hash that proves knowledge of the secret without revealing it. They are never
// written to a log, an environment or a command line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace longhaul {

std::string random_bytes(size_t count);                                   // from the operating system
std::string hmac_sha256(std::string_view key, std::string_view message);  // RFC 2104: 32 bytes
// Its time does not depend on where the texts differ.
bool equal_in_constant_time(std::string_view first, std::string_view second);
std::string to_hex(std::string_view bytes);
std::string from_hex(std::string_view text);  // empty where the text is no hexadecimal number of whole bytes

inline constexpr size_t kSecretBytes = 32;
// Error 64 unless the path is a regular file of this user that nobody else may read. It holds 64 hexadecimal
// digits, and it may have a second line, "driver " and 64 more digits: the public key of the job's driver,
// and a third, "node " and a name.
std::string read_secret(const std::filesystem::path& path);
std::string read_driver_key(const std::filesystem::path& path);  // from the same file; empty: it holds none
// The name after "node " on a third line: the secret is the own key of this node. Empty: it is the job's.
std::string read_node_name(const std::filesystem::path& path);
// Adds the driver key to the file of a secret; if it is there already, nothing is written.
void tell_driver_key(const std::filesystem::path& path, std::string_view key);
// Writes the file of one node's own key, which replaces an existing one.
void write_node_secret(const std::filesystem::path& path, std::string_view secret,
                       std::string_view driver_key, std::string_view node);
// Reads the existing secret, or makes a new one.
std::string read_or_make_secret(const std::filesystem::path& path);

}  // namespace longhaul
