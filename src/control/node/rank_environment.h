// What a rank's process inherits of its daemon's environment: what it needs to run (where files lie, languages, threads, devices, networks, the engine's
// job), and nothing else: passwords and tokens of whoever typed the command are none of its business, and a core dump would hold them. More is
// passed by name: `longhaul launch --env NAME[=VALUE]`. Source: docs/sources/reliability.md §9.2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace longhaul::control {

// How the program was called where `launch` was typed: what ranks tell to type next begins so.
inline constexpr const char* kTypedAs = "LONGHAUL_TYPED_AS";

bool rank_inherits(std::string_view name);

// NAME=VALUE of what was typed: NAME alone takes this process's value. kUsage where it has none, or where the name is one that each rank has its own of.
std::vector<std::string> passed_environment(const std::vector<std::string>& typed);

}  // namespace longhaul::control
