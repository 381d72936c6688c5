// The environment of a program to be started: this process's variables with others in place of their namesakes. Internal to src/base.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

// As execve wants it; the pointers live as long as `extra` and this process's own variables. extra: NAME=VALUE.
std::vector<char*> merge_environment(const std::vector<std::string>& extra);

}  // namespace longhaul
