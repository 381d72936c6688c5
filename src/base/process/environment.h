// The environment of a program to be started: this process's variables with others in place of their namesakes. Internal to src/base.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// As execve wants it; the pointers live as long as `extra` and this process's own variables. extra: NAME=VALUE. inherits: which of this process's
// own; empty: all.
std::vector<char*> merge_environment(const std::vector<std::string>& extra,
                                     const std::function<bool(std::string_view name)>& inherits = {});

}  // namespace longhaul
