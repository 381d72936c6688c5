// Base64 with "+" and "/", padded (RFC 4648 §4). At most 1 GiB.
#pragma once

#include <string>
#include <string_view>

namespace longhaul {

std::string base64(std::string_view bytes);

}  // namespace longhaul
