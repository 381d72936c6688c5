#include "base/process/variables.h"

#include <cstdlib>

namespace longhaul {

void set_variable_if_unset(const char* name, const char* value) { ::setenv(name, value, /*overwrite=*/0); }

}  // namespace longhaul
