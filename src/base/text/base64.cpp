#include "base/text/base64.h"

#include <openssl/evp.h>

namespace longhaul {

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL ends it with a zero
  const auto* const begin = reinterpret_cast<const unsigned char*>(bytes.data());
  out.resize(static_cast<size_t>(
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), begin, static_cast<int>(bytes.size()))));
  return out;
}

}  // namespace longhaul
