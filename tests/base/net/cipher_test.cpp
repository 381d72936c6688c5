// Against the examples of the standards (RFC 7748 §6.1, RFC 8032 §7.1) and another program's AES-256-GCM
// (that of Python's package cryptography).
#include "base/net/cipher.h"

#include <gtest/gtest.h>

#include "base/net/secret.h"

namespace longhaul {
namespace {

std::string counted_key() {
  std::string key;
  for (int i = 0; i < 32; ++i) key.push_back(static_cast<char>(i));
  return key;
}

TEST(Cipher, ExchangeIsX25519) {
  const std::string bob = from_hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  const std::string of_alice = from_hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_EQ(to_hex(public_exchange_key(bob)),
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  EXPECT_EQ(to_hex(shared_key(bob, of_alice).value()),
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  const std::string carol = random_bytes(32);
  EXPECT_EQ(shared_key(carol, public_exchange_key(bob)), shared_key(bob, public_exchange_key(carol)));
  EXPECT_FALSE(shared_key(bob, std::string(32, '\0'))) << "a number that makes the same key with everybody's";
  EXPECT_FALSE(shared_key(bob, "short"));
}

TEST(Cipher, SignaturesAreEd25519) {
  const std::string own = from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  const std::string all = public_signing_key(own);
  EXPECT_EQ(to_hex(all), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(to_hex(signature(own, "")),
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
            "d25bf5f0595bbe24655141438e7a100b");
  const std::string signed_text = signature(own, "text");
  EXPECT_TRUE(is_signed(all, "text", signed_text));
  EXPECT_FALSE(is_signed(all, "Text", signed_text));
  EXPECT_FALSE(is_signed(public_signing_key(random_bytes(32)), "text", signed_text));
  EXPECT_FALSE(is_signed(all, "text", ""));
  EXPECT_FALSE(is_signed("", "text", signed_text));
}

TEST(Cipher, SealedTextIsAes256Gcm) {
  const std::string key = counted_key(), text = "the state of the run", sealed = seal(key, 258, text);
  EXPECT_EQ(to_hex(sealed), "a6153d546acc459cc741e490cdb570e2683613821d28cd11b8084f48162463b25cec5ddd");
  EXPECT_EQ(opened(key, 258, sealed), text);
  EXPECT_EQ(opened(key, 0, seal(key, 0, "")), "");
  EXPECT_FALSE(opened(key, 259, sealed));
  EXPECT_FALSE(opened(std::string(32, 'k'), 258, sealed));
  EXPECT_FALSE(opened(key, 258, "short"));
  for (const size_t at : {size_t{0}, text.size(), sealed.size() - 1}) {
    std::string changed = sealed;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(opened(key, 258, changed)) << at;
  }
}

}  // namespace
}  // namespace longhaul
