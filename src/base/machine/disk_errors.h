// These functions tell which error of the disk an Error reports. They read what it found, since an Error from
// another rank arrives as text.
#pragma once

#include "base/error.h"

namespace longhaul {

bool says_disk_is_full(const Error& error);  // or the quota is used up
// The limit of the process or of the machine is reached: the file is not at fault.
bool says_too_many_open_files(const Error& error);

}  // namespace longhaul
