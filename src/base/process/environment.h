// The environment of a program to be started: this process's variables, some of them replaced. Internal to
// src/base.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

// Returns the array in the form that execve needs; its pointers are valid as long as `extra` and this
// process's own variables are. extra: NAME=VALUE. inherits: chooses among this process's own variables;
// empty: all.
std::vector<char*> merge_environment(const std::vector<std::string>& extra,
                                     const std::function<bool(std::string_view name)>& inherits = {});

}  // namespace longhaul
