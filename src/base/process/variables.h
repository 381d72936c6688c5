// Variables of this process's environment that a library reads when it starts.
#pragma once

namespace longhaul {

// What the user has set stays. Before other threads are there that read variables.
void set_variable_if_unset(const char* name, const char* value);

}  // namespace longhaul
