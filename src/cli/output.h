// The output of subcommands: results go to standard output, and nothing else does.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace longhaul::cli {

// Prints to standard output. kDisk when it cannot be written (a full disk at the end of a redirection).
void print(std::string_view text);
void print_json(const nlohmann::ordered_json& json);  // one line; bytes that are not UTF-8 become U+FFFD

// Reports an error that ends the program, on standard error and to the engine that started the program.
void report(const Error& error);

// The page, and its section, that helps with errors of this kind: "docs/guides/troubleshooting.md#data".
// Empty: none does.
std::string troubleshooting_of(ExitCode code);

}  // namespace longhaul::cli
