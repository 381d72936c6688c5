#include "base/net/cipher.h"

#include <openssl/evp.h>

#include <memory>

#include "base/error.h"

namespace longhaul {
namespace {

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, void (*)(EVP_PKEY_CTX*)>;
using Digest = std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)>;
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

Key private_key(int type, std::string_view own) {
  LONGHAUL_ASSERT(own.size() == kKeyBytes, "a key of {} bytes", own.size());
  Key key(::EVP_PKEY_new_raw_private_key(type, nullptr, bytes_of(own), own.size()), &::EVP_PKEY_free);
  LONGHAUL_ASSERT(key != nullptr, "OpenSSL offers neither X25519 nor Ed25519");
  return key;
}

Key public_key(int type, std::string_view bytes) {
  if (bytes.size() != kKeyBytes) return {nullptr, &::EVP_PKEY_free};
  return {::EVP_PKEY_new_raw_public_key(type, nullptr, bytes_of(bytes), bytes.size()), &::EVP_PKEY_free};
}

std::string public_part(int type, std::string_view own) {
  const Key key = private_key(type, own);
  std::string bytes(kKeyBytes, '\0');
  size_t length = bytes.size();
  LONGHAUL_ASSERT(
      ::EVP_PKEY_get_raw_public_key(key.get(), bytes_of(bytes), &length) == 1 && length == kKeyBytes,
      "no public key");
  return bytes;
}

std::string nonce_of(uint64_t number) {
  std::string nonce(12, '\0');
  for (size_t i = 0; i < 8; ++i) nonce[i] = static_cast<char>(number >> (8 * i));
  return nonce;
}

}  // namespace

std::string seal(std::string_view key, uint64_t number, std::string_view text) {
  LONGHAUL_ASSERT(key.size() == kKeyBytes, "a key of {} bytes", key.size());
  const Cipher cipher(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  const std::string nonce = nonce_of(number);
  std::string sealed(text.size() + kSealBytes, '\0');
  int length = 0, rest = 0;
  const bool good =
      ::EVP_EncryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, bytes_of(key), bytes_of(nonce)) == 1 &&
      ::EVP_EncryptUpdate(cipher.get(), bytes_of(sealed), &length, bytes_of(text),
                          static_cast<int>(text.size())) == 1 &&
      ::EVP_EncryptFinal_ex(cipher.get(), bytes_of(sealed) + length, &rest) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kSealBytes, bytes_of(sealed) + text.size()) ==
          1;
  LONGHAUL_ASSERT(good, "OpenSSL offers no AES-256-GCM");
  return sealed;
}

std::optional<std::string> opened(std::string_view key, uint64_t number, std::string_view sealed) {
  LONGHAUL_ASSERT(key.size() == kKeyBytes, "a key of {} bytes", key.size());
  if (sealed.size() < kSealBytes) return std::nullopt;
  const Cipher cipher(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  const std::string nonce = nonce_of(number);
  const std::string_view hidden = sealed.substr(0, sealed.size() - kSealBytes);
  std::string text(hidden.size(), '\0'), tag(sealed.substr(hidden.size()));
  int length = 0, rest = 0;
  const bool good =
      ::EVP_DecryptInit_ex(cipher.get(), ::EVP_aes_256_gcm(), nullptr, bytes_of(key), bytes_of(nonce)) == 1 &&
      ::EVP_DecryptUpdate(cipher.get(), bytes_of(text), &length, bytes_of(hidden),
                          static_cast<int>(hidden.size())) == 1 &&
      ::EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kSealBytes, bytes_of(tag)) == 1 &&
      ::EVP_DecryptFinal_ex(cipher.get(), bytes_of(text) + length, &rest) == 1;
  return good ? std::optional(text) : std::nullopt;
}

std::string public_exchange_key(std::string_view own) { return public_part(EVP_PKEY_X25519, own); }
std::string public_signing_key(std::string_view own) { return public_part(EVP_PKEY_ED25519, own); }

std::optional<std::string> shared_key(std::string_view own, std::string_view theirs) {
  const Key mine = private_key(EVP_PKEY_X25519, own), other = public_key(EVP_PKEY_X25519, theirs);
  if (other == nullptr) return std::nullopt;
  const KeyContext context(::EVP_PKEY_CTX_new(mine.get(), nullptr), &::EVP_PKEY_CTX_free);
  std::string shared(kKeyBytes, '\0');
  size_t length = shared.size();
  const bool good = ::EVP_PKEY_derive_init(context.get()) == 1 &&
                    ::EVP_PKEY_derive_set_peer(context.get(), other.get()) == 1 &&
                    ::EVP_PKEY_derive(context.get(), bytes_of(shared), &length) == 1 && length == kKeyBytes;
  return good ? std::optional(shared) : std::nullopt;
}

std::string signature(std::string_view own, std::string_view message) {
  const Key key = private_key(EVP_PKEY_ED25519, own);
  const Digest digest(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free);
  std::string bytes(kSignatureBytes, '\0');
  size_t length = bytes.size();
  const bool good =
      ::EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      ::EVP_DigestSign(digest.get(), bytes_of(bytes), &length, bytes_of(message), message.size()) == 1;
  LONGHAUL_ASSERT(good && length == kSignatureBytes, "OpenSSL does not sign");
  return bytes;
}

bool is_signed(std::string_view public_bytes, std::string_view message, std::string_view signature) {
  const Key key = public_key(EVP_PKEY_ED25519, public_bytes);
  const Digest digest(::EVP_MD_CTX_new(), &::EVP_MD_CTX_free);
  return key != nullptr && ::EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         ::EVP_DigestVerify(digest.get(), bytes_of(signature), signature.size(), bytes_of(message),
                            message.size()) == 1;
}

}  // namespace longhaul
