// Secrets that commands take from files, since all users of a machine see what stands in a command line.
#pragma once

#include <string>

namespace longhaul::cli {

[[noreturn]] void refuse_secret(const std::string& what, std::string expected, std::string found,
                                const std::string& path, std::string hint);

// What stands in a file that nobody else may read, without the end of its line. Errors begin with `what`:
// "this token".
std::string secret_in(const std::string& path, const std::string& what, const std::string& hint);

// The token that a server asks for, of at least 16 characters. An empty path: empty, none is asked for.
std::string token_in(const std::string& path);

}  // namespace longhaul::cli
