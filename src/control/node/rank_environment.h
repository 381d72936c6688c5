// The environment variables that a rank's process inherits from its daemon: what it needs to run (paths,
// languages, threads, devices, networks, the engine's job), and nothing else. It must not see passwords and
// tokens of the user who typed the command, and a core dump would hold them. Other variables are passed by
// name: `longhaul launch --env NAME[=VALUE]`. Source: docs/sources/reliability.md §9.2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::control {

// How the program was called where `launch` was typed. The commands that ranks suggest to type next begin
// with it.
inline constexpr const char* kTypedAs = "LONGHAUL_TYPED_AS";

bool rank_inherits(std::string_view name);

// NAME=VALUE pairs from the typed options: NAME alone takes this process's value. kUsage where there is no
// value, or where the name is one of which each rank has a value of its own.
std::vector<std::string> passed_environment(const std::vector<std::string>& typed);

}  // namespace longhaul::control
