// Variables of this process's environment that a library reads when it starts.
#pragma once

namespace longhaul {

// Does nothing where the user has set the variable. Call it before other threads read variables.
void set_variable_if_unset(const char* name, const char* value);

}  // namespace longhaul
